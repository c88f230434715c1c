"""The rules that Bazel 4.2 carries inside, under the name by which its tools load them.

Bazel's embedded repositories load @rules_cc//cc:defs.bzl. The packaged rules_cc is too new for this
Bazel, and the native rules are all that they ask for.
"""

cc_binary = native.cc_binary
cc_import = native.cc_import
cc_library = native.cc_library
cc_proto_library = native.cc_proto_library
cc_test = native.cc_test
cc_toolchain = native.cc_toolchain
cc_toolchain_suite = native.cc_toolchain_suite
fdo_prefetch_hints = native.fdo_prefetch_hints
fdo_profile = native.fdo_profile
objc_import = native.objc_import
objc_library = native.objc_library

# Never instantiated on Linux; they only have to exist for the load() to succeed.
cc_flags_supplier = None
compiler_flag = None
