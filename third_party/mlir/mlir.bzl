"""@mlir: MLIR, LLVM and lld 19, if this machine has the distribution's packages.

They compile fragments (//runtime/fragment/mlir, docs/adr/0028). A machine without them builds everything else: what
needs them is marked `target_compatible_with = needs_mlir` (config.bzl), and `why_not` says what is missing.
LOCKSTEP_MLIR=no does without them on purpose.
"""

_HOME = "/usr/lib/llvm-19"

# One file of each package: libmlir-19-dev, llvm-19-dev, liblld-19-dev.
_PARTS = [
    "include/mlir/IR/MLIRContext.h",
    "include/llvm/IR/Module.h",
    "include/lld/Common/Driver.h",
    "lib/libMLIR.so",
    "lib/libLLVM-19.so",
    "lib/liblldELF.a",
]

_BUILD = """# Written by //third_party/mlir:mlir.bzl.
package(default_visibility = ["//visibility:public"])

# What no platform says of itself: Bazel skips what is only compatible with it, and names it.
constraint_setting(name = "mlir")

constraint_value(
    name = "installed_mlir",
    constraint_setting = ":mlir",
)

cc_library(
    name = "libraries",
    hdrs = glob(["include/**"]),
    includes = ["include"],
    linkopts = {linkopts},
)
"""

_LINKOPTS = [
    "-L" + _HOME + "/lib",
    "-Wl,-rpath," + _HOME + "/lib",
    "-llldELF",
    "-llldCommon",
    "-lMLIR",
    "-lLLVM-19",
    "-lz",
    "-lzstd",
]

_CONFIG = '''"""Whether this machine has MLIR."""

have_mlir = {have}

why_not = "{why_not}"

needs_mlir = [] if have_mlir else ["@mlir//:installed_mlir"]
'''

def _mlir_repository_impl(rctx):
    missing = [part for part in _PARTS if not rctx.path(_HOME + "/" + part).exists]
    why_not = ""
    if rctx.os.environ.get("LOCKSTEP_MLIR") == "no":
        why_not = "LOCKSTEP_MLIR=no"
    elif missing:
        why_not = "there is no {}/{}: run tools/dev setup --fragments".format(_HOME, missing[0])
    if not why_not:
        # Not all of the folder: clang's headers are there, too.
        for folder in ["lld", "llvm", "llvm-c", "mlir"]:
            rctx.symlink("{}/include/{}".format(_HOME, folder), "include/" + folder)
    rctx.file("BUILD.bazel", _BUILD.format(linkopts = [] if why_not else _LINKOPTS))
    rctx.file("config.bzl", _CONFIG.format(have = not why_not, why_not = why_not))

# LOCKSTEP_MLIR_INSTALLED changes when `tools/dev setup` has installed or upgraded the packages (.bazelrc.local).
mlir_repository = repository_rule(
    implementation = _mlir_repository_impl,
    environ = [
        "LOCKSTEP_MLIR",
        "LOCKSTEP_MLIR_INSTALLED",
    ],
)
