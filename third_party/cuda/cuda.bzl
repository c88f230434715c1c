"""@cuda: the CUDA toolkit that this machine has, if it has one.

Only headers and nvcc are used. Nothing of CUDA is linked: libcuda, NCCL and NVML are loaded by the
programs while they run, so the same binaries run where there is none.

Looked for, in this order: where LOCKSTEP_CUDA says (a directory, or "no": build for CPUs only), CUDA_HOME,
/usr/local/cuda, and what `tools/dev setup --cuda` has unpacked. `have_cuda` in config.bzl says what came of it.
"""

# The GPUs that kernels are compiled for, the one place that says so: one code for every major architecture
# that the toolkit knows (13: Turing, Ampere, Hopper, Blackwell; each runs on all that share its major
# number, Ampere's on Ada too), and PTX of the newest, which drivers compile for what comes after it.
CUDA_ARCHITECTURES = "all-major"

_BUILD = """# Written by //third_party/cuda:cuda.bzl.
package(default_visibility = ["//visibility:public"])

# cuda.h, nvml.h and nccl.h.
cc_library(
    name = "headers",
    hdrs = {hdrs},
    includes = {includes},
)
"""

_CONFIG = '''"""Which CUDA toolkit this machine has."""

have_cuda = {have}

# Where it lies, and which it is.
CUDA_HOME = "{home}"
CUDA_VERSION = "{version}"
CUDA_ARCHITECTURES = "{architectures}"

# The toolkit's libnvrtc, for tests; empty: it has none.
NVRTC = "{nvrtc}"
'''

def _candidates(rctx):
    environ = rctx.os.environ
    chosen = environ.get("LOCKSTEP_CUDA", "")
    if chosen == "no":
        return []
    if chosen:
        return [chosen]
    deps = environ.get("LOCKSTEP_DEPS") or environ.get("HOME", "") + "/.cache/lockstep/deps"
    found = [environ["CUDA_HOME"]] if environ.get("CUDA_HOME") else []
    return found + ["/usr/local/cuda", deps + "/cuda/nvidia/cu13"]

def _include_of_nccl(rctx, home):
    """The directory that nccl.h lies in: the toolkit's, the wheel's beside it, or the system's; or None."""
    for directory in [home + "/include", home + "/../nccl/include"]:
        if rctx.path(directory + "/nccl.h").exists:
            return directory
    return "/usr/include" if rctx.path("/usr/include/nccl.h").exists else None

def _find(rctx):
    """A toolkit that has everything: (its directory, that of nccl.h), or None."""
    chosen = rctx.os.environ.get("LOCKSTEP_CUDA", "")
    for home in _candidates(rctx):
        nccl = _include_of_nccl(rctx, home)
        parts = ["bin/nvcc", "include/cuda.h", "include/nvml.h"]
        missing = [part for part in parts if not rctx.path(home + "/" + part).exists]
        if not nccl:
            missing.append("nccl.h")
        if not missing:
            return home, nccl
        if chosen:
            fail("LOCKSTEP_CUDA={} has no {}".format(home, ", ".join(missing)))
    return None

def _nvrtc_of(rctx, home):
    for directory in ["lib", "lib64"]:
        for version in ["13", "12"]:
            library = "{}/{}/libnvrtc.so.{}".format(home, directory, version)
            if rctx.path(library).exists:
                return library
    return ""

def _cuda_repository_impl(rctx):
    found = _find(rctx)
    version = ""
    includes = []
    if found:
        home, nccl = found
        rctx.symlink(home + "/include", "include")
        includes.append("include")
        if nccl != home + "/include" and nccl != "/usr/include":
            rctx.symlink(nccl, "nccl")
            includes.append("nccl")
        result = rctx.execute([home + "/bin/nvcc", "--version"])
        if result.return_code != 0:
            fail("{}/bin/nvcc does not run: {}".format(home, result.stderr))
        version = result.stdout.strip().split("\n")[-1]
    rctx.file("BUILD.bazel", _BUILD.format(
        hdrs = "glob({})".format([d + "/**" for d in includes]) if includes else "[]",
        includes = includes,
    ))
    rctx.file("config.bzl", _CONFIG.format(
        have = found != None,
        home = found[0] if found else "",
        version = version,
        architectures = CUDA_ARCHITECTURES,
        nvrtc = _nvrtc_of(rctx, found[0]) if found else "",
    ))

cuda_repository = repository_rule(
    implementation = _cuda_repository_impl,
    environ = [
        "CUDA_HOME",
        "HOME",
        "LOCKSTEP_CUDA",
        # Changes when `tools/dev setup` has unpacked another toolkit.
        "LOCKSTEP_CUDA_UNPACKED",
        "LOCKSTEP_DEPS",
    ],
)
