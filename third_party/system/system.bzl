"""One external repository, @system, whose targets are the libraries the distribution ships.

Each target is a header-less cc_library: the headers lie in /usr/include, which the compiler already
searches as a system directory, so their warnings are not ours. What pkg-config adds are defines and
link flags. A library that is missing becomes a target that fails when it is *used*, with a message
that names the remedy; the others still build.

`//third_party/system:system.bzl` is the list to add a library to; tools/dev.d/packages/ is the list
to add its package to.
"""

# target -> pkg-config modules.
_REQUIRED = {
    "benchmark": ["benchmark"],
    "capnp": ["capnp"],
    "cli11": ["CLI11"],
    "cppzmq": ["cppzmq"],
    "gmock": ["gmock"],
    "gtest": ["gtest"],
    "gtest_main": ["gtest_main"],
    "httplib": ["cpp-httplib"],
    "json": ["nlohmann_json"],
    "prometheus_core": ["prometheus-cpp-core"],
    "prometheus_pull": ["prometheus-cpp-pull"],
    "sodium": ["libsodium"],
    "spdlog": ["spdlog"],
    "status": [
        "absl_flat_hash_map",
        "absl_inlined_vector",
        "absl_span",
        "absl_status",
        "absl_statusor",
        "absl_strings",
    ],
    "symbolize": ["absl_symbolize"],
    "xxhash": ["libxxhash"],
    "yaml_cpp": ["yaml-cpp"],
    "zmq": ["libzmq"],
}

# Linked from their archives, where the distribution has these: shared, Cap'n Proto costs every process that starts
# thousands of relocations. Only what no shared object of ours uses: archives are not for those.
_FROM_ARCHIVES = ["capnp"]

# What programs that are started often (cc_binary's `from_archives`) link from archives, too: thirty shared objects less
# are a quarter of the processor time in which a worker starts. All else shares these, above all modules, which are
# shared objects.
_PROGRAMS_FROM_ARCHIVES = ["status", "symbolize", "yaml_cpp"]

# Wanted by the backend mpi and by benchmarks. Defined when found; @system//:config.bzl says which (have_<name>).
_OPTIONAL = {
    "mpi": ["ompi-c", "ompi"],
}

_HEADER = """# Written by //third_party/system:system.bzl from what pkg-config says on this machine.
package(default_visibility = ["//visibility:public"])
"""

_LIBRARY = """
cc_library(
    name = "{name}",
    hdrs = {hdrs},
    defines = {defines},
    includes = {includes},
    linkopts = {linkopts},
)
"""

_MISSING = """
genrule(
    name = "{name}_missing",
    outs = ["{name}_missing.h"],
    cmd = "echo '{message}' >&2; exit 1",
)

cc_library(
    name = "{name}",
    hdrs = ["{name}_missing.h"],
)
"""

# Libraries without a .pc file: a header that tells whether they are there, and what links them.
_PLAIN = {
    "gloo": ("/usr/include/gloo/context.h", ["-lgloo"]),
}

# Named by abseil, and no libraries of the distribution's.
_OF_THE_COMPILER = ["atomic", "pthread", "rt"]

# Open MPI's header declares C++ bindings that nobody links.
_EXTRA_DEFINES = {"mpi": ["OMPI_SKIP_MPICXX"]}

def _pkg_config(rctx, arguments):
    """Returns the flags as a list, or None where pkg-config does not know the modules."""
    result = rctx.execute(["pkg-config"] + arguments)
    if result.return_code != 0:
        return None
    return [flag for flag in result.stdout.strip().split(" ") if flag]

def _link_include_dirs(rctx, name, cflags):
    """Makes include directories outside /usr/include visible to Bazel; returns their new paths.

    Both -I and -isystem directories become `includes`, which Bazel passes as -isystem.
    """
    directories = []
    for flag in cflags:
        if flag.startswith("-I") and flag not in ("-I/usr/include", "-I"):
            link = "include/{}/{}".format(name, len(directories))
            rctx.symlink(flag[2:], link)
            directories.append(link)
    return directories

