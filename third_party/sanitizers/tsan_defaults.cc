// Default options and suppressions of ThreadSanitizer. TSAN_OPTIONS is read after these and wins.

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
