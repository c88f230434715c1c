"""fuzz_target(): one harness, built twice.

With --config=asan it is a libFuzzer program. As a test it puts every file of its corpus through the
harness once, in every configuration.
"""

def fuzz_target(name, deps):
    """Declares NAME_fuzz, made of NAME_fuzz.cc, whose corpus is corpus/NAME.

    Args:
      name: what is read.
      deps: of the harness.
    """
    native.cc_test(
        name = name + "_fuzz",
        size = "small",
        srcs = [name + "_fuzz.cc"],
        args = select({
            "//tests/fuzz:fuzzing": ["-runs=0", "tests/fuzz/corpus/" + name],
            "//conditions:default": ["tests/fuzz/corpus/" + name],
        }),
        data = native.glob(["corpus/" + name + "/*"]),
        linkopts = select({
            "//tests/fuzz:fuzzing": ["-fsanitize=fuzzer"],
            "//conditions:default": [],
        }),
        deps = deps + select({
            "//tests/fuzz:fuzzing": [],
            "//conditions:default": ["//tests/fuzz:replay"],
        }),
    )
