"""gpu_test: a test that runs twice, on the fake GPUs of tests/fakes and on real ones."""

load("@cuda//:config.bzl", "have_cuda")
load("//tools/bazel:cc.bzl", "cc_test")

def gpu_test(name, srcs, deps, fakes = ["//tests/fakes/cuda:linked"], tags = [], **kwargs):
    """Defines :<name>, on fakes, and :<name>_on_gpu, which skips where there is no GPU.

    Both skip where the build has no CUDA: the sources call LOCKSTEP_SKIP_WITHOUT_GPU() (tests/support/gpu.h).
    """
    cc_test(
        name = name,
        srcs = srcs,
        deps = deps + fakes + ["//tests/support:gpu"],
        local_defines = ["LOCKSTEP_FAKE_GPU=1"] if have_cuda else [],
        tags = tags,
        **kwargs
    )
    cc_test(
        name = name + "_on_gpu",
        srcs = srcs,
        deps = deps + ["//tests/support:gpu"],
        # One GPU has to do for all.
        tags = tags + [
            "exclusive",
            "gpu",
        ],
        **kwargs
    )
