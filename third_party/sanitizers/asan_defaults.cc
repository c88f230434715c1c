// Default options of AddressSanitizer, LeakSanitizer and UndefinedBehaviorSanitizer: the first
// report ends the process. The environment's ASAN_OPTIONS etc. are read after these and win.

extern "C" const char* __asan_default_options() {
  return "halt_on_error=1:abort_on_error=0:exitcode=86:detect_stack_use_after_return=1:"
         "strict_string_checks=1:check_initialization_order=1:detect_leaks=1";
}

extern "C" const char* __ubsan_default_options() {
  return "halt_on_error=1:print_stacktrace=1:exitcode=86";
}
