// Default options and suppressions of ThreadSanitizer. TSAN_OPTIONS is read after these and wins.

#include <poll.h>

extern "C" const char* __tsan_default_options() {
  return "halt_on_error=1:abort_on_error=0:exitcode=86:second_deadlock_stack=1:history_size=4";
}

// The distribution's libzmq, libsodium (by which it decrypts) and libgloo are not instrumented:
// ThreadSanitizer sees the memory they touch through intercepted libc calls, but not the atomics
// that order those accesses.
extern "C" const char* __tsan_default_suppressions() {
  return "called_from_lib:libzmq.so\n"
         "race:libzmq.so\n"
         "called_from_lib:libsodium.so\n"
         "race:libgloo.so\n";
}

// A signal is lost that comes while a thread is in its first waiting call: that call sets up where
// ThreadSanitizer keeps signals, and what its own handler has set up meanwhile is overwritten. The
// kernel gives a process's signals to the main thread; here that waits once before any can come.
namespace {
[[maybe_unused]] const int kWaitedOnce = poll(nullptr, 0, 0);
}  // namespace
