// What all workers have answered that were to load a fragment.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/fragment/load.h"
#include "runtime/fragment/signature.h"
#include "schemas/fragment_call.capnp.h"

namespace lockstep::fragment {

struct Loaded {
  Signature signature;
  std::vector<Load> loads;  // by rank
};

// Takes the answers as they come, and sees to it that they are one of each rank, and agree.
class LoadAnswers {
 public:
  // Of `workers` ranks.
  explicit LoadAnswers(int workers) : workers_(workers) {}

  // kInvalidArgument: it is no answer. kInternal: its rank is none of these, or has answered
  // before.
  Status Add(wire::FragmentLoaded::Reader answer);
  // After the last one. kInternal: a rank has not answered, or rank 0 has told no signature.
  // kFailedPrecondition names the ranks whose signature is not that of rank 0, which the client
  // checks calls against: their compilers differ. `fragment`: its name, for messages.
  StatusOr<Loaded> Take(const std::string& fragment) const;

 private:
  struct Answer {
    Load load;
    uint64_t digest = 0;  // of the signature
  };

  const int workers_;
  std::map<Rank, Answer> answers_;
  bool has_signature_ = false;
  Signature signature_;
};

}  // namespace lockstep::fragment
