extern "C" int lockstep_test_symbol_that_nobody_defines();

extern "C" int __tvm_ffi_broken(void*, const void*, int, void*) {
  return lockstep_test_symbol_that_nobody_defines();
}
