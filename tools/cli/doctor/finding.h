// What a checkup finds about one subject.
#pragma once

#include <string>

namespace lockstep::cli {

enum class Verdict {
  kGood,
  kDoubtful,  // it will work, but not for everything, or not well
  kBad,       // a cluster will not start, or will fail
};

struct Finding {
  std::string subject;  // "shared memory"
  Verdict verdict = Verdict::kGood;
  std::string fact;    // how it is
  std::string remedy;  // how to mend it; empty if nothing needs to be
};

}  // namespace lockstep::cli
