"""@tvm_ffi: the C ABI that Lockstep's functions are called by, from the pinned apache-tvm-ffi wheel.

`tools/dev setup` fetches the wheel (by hash) and unpacks it; this rule only links to the result, so
a build never downloads anything.
"""

# Also in tools/dev.d/tvm_ffi.txt, where the hashes are; `tools/dev lint` compares the two.
TVM_FFI_VERSION = "0.1.15.post2"

_BUILD = """# Written by //third_party/tvm_ffi:tvm_ffi.bzl.
package(default_visibility = ["//visibility:public"])

# tvm/ffi/c_api.h and dlpack/dlpack.h: for modules, which leave the TVMFFI* symbols undefined.
cc_library(
    name = "headers",
    hdrs = glob(["include/**/*.h"]),
    includes = ["include"],
)

cc_import(
    name = "shared",
    shared_library = "lib/libtvm_ffi.so",
)

# Headers and libtvm_ffi.so: for the processes that load modules. A program that is copied away finds the library beside
# itself, or where the packages have it.
cc_library(
    name = "tvm_ffi",
    linkopts = ["-Wl,-rpath,$$ORIGIN", "-Wl,-rpath,/usr/lib/lockstep"],
    deps = [
        ":headers",
        ":shared",
    ],
)
"""

def _tvm_ffi_repository_impl(rctx):
    root = rctx.os.environ.get("LOCKSTEP_DEPS")
    if not root:
        root = rctx.os.environ["HOME"] + "/.cache/lockstep/deps"
    package = "{}/tvm_ffi-{}/tvm_ffi".format(root, TVM_FFI_VERSION)
    for part in ["include/tvm/ffi/c_api.h", "include/dlpack/dlpack.h", "lib/libtvm_ffi.so"]:
        if not rctx.path(package + "/" + part).exists:
            fail("tvm-ffi {} is not unpacked ({}/{} is missing): run `tools/dev setup`".format(
                TVM_FFI_VERSION,
                package,
                part,
            ))
    rctx.symlink(package + "/include", "include")
    rctx.symlink(package + "/lib", "lib")
    rctx.file("BUILD.bazel", _BUILD)

tvm_ffi_repository = repository_rule(
    implementation = _tvm_ffi_repository_impl,
    environ = [
        "HOME",
        "LOCKSTEP_DEPS",
    ],
)
