"""static_library: one archive with all that some libraries need of this repository, for programs that others build."""

def _linked(deps):
    """The archives and the linker's flags of `deps` and of all that they need."""
    archives = []
    flags = []
    for dep in deps:
        for linked in dep[CcInfo].linking_context.linker_inputs.to_list():
            for library in linked.libraries:
                archive = library.pic_static_library or library.static_library
                if archive and archive not in archives:
                    archives.append(archive)
            for flag in linked.user_link_flags:
                # Where this build's own programs look is not for others.
                if flag not in flags and not flag.startswith("-Wl,-rpath"):
                    flags.append(flag)
    return archives, flags

def _static_library_impl(ctx):
    archives, flags = _linked(ctx.attr.deps)
    elsewhere, _ = _linked(ctx.attr.beside)
    archives = [archive for archive in archives if archive not in elsewhere]
    archive = ctx.actions.declare_file(ctx.label.name + ".a")
    script = ctx.actions.declare_file(ctx.label.name + ".mri")
    ctx.actions.write(script, "\n".join(
        ["create " + archive.path] + ["addlib " + one.path for one in archives] + ["save", "end", ""],
    ))
    ctx.actions.run_shell(
        inputs = archives + [script],
        outputs = [archive],
        command = "ar -M <{} && ranlib {}".format(script.path, archive.path),
        mnemonic = "StaticLibrary",
    )
    link_flags = ctx.actions.declare_file(ctx.label.name + ".flags")
    ctx.actions.write(link_flags, " ".join(flags) + "\n")
    return [DefaultInfo(files = depset([archive, link_flags]))]

static_library = rule(
    implementation = _static_library_impl,
    attrs = {
        "deps": attr.label_list(providers = [CcInfo]),
        "beside": attr.label_list(
            doc = "Of which another archive is made that programs link, too.",
            providers = [CcInfo],
        ),
    },
    doc = "Makes <name>.a, and <name>.flags: what a linker is told beside it.",
)
