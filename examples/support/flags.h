// The flags of an example, as a table: a name, where the value goes, what it means.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace lockstep::examples {

struct Flag {
  std::string name;  // "--epochs", or "-w,--workers"
  // Borrowed; what it holds is the default.
  std::variant<int*, int64_t*, uint64_t*, std::string*, bool*> value;
  std::string doc;
  int64_t max = 0;                         // of integers, which are at least 1; 0: any are allowed
  std::vector<std::string> excludes = {};  // flags that stand before this one in the table
};

// Reads the command line. The program's exit code if it is to end here: after --help, or because
// of a mistake, which has been printed; else -1.
int ParseFlags(const std::string& description, const std::vector<Flag>& flags, int argc,
               char** argv);

}  // namespace lockstep::examples