def _archived(rctx, module, flags):
    """The flags, with -lNAME turned into its archive where there is one."""
    folder = _pkg_config(rctx, ["--variable=libdir", module])[0]
    return [
        "-l:lib{}.a".format(flag[2:]) if flag.startswith("-l") and
                                         rctx.path("{}/lib{}.a".format(folder, flag[2:])).exists else flag
        for flag in flags
    ]

def _archives(rctx):
    """The BUILD text of :archives, a folder for linkers with those of _PROGRAMS_FROM_ARCHIVES and no shared objects."""
    names = {}
    for name in _PROGRAMS_FROM_ARCHIVES:
        for module in _REQUIRED[name]:
            folder = _pkg_config(rctx, ["--variable=libdir", module])
            for flag in _pkg_config(rctx, ["--libs", module]) or []:
                if flag.startswith("-l"):
                    names[flag[2:]] = folder[0]
    for name, folder in names.items():
        archive = "{}/lib{}.a".format(folder, name)
        if rctx.path(archive).exists and name not in _OF_THE_COMPILER:
            rctx.symlink(archive, "archives/lib{}.a".format(name))
    return """
filegroup(
    name = "archives",
    srcs = glob(["archives/*.a"]),
)
"""

def _library(rctx, name, modules, include_dirs):
    """The BUILD text of one library, or None where it is not installed."""
    cflags = _pkg_config(rctx, ["--cflags"] + modules)
    libs = _pkg_config(rctx, ["--libs"] + modules)
    if cflags == None or libs == None:
        return None

    if name in _FROM_ARCHIVES:
        libs = _archived(rctx, modules[0], libs)

    # libzmq's .pc names the include directories of its private dependencies, which no user of its
    # header needs: hence directories are taken only where asked.
    includes = _link_include_dirs(rctx, name, cflags) if include_dirs else []

    # --as-needed: abseil lists some thirty shared objects, and every one costs a process start-up time.
    linkopts = ["-Wl,--push-state,--as-needed"] + libs + ["-Wl,--pop-state"] if libs else []
    return _LIBRARY.format(
        name = name,
        hdrs = "glob({})".format([d + "/**/*.h" for d in includes]) if includes else "[]",
        defines = [flag[2:] for flag in cflags if flag.startswith("-D")] + _EXTRA_DEFINES.get(name, []),
        includes = includes,
        linkopts = linkopts,
    )

def _system_libraries_impl(rctx):
    if not rctx.which("pkg-config"):
        fail("pkg-config is not installed: run `tools/dev setup`")
    build = _HEADER
    for name, modules in _REQUIRED.items():
        text = _library(rctx, name, modules, include_dirs = False)
        if not text:
            message = "@system//:{}: pkg-config finds no {}: run tools/dev setup".format(
                name,
                " ".join(modules),
            )
            text = _MISSING.format(name = name, message = message)
        build += text

    for name, (header, libs) in _PLAIN.items():
        if rctx.path(header).exists:
            build += _LIBRARY.format(name = name, hdrs = "[]", defines = [], includes = [], linkopts = libs)
        else:
            message = "@system//:{}: there is no {}: run tools/dev setup".format(name, header)
            build += _MISSING.format(name = name, message = message)

    build += _archives(rctx)

    config = '"""Which optional system libraries this machine has."""\n\n'
    for name, modules in _OPTIONAL.items():
        text = None
        for module in modules:
            text = text or _library(rctx, name, [module], include_dirs = True)
        config += "have_{} = {}\n".format(name, text != None)
        build += text or ""
    rctx.file("BUILD.bazel", build)
    rctx.file("config.bzl", config)

# LOCKSTEP_SYSTEM is a digest of the installed packages' versions, which `tools/dev setup` keeps in
# .bazelrc.local: an upgraded package refetches this repository.
system_libraries = repository_rule(
    implementation = _system_libraries_impl,
    environ = [
        "LOCKSTEP_SYSTEM",
        "PKG_CONFIG_PATH",
    ],
)
