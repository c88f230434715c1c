// Running the built programs, with a deadline, and reading what they print.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace lockstep::examples {

// A directory with a short path (sockets have room for 107 bytes), gone with everything in it when
// this is destroyed.
class ScratchDirectory {
 public:
  ScratchDirectory();
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

struct ProgramResult {
  int exit_code = -1;
  std::string output;  // standard output and error
};

// Runs the program that is built at `repo_path`, relative to the repository's root, in `scratch`
// and with `scratch` as the user's runtime directory. An error if it cannot be started, is ended by
// a signal, or takes longer than two minutes (it is killed then).
StatusOr<ProgramResult> RunProgram(const ScratchDirectory& scratch, const std::string& repo_path,
                                   const std::vector<std::string>& arguments);

// The whole file; empty if there is none.
std::string ReadFile(const std::string& path);

}  // namespace lockstep::examples
