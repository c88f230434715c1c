"""cuda_kernels: device code for every architecture that Lockstep is built for, as an object to link."""

load("@cuda//:config.bzl", "CUDA_ARCHITECTURES", "CUDA_HOME", "CUDA_VERSION", "have_cuda")

# constexpr functions may run on the device; anything else of the host's is an error there, and not left out.
# The same bits as on the host: no multiplication and addition in one rounding.
NVCC_FLAGS = " ".join([
    "-std=c++20",
    "-O3",
    "-fmad=false",
    "--expt-relaxed-constexpr",
    "-Werror cross-execution-space-call",
    # Comparisons of unsigned numbers with 0, in templates.
    "-diag-suppress 186",
])

def cuda_kernels(name, src, hdrs, **kwargs):
    """Defines :<name>, to link: `extern "C" const char _binary_<name>_fatbin_start[]` is the device code of `src`.

    Where the build has no CUDA it is there all the same, and empty.

    Args:
      name: of the library, and in the symbol.
      src: the .cu file.
      hdrs: labels of the headers that it includes, from the root of the repository.
      **kwargs: of the cc_library.
    """
    if have_cuda:
        _cuda_fatbin(name = name, src = src, hdrs = hdrs)
    else:
        native.genrule(
            name = name + "_absent",
            outs = [name + ".c"],
            cmd = "echo 'const char _binary_{}_fatbin_start[1] = {{0}};' > $@".format(name),
        )
    native.cc_library(
        name = name,
        srcs = [name + (".o" if have_cuda else ".c")],
        **kwargs
    )

def _cuda_fatbin(name, src, hdrs):
    """Defines :<name>.o, whose symbol _binary_<name>_fatbin_start is the device code of `src`.

    Args:
      name: what the symbol is called by.
      src: the .cu file.
      hdrs: labels of the headers that it includes, from the root of the repository.
    """
    native.genrule(
        name = name + "_compiled",
        srcs = [src] + hdrs,
        outs = [name + "_compiled.o"],
        cmd = " && ".join([
            ": nvcc {}".format(CUDA_VERSION),
            "root=$$PWD",
            "object=$$root/$@",
            "work=$$(mktemp -d)",
            "{nvcc} -fatbin -arch={architectures} {flags} -I. -o $$work/{name}.fatbin $(location {src})".format(
                nvcc = CUDA_HOME + "/bin/nvcc",
                architectures = CUDA_ARCHITECTURES,
                flags = NVCC_FLAGS,
                name = name,
                src = src,
            ),
            "cd $$work",
            "ld -r -b binary -z noexecstack -o $$object {}.fatbin".format(name),
            # As nvcc aligns it in its own objects, at least: the driver reads words.
            "objcopy --set-section-alignment .data=64 $$object",
            "rm -r $$work",
        ]),
    )

    # A tool is built once for all configurations: nvcc takes a minute, and the sanitizers do not concern it.
    native.genrule(
        name = name + "_fatbin",
        outs = [name + ".o"],
        tools = [name + "_compiled.o"],
        cmd = "cp $(execpath {}_compiled.o) $@".format(name),
    )
