// Standard output and error of this process, led through pipes for a while.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string_view>

#include "absl/types/span.h"
#include "runtime/base/status.h"
#include "services/worker/output/output_lines.h"

namespace lockstep::worker {

// What is read from the pipes is written to where it would have gone anyhow, so that the process's
// log has everything. Where that does not take it, readers wait, as a thread that prints would.
//
// When the process dies of a signal (abort() is one), what is still in the pipes is written there
// first, and the stack of the thread that the signal hit. What SIGKILL or _exit() leaves in them is
// lost.
//
// Threads: one at a time; Available() and wait_fd() are safe. There is one in a process.
class OutputRedirect {
 public:
  // kResourceExhausted: there are no descriptors left; kFailedPrecondition: there is another one.
  static StatusOr<std::unique_ptr<OutputRedirect>> Create();
  ~OutputRedirect();

  // Between these two, whatever the process writes to the two streams goes into the pipes.
  void Begin();
  void End();

  // Readable when there is something in the pipe: also after End(), from processes that a function
  // has started.
  int wait_fd(OutputStream stream) const { return Of(stream).pipe[0]; }
  size_t Available(OutputStream stream) const;
  // Takes what is in the pipe, up to the buffer's size. Never waits for more.
  std::string_view Read(OutputStream stream, absl::Span<char> buffer);

 private:
  struct Stream {
    int fd = -1;        // 1, 2
    int original = -1;  // a copy of what that was
    std::array<int, 2> pipe = {-1, -1};
  };

  OutputRedirect() = default;
  Status Open();
  const Stream& Of(OutputStream stream) const { return streams_[static_cast<size_t>(stream)]; }

  std::array<Stream, 2> streams_;
};

}  // namespace lockstep::worker
