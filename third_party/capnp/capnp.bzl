"""capnp_library: C++ from Cap'n Proto schemas, with the distribution's `capnp` compiler."""

def capnp_library(name, srcs, deps = [], **kwargs):
    """Compiles schemas into a cc_library.

    The header of schemas/values.capnp is included as "schemas/values.capnp.h". Schemas import one
    another by path from the repository's root (`import "/schemas/values.capnp"`) or relative to
    themselves.

    Args:
      name: the cc_library's name.
      srcs: .capnp files of this package.
      deps: the capnp_library targets whose schemas these import.
      **kwargs: passed to the cc_library (visibility, tags, ...).
    """
    native.filegroup(
        name = name + "_schemas",
        srcs = srcs + [_schemas_of(dep) for dep in deps],
        visibility = kwargs.get("visibility"),
    )
    headers = [src + ".h" for src in srcs]
    sources = [src + ".c++" for src in srcs]
    native.genrule(
        name = name + "_compile",
        srcs = srcs + [_schemas_of(dep) for dep in deps],
        outs = headers + sources,
        # The output directory mirrors the path given on the command line. /usr/include is where
        # capnp's own schemas (/capnp/c++.capnp) live.
        cmd = " && ".join([
            "capnp compile --no-standard-import -I. -I/usr/include -oc++:$(GENDIR) " +
            " ".join(["$(location {})".format(src) for src in srcs]),
        ] + [_as_foreign_code("$(location {})".format(header)) for header in headers]),
        message = "Compiling Cap'n Proto schemas",
    )
    native.cc_library(
        name = name,
        srcs = sources,
        hdrs = headers,
        # Written by capnp, not by us: its warnings are not ours to mend.
        copts = ["-w"],
        deps = deps + ["@system//:capnp"],
        **kwargs
    )

def _as_foreign_code(header):
    """A command that makes a generated header fit for our include paths and warning flags.

    An import from the repository's root becomes #include <...>, which only system directories would
    satisfy: it is quoted instead. `system_header` keeps our warnings to our own code.
    """
    return "sed -i -e 's|^#include <\\([^>]*\\.capnp\\.h\\)>|#include \"\\1\"|' " + \
           "-e '0,/^#pragma once/s||#pragma once\\n#pragma GCC system_header|' " + header

def _schemas_of(library):
    """The label of the filegroup beside a capnp_library."""
    if ":" in library:
        return library + "_schemas"
    return "{}:{}_schemas".format(library, library.split("/")[-1])
