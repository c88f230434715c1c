"""@rocm: the headers of HIP and RCCL, if this machine has them.

Looked for where LOCKSTEP_ROCM says, then in /opt/rocm and /usr. `have_rocm` in config.bzl says what came of
it. Nothing of ROCm is linked: librccl is loaded by the programs while they run.
"""

_BUILD = """# Written by //third_party/rocm:rocm.bzl.
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "headers",
    hdrs = glob(["include/**"]),
    includes = ["include"],
)
"""

_NEEDED = ["include/rccl/rccl.h", "include/hip/hip_runtime_api.h"]

def _rocm_repository_impl(rctx):
    chosen = rctx.os.environ.get("LOCKSTEP_ROCM", "")
    found = None
    for home in [chosen] if chosen else ["/opt/rocm", "/usr"]:
        missing = [part for part in _NEEDED if not rctx.path(home + "/" + part).exists]
        if not missing:
            found = home
            break
        if chosen:
            fail("LOCKSTEP_ROCM={} has no {}".format(home, ", ".join(missing)))
    if found:
        # Not all of /usr/include.
        for folder in ["rccl", "hip"]:
            rctx.symlink("{}/include/{}".format(found, folder), "include/" + folder)
    rctx.file("BUILD.bazel", _BUILD)
    rctx.file("config.bzl", '"""Whether this machine has ROCm."""\n\nhave_rocm = {}\n'.format(found != None))

rocm_repository = repository_rule(
    implementation = _rocm_repository_impl,
    environ = ["LOCKSTEP_ROCM"],
)
