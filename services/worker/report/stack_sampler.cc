#include "services/worker/report/stack_sampler.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "absl/debugging/symbolize.h"
#include "runtime/base/deadline.h"

namespace lockstep::worker {
namespace {

// Its default action is to be ignored: one that arrives late does no harm.
constexpr int kSignal = SIGURG;
constexpr int kMaxFrames = 64;
// The handler's own frame, and the kernel's trampoline into it.
constexpr int kFramesOfTheHandler = 2;

// What the handler and the thread that asks share. Only lock-free atomics and plain memory: a
// handler may use nothing else.
enum class State { kIdle, kWanted, kTaking, kTaken };
std::atomic<State> state{State::kIdle};
std::atomic<pthread_t> wanted{};
void* frames[kMaxFrames];
int frame_count = 0;

void TakeStack(int /*signal*/) {
  const int error = errno;
  State expected = State::kWanted;
  // One that comes too late must not answer for another thread.
  if (pthread_equal(wanted.load(std::memory_order_acquire), pthread_self()) != 0 &&
      state.compare_exchange_strong(expected, State::kTaking)) {
    // By the unwinding tables, so frames without a frame pointer are seen, too. Takes no lock since
    // glibc 2.35, once it has loaded the unwinder, for which PrepareStackSampling() calls it.
    frame_count = backtrace(frames, kMaxFrames);
    state.store(State::kTaken, std::memory_order_release);
  }
  errno = error;
}

}  // namespace

Status PrepareStackSampling() {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  struct sigaction current = {};
  sigaction(kSignal, nullptr, &current);
  if (current.sa_handler == TakeStack) return OkStatus();
  if (current.sa_handler != SIG_DFL && current.sa_handler != SIG_IGN) {
    return FailedPrecondition("this program has a handler of its own for ", strsignal(kSignal));
  }
  void* some[1];
  backtrace(some, 1);
  struct sigaction action = {};
  action.sa_handler = TakeStack;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  if (sigaction(kSignal, &action, nullptr) != 0) {
    return Internal("cannot handle ", strsignal(kSignal), ": ", std::strerror(errno));
  }
  absl::InitializeSymbolizer("/proc/self/exe");
  return OkStatus();
}

std::string NameOfLibrary(const char* path) {
  constexpr std::string_view kDescriptors = "/proc/self/fd/";
  constexpr std::string_view kMemory = "/memfd:";
  constexpr std::string_view kGone = " (deleted)";
  std::string name = path;
  char target[512];
  ssize_t length = -1;
  if (name.rfind(kDescriptors, 0) == 0) length = readlink(path, target, sizeof target);
  if (length > 0) name.assign(target, static_cast<size_t>(length));
  if (name.rfind(kMemory, 0) == 0) {
    name.erase(0, kMemory.size());
    if (const size_t gone = name.rfind(kGone); gone != std::string::npos) name.resize(gone);
    return name;
  }
  return name.substr(name.rfind('/') + 1);
}

namespace {

// `is_return_address`: it may be the first of the next function, and one before it is in the call.
std::string NameOf(void* address, bool is_return_address) {
  char name[512];
  const char* in_code = static_cast<char*>(address) - (is_return_address ? 1 : 0);
  if (absl::Symbolize(in_code, name, sizeof name)) return name;
  // Takes no lock, unlike dladdr(): who loads a library holds that for as long as its constructors
  // run, and is the one that is looked at.
  dl_find_object library;
  if (_dl_find_object(address, &library) == 0 && library.dlfo_link_map != nullptr) {
    std::snprintf(name, sizeof name, "%s+0x%tx",
                  NameOfLibrary(library.dlfo_link_map->l_name).c_str(),
                  static_cast<char*>(address) - static_cast<char*>(library.dlfo_map_start));
  } else {
    std::snprintf(name, sizeof name, "%p", address);
  }
  return name;
}

}  // namespace

StatusOr<std::vector<std::string>> SampleStack(pthread_t thread,
                                               std::chrono::milliseconds patience) {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  LOCKSTEP_RETURN_IF_ERROR(PrepareStackSampling());
  // One that did not end in time may go on writing the frames until it does.
  State last = State::kTaken;
  if (state.load(std::memory_order_acquire) == State::kTaking) {
    return DeadlineExceeded("a thread that was asked before has not shown its stack yet");
  }
  (void)state.compare_exchange_strong(last, State::kIdle);
  wanted.store(thread, std::memory_order_release);
  state.store(State::kWanted, std::memory_order_release);
  const int error = pthread_kill(thread, kSignal);
  const Deadline deadline = Deadline::After(patience);
  while (error == 0 && state.load(std::memory_order_acquire) != State::kTaken &&
         !deadline.Expired()) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  State expected = State::kWanted;
  if (state.compare_exchange_strong(expected, State::kIdle)) {
    if (error != 0) return NotFound("the thread has ended");
    return DeadlineExceeded("the thread took no signal within ", patience.count(),
                            " ms: it hangs in the kernel, or its process is stopped");
  }
  if (expected == State::kTaking) {
    return DeadlineExceeded("the thread has not shown its stack within ", patience.count(),
                            " ms: something holds it, a debugger perhaps");
  }
  std::vector<std::string> names;
  for (int i = kFramesOfTheHandler; i < frame_count; ++i) {
    names.push_back(NameOf(frames[i], /*is_return_address=*/i > kFramesOfTheHandler));
  }
  state.store(State::kIdle, std::memory_order_release);
  return names;
}

}  // namespace lockstep::worker
