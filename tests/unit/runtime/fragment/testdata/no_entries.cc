// A shared object that is none of a fragment.
extern "C" int lockstep_fragment_run_0() { return 0; }
