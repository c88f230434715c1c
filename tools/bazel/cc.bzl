"""cc_library, cc_binary and cc_test of this project: few translation units, and options by folder.

A source of ours is half a percent of what its compilation parses; the rest are headers of libraries. So a target's
sources are compiled together, FILES_PER_UNIT of them as one translation unit (docs/adr/0020). Names in unnamed
namespaces are therefore unique within a target. `--define=file_by_file=yes` compiles each source alone: for clang-tidy,
for editors, and to find a missing include.

Options depend on the package, not on the path of a source: those of a unit are those of its sources
(tools/dev.d/check_units.py compares).
"""

# About 8 s of compiling at most: what an edit in one source costs.
FILES_PER_UNIT = 10

def _unit_impl(ctx):
    unit = ctx.actions.declare_file(ctx.label.name + ".cc")
    ctx.actions.run_shell(
        inputs = ctx.files.srcs,
        outputs = [unit],
        # #line: errors, debuggers and __FILE__ name the source.
        command = "for source in {}; do printf '#line 1 \"%s\"\\n' $source; cat $source; done > {}".format(
            " ".join([source.path for source in ctx.files.srcs]),
            unit.path,
        ),
        mnemonic = "CppUnit",
        progress_message = "Joining the sources of {}".format(ctx.label),
        # Quicker than what it takes to make a sandbox.
        execution_requirements = {"no-sandbox": "1", "no-cache": "1"},
    )
    return [DefaultInfo(files = depset([unit]))]

_unit = rule(
    implementation = _unit_impl,
    attrs = {"srcs": attr.label_list(allow_files = [".cc"])},
)

def _compiled(name, srcs, files_per_unit):
    """What a native rule compiles for `srcs`: units of several sources, and the headers as they are."""
    sources = [source for source in srcs if source.endswith(".cc")]
    others = [source for source in srcs if not source.endswith(".cc")]
    if len(sources) < 2:
        return srcs
    count = (len(sources) + files_per_unit - 1) // files_per_unit
    units = []
    for i in range(count):
        unit = "{}_unit{}".format(name.replace(".", "_").replace("/", "_"), i + 1)
        # As equal in size as can be, neighbours together.
        _unit(
            name = unit,
            srcs = sources[len(sources) * i // count:len(sources) * (i + 1) // count],
            visibility = ["//visibility:private"],
        )
        units.append(":" + unit)
    return others + select({
        "//tools/bazel:file_by_file": sources,
        "//conditions:default": units,
    })

def _is_in(package, folders):
    for folder in folders:
        if package == folder or package.startswith(folder + "/"):
            return True
    return False

# Compiled often and run once.
_RUN_ONCE = ["tests/unit", "tests/integration"]

# What waits for people, for others, or for a cluster to start.
_WAITS = [
    "examples",
    "services/config",
    "services/local",
    "services/process",
    "services/remote",
    "tests",
    "tools/cli",
    "tools/text",
]

# What commands and data go through: without -O3, calls are 5 to 10 % slower, and reductions a quarter. In benchmarks, a
# client is as fast as its users compile theirs, and a rival is not held back.
_HOT = [
    "runtime",
    "services/controller",
    "services/worker",
    "tools/bench",
]

# What computes little does without optimisation where a sanitizer doubles its compilation.
_COMPUTES_LITTLE = _RUN_ONCE + ["tools/cli"]
_COMPUTES_LITTLE_UNDER_ASAN = _COMPUTES_LITTLE + [
    "runtime/client",
    "runtime/control",
    "runtime/module",
    "runtime/registers",
    "services",
]

# What runs in clusters: UndefinedBehaviorSanitizer guards it, and fuzzing counts what it runs through.
_SHIPPED = ["runtime", "schemas", "services", "tools/cli"]

# But where no fuzzed input comes, nothing is counted: that takes a fifth of the time of compiling.
_NOT_FUZZED = [
    "runtime/collective",
    "runtime/cuda",
    "runtime/fragment/mlir",
    "services/compiler",
    "services/process",
    "services/remote",
    "tools/cli/commands",
    "tools/cli/fragment",
    "tools/cli/logs",
]

def _optimised(package, hot):
    if hot or _is_in(package, _HOT):
        return ["-O3"]
    if _is_in(package, _RUN_ONCE):
        return ["-O0"]
    return ["-O1"] if _is_in(package, _WAITS) else []

def _options(hot):
    """The compiler's options of this package's sources, over those in .bazelrc."""
    package = native.package_name()
    asan = ["-O0"] if _is_in(package, _COMPUTES_LITTLE_UNDER_ASAN) else []
    if _is_in(package, _SHIPPED) and not _is_in(package, _NOT_FUZZED):
        asan.append("-fsanitize=fuzzer-no-link")
    if _is_in(package, ["tests", "tools", "examples"]):
        # Its checks, and lines of their own in stacks, double the time of compiling.
        asan += ["-fno-sanitize=undefined", "-g0"]
    return select({
        "//tools/bazel:asan": asan,
        "//tools/bazel:tsan": ["-O0"] if _is_in(package, _COMPUTES_LITTLE) else [],
        "//tools/bazel:debug": [],
        "//conditions:default": _optimised(package, hot),
    })

def _define(rule, name, srcs, copts, hot, files_per_unit, kwargs):
    rule(
        name = name,
        srcs = _compiled(name, srcs, files_per_unit),
        copts = _options(hot) + copts,
        **kwargs
    )

def cc_library(name, srcs = [], copts = [], hot = False, files_per_unit = FILES_PER_UNIT, **kwargs):
    """The native rule, compiled in units.

    Args:
      name: as of the native rule.
      srcs: sources, which are compiled together, and private headers.
      copts: more options.
      hot: it computes on the critical path, so -O3 is worth its time.
      files_per_unit: how many sources are compiled together.
      **kwargs: as of the native rule.
    """
    _define(native.cc_library, name, srcs, copts, hot, files_per_unit, kwargs)

def cc_binary(
        name,
        srcs = [],
        copts = [],
        hot = False,
        files_per_unit = FILES_PER_UNIT,
        from_archives = False,
        **kwargs):
    """The same of cc_binary.

    Args:
      name: as of cc_library.
      srcs: as of cc_library.
      copts: as of cc_library.
      hot: as of cc_library.
      files_per_unit: as of cc_library.
      from_archives: links abseil and yaml-cpp from their archives, for a program whose start is waited for.
      **kwargs: as of the native rule.
    """
    if from_archives:
        # The linker finds the first that fits, and here are no shared objects.
        kwargs["linkopts"] = ["-Lexternal/system/archives"] + kwargs.get("linkopts", [])
        kwargs["additional_linker_inputs"] = ["@system//:archives"]
    _define(native.cc_binary, name, srcs, copts, hot, files_per_unit, kwargs)

def cc_test(name, srcs = [], copts = [], hot = False, files_per_unit = FILES_PER_UNIT, **kwargs):
    """The same of cc_test: a folder's tests are one program; `shard_count` runs parts of it beside one another."""
    _define(native.cc_test, name, srcs, copts, hot, files_per_unit, kwargs)
