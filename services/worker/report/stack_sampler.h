// The stack of another thread of this process, while it runs: what `lockstep why` shows of a
// worker.
#pragma once

#include <pthread.h>

#include <chrono>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace lockstep::worker {

// What SampleStack() needs before: the unwinder is a library, and loading it would wait for a
// thread that loads another one. kFailedPrecondition as below. Thread-safe; may be called again.
Status PrepareStackSampling();

// Interrupts `thread` by a signal (SIGURG, which is ignored otherwise), has it note down its return
// addresses, and names them; the innermost frame first. A thread in a system call that cannot be
// restarted sees EINTR. `thread` is one of this process that has not ended.
//
// kDeadlineExceeded if the thread takes no signal within `patience`: it hangs in the kernel, or its
// process is stopped. kFailedPrecondition if the program has a handler of its own for the signal.
// Threads: safe; one sample of this process is taken at a time.
StatusOr<std::vector<std::string>> SampleStack(pthread_t thread,
                                               std::chrono::milliseconds patience);

// What a stack calls the library at that path, which a linker's map has: its file's name. One that
// was loaded from memory, as fragments are, has a descriptor's path, and is called as its memory
// is.
std::string NameOfLibrary(const char* path);

}  // namespace lockstep::worker
