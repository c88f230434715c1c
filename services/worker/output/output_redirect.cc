#include "services/worker/output/output_redirect.h"

#include <execinfo.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <mutex>

#include "absl/cleanup/cleanup.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace lockstep::worker {
namespace {

// By which a process ends because of what its own code does.
constexpr int kFatalSignals[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};

// What Rescue() needs, for it may use nothing but memory and system calls.
struct RescuedStream {
  int fd = -1;
  int original = -1;
  int pipe = -1;
};
RescuedStream rescued[2];
std::atomic<bool> is_armed{false};
// How many may have taken something out of a pipe that they have not written yet: raised before
// is_armed is looked at, as that is cleared before this is.
std::atomic<int> on_the_way{0};
struct sigaction earlier_actions[std::size(kFatalSignals)];

// A descriptor that does not wait (other code may have made it so) is given a moment.
void WriteAll(int fd, std::string_view bytes) {
  constexpr int kPatienceMillis = 1000;
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written > 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
      continue;
    }
    if (written < 0 && errno == EINTR) continue;
    pollfd room = {fd, POLLOUT, 0};
    const bool may_wait = written < 0 && errno == EAGAIN;
    if (!may_wait || poll(&room, 1, kPatienceMillis) <= 0) return;  // it is not taken
  }
}

// Other threads go on while one dies: what they have in their hands is written before what follows.
void AwaitWriters() {
  constexpr int kLooks = 1000;
  constexpr timespec kMillisecond = {0, 1'000'000};
  for (int i = 0; i < kLooks && on_the_way.load() > 0; ++i) nanosleep(&kMillisecond, nullptr);
}

// Writes what is left in the pipes to where it belongs, and lets later words go there at once.
void Rescue() {
  if (!is_armed.exchange(false)) return;
  AwaitWriters();
  for (const RescuedStream& stream : rescued) dup2(stream.original, stream.fd);
  char buffer[4096];
  for (const RescuedStream& stream : rescued) {
    for (ssize_t size; (size = read(stream.pipe, buffer, sizeof buffer)) > 0;) {
      WriteAll(stream.original, {buffer, static_cast<size_t>(size)});
    }
  }
}

// Where the thread was, for the log. The unwinder was loaded by Arm(); backtrace_symbols_fd() takes
// no memory.
__attribute__((noinline)) void WriteStack(int signal) {
  constexpr int kMostFrames = 40;
  constexpr int kOfTheHandler = 3;  // this function, the handler, and what the kernel returns to
  const char* const name = sigdescr_np(signal);
  WriteAll(STDERR_FILENO, "killed by a signal (");
  WriteAll(STDERR_FILENO, name == nullptr ? "unknown" : name);
  WriteAll(STDERR_FILENO, "), stack:\n");
  void* frames[kMostFrames];
  const int count = backtrace(frames, kMostFrames);
  if (count > kOfTheHandler) {
    backtrace_symbols_fd(frames + kOfTheHandler, count - kOfTheHandler, STDERR_FILENO);
  }
}

void OnFatalSignal(int signal, siginfo_t* info, void* /*context*/) {
  const int error = errno;
  Rescue();
  for (size_t i = 0; i < std::size(kFatalSignals); ++i) {
    if (kFatalSignals[i] != signal) continue;
    sigaction(signal, &earlier_actions[i], nullptr);
    // Another handler that follows (tvm-ffi's, a sanitizer's) writes a stack of its own.
    const bool ends_now =
        (earlier_actions[i].sa_flags & SA_SIGINFO) == 0 && earlier_actions[i].sa_handler == SIG_DFL;
    if (ends_now) WriteStack(signal);
  }
  errno = error;
  // What the processor has objected to happens again now; a signal that was sent would not.
  if (info->si_code <= 0) raise(signal);
}

void Arm() {
  void* some[1];
  backtrace(some, 1);
  struct sigaction action = {};
  action.sa_sigaction = OnFatalSignal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < std::size(kFatalSignals); ++i) {
    sigaction(kFatalSignals[i], &action, &earlier_actions[i]);
  }
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  // A sanitizer's report is printed, and ends the process without a signal.
  __sanitizer_set_death_callback(Rescue);
#endif
}

Status NoDescriptor() {
  return ResourceExhausted("no descriptors for what functions print: ", strerror(errno));
}

// A process may be started without it. Its number is not left to the pipes: Begin() would write
// over an end of them.
Status EnsureOpen(int standard_fd) {
  if (fcntl(standard_fd, F_GETFD) >= 0) return OkStatus();
  const int null = open("/dev/null", O_WRONLY);
  if (null == standard_fd) return OkStatus();
  if (null < 0) return NoDescriptor();
  const int taken = dup2(null, standard_fd);
  close(null);
  return taken < 0 ? NoDescriptor() : OkStatus();
}

}  // namespace

StatusOr<std::unique_ptr<OutputRedirect>> OutputRedirect::Create() {
  if (is_armed) return FailedPrecondition("this process's output is redirected already");
  std::unique_ptr<OutputRedirect> redirect(new OutputRedirect());
  LOCKSTEP_RETURN_IF_ERROR(redirect->Open());
  for (size_t i = 0; i < std::size(rescued); ++i) {
    const Stream& stream = redirect->streams_[i];
    rescued[i] = {stream.fd, stream.original, stream.pipe[0]};
  }
  static std::once_flag armed;
  std::call_once(armed, Arm);
  is_armed = true;
  return redirect;
}

Status OutputRedirect::Open() {
  streams_[0].fd = STDOUT_FILENO;
  streams_[1].fd = STDERR_FILENO;
  constexpr int kBeyondStandard = 3;
  for (const Stream& stream : streams_) LOCKSTEP_RETURN_IF_ERROR(EnsureOpen(stream.fd));
  for (Stream& stream : streams_) {
    stream.original = fcntl(stream.fd, F_DUPFD_CLOEXEC, kBeyondStandard);
    if (stream.original < 0 || pipe2(stream.pipe.data(), O_CLOEXEC) != 0) return NoDescriptor();
    // The end that is read; a thread that prints waits for room.
    fcntl(stream.pipe[0], F_SETFL, O_NONBLOCK);
  }
  return OkStatus();
}

OutputRedirect::~OutputRedirect() {
  is_armed = false;
  for (const Stream& stream : streams_) {
    for (const int fd : {stream.original, stream.pipe[0], stream.pipe[1]}) {
      if (fd >= 0) close(fd);
    }
  }
}

void OutputRedirect::Begin() {
  for (const Stream& stream : streams_) dup2(stream.pipe[1], stream.fd);
}

void OutputRedirect::End() {
  for (const Stream& stream : streams_) dup2(stream.original, stream.fd);
}

size_t OutputRedirect::Available(OutputStream stream) const {
  int bytes = 0;
  return ioctl(wait_fd(stream), FIONREAD, &bytes) == 0 ? static_cast<size_t>(bytes) : 0;
}

std::string_view OutputRedirect::Read(OutputStream stream, absl::Span<char> buffer) {
  on_the_way.fetch_add(1);
  const absl::Cleanup over = [] { on_the_way.fetch_sub(1); };
  // The process dies: whatever is in the pipe is Rescue()'s, which does not wait for readers that
  // come now.
  if (!is_armed.load()) return {};
  const ssize_t size = read(wait_fd(stream), buffer.data(), buffer.size());
  if (size <= 0) return {};
  const std::string_view bytes(buffer.data(), static_cast<size_t>(size));
  WriteAll(Of(stream).original, bytes);
  return bytes;
}

}  // namespace lockstep::worker
