// The fragment compiler, a program of its own: asked by a request on its standard input, it answers
// on its standard output, and its end, however it comes, is no more than an error of the fragment.
//
// It parses what a client has sent, so it gets no more than it needs: no environment, no
// descriptors, a bound on its memory and its processor time, and the kernel's preference when
// memory is short. It is killed at the deadline, or when its answer becomes too large.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/fragment/fragment.h"
#include "runtime/fragment/object_key.h"

namespace lockstep::fragment {

struct CompilerOptions {
  // Where the program is; empty: $LOCKSTEP_COMPILER ($LOCKSTEP_CUDA_COMPILER), or beside this
  // program, or in PATH.
  std::string program;
  // Of its command line. With a request come --memory-bytes and --cpu-seconds.
  std::vector<std::string> arguments = {};
  // The most address space that it takes; 0: any.
  uint64_t memory_bytes = uint64_t{4} << 30;
  // What it takes: kMlir, or kCuda. Each has a program of its own.
  Kind language = Kind::kMlir;
};

// When to give a compilation up.
struct Patience {
  Deadline deadline;
  int give_up_fd = -1;  // borrowed: when it is readable; -1: never
};

// Threads: any. Each call runs a process of its own, and waits for it.
class CompilerProgram {
 public:
  // kFailedPrecondition: "fragments are not available: ...", or "fragments of CUDA source ...", if
  // there is none.
  static StatusOr<CompilerProgram> Find(CompilerOptions options);

  // What it is, and compiles for on this machine. kFailedPrecondition as Find(), if a compiler of
  // CUDA source does not find NVRTC.
  StatusOr<CompilerIdentity> Describe(Patience patience) const;

  // The bytes that it answers, unread. `name` is the fragment's, for errors.
  //
  // Errors: kDeadlineExceeded, kAborted  it was given up, and killed
  //         kResourceExhausted           it answered too much, or was killed, perhaps for memory
  //         kInternal                    it crashed, or failed without an answer: how, and what it
  //                                      said last
  //         kFailedPrecondition          it cannot be started
  StatusOr<std::string> Compile(const std::string& request, const std::string& name,
                                Patience patience) const;

  const std::string& path() const { return options_.program; }

 private:
  explicit CompilerProgram(CompilerOptions options) : options_(std::move(options)) {}

  StatusOr<std::string> Run(const std::vector<std::string>& arguments, const std::string& input,
                            const std::string& what, Patience patience) const;

  CompilerOptions options_;
};

}  // namespace lockstep::fragment
