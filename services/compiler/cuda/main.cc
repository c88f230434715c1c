// lockstep-cuda-compiler: compiles one kernel of CUDA C++, in a process that can do nothing else.
#include <capnp/message.h>
#include <capnp/serialize.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <string>
#include <variant>

#include "runtime/fragment/abi.h"
#include "runtime/fragment/fragment.h"
#include "runtime/fragment/signature_codec.h"
#include "services/compiler/cuda/compile_kernel.h"
#include "services/compiler/cuda/nvrtc.h"
#include "services/compiler/one_request.h"

namespace lockstep::compiler {
namespace {

constexpr size_t kMaxRequestBytes = fragment::Fragment::kMaxSourceBytes + (1 << 20);

struct Target {
  std::string gpu;  // "sm_90"
  int architecture = 0;
};

StatusOr<Target> ReadTarget(const std::string& gpu) {
  constexpr std::string_view kPrefix = "sm_";
  Target target{gpu};
  const std::string number = gpu.starts_with(kPrefix) ? gpu.substr(kPrefix.size()) : "";
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), target.architecture);
  if (error != std::errc() || end != number.data() + number.size()) {
    return InvalidArgument("--gpu is to be such as sm_90, and is \"", gpu, "\"");
  }
  return target;
}

// Another number means another object for the same source.
std::string CompilerVersion(const Nvrtc& nvrtc) {
  return "lockstep-cuda-compiler 2, NVRTC " + nvrtc.version();
}

void EncodeSuccess(const CompiledKernel& kernel, wire::CompileAnswer::Success::Builder message) {
  capnp::MallocMessageBuilder scratch;
  auto signature = scratch.initRoot<wire::FragmentSignature>();
  fragment::WriteSignature(signature, kernel.signature);
  message.setFunction(kernel.signature.function);
  message.setArguments(signature.asReader().getArguments());
  message.setResults(signature.asReader().getResults());
  const std::string& bytes = kernel.image.bytes;
  message.setObject({reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size()});
  message.setAbiVersion(LOCKSTEP_FRAGMENT_ABI_VERSION);
  message.setEntry(kernel.image.entry);
}

std::string Answer(const Nvrtc& nvrtc, const Target& target, wire::CompileRequest::Reader request) {
  const auto text = request.getFragment();
  const KernelSource source{std::string(reinterpret_cast<const char*>(text.begin()), text.size()),
                            std::string(request.getEntry().begin(), request.getEntry().size())};
  auto made = CompileKernel(nvrtc, source, target.architecture,
                            request.getWant() == wire::CompileRequest::Want::OBJECT);
  const auto* const compiled = std::get_if<CompiledKernel>(&made);
  if (compiled != nullptr && compiled->image.bytes.size() > request.getMaxObjectBytes()) {
    made = KernelFailure{ResourceExhausted("the compiled kernel has ", compiled->image.bytes.size(),
                                           " bytes, more than the ", request.getMaxObjectBytes(),
                                           " that are allowed")};
  }
  capnp::MallocMessageBuilder builder;
  auto answer = builder.initRoot<wire::CompileAnswer>();
  answer.setCompiler(CompilerVersion(nvrtc));
  answer.setProcessor(target.gpu);
  if (const auto* const failed = std::get_if<KernelFailure>(&made)) {
    auto failure = answer.initFailure();
    failure.setCode(static_cast<uint16_t>(failed->status.code()));
    failure.setMessage(Message(failed->status));
    failure.setLine(failed->line);
    failure.setColumn(failed->column);
  } else {
    EncodeSuccess(std::get<CompiledKernel>(made), answer.initSuccess());
  }
  const kj::Array<capnp::word> words = capnp::messageToFlatArray(builder);
  const auto bytes = words.asBytes();
  return std::string(reinterpret_cast<const char*>(bytes.begin()), bytes.size());
}

int Run(const std::string& gpu, const std::string& library, bool describe, const Limits& limits) {
  const StatusOr<Target> target = ReadTarget(gpu);
  StatusOr<Nvrtc> nvrtc = target.ok() ? Nvrtc::Load(library) : target.status();
  if (!nvrtc.ok()) {
    std::fprintf(stderr, "lockstep-cuda-compiler: %s\n", Message(nvrtc.status()).c_str());
    return 1;
  }
  if (describe) {
    std::printf("%s\n%s\n\n", CompilerVersion(*nvrtc).c_str(), target->gpu.c_str());
    return 0;
  }
  return AnswerOneRequest(
      "lockstep-cuda-compiler", kMaxRequestBytes, limits,
      [&](wire::CompileRequest::Reader request) { return Answer(*nvrtc, *target, request); });
}

}  // namespace
}  // namespace lockstep::compiler

int main(int argc, char** argv) {
  using namespace lockstep;
  CLI::App app(
      "Compiles a kernel of CUDA C++: reads a CompileRequest (schemas/fragment.capnp) from "
      "standard "
      "input, and writes a CompileAnswer to standard output.");
  compiler::Limits limits;
  std::string gpu;
  std::string library;
  bool describe = false;
  app.add_option("--gpu", gpu, "What to compile for: sm_90 is compute capability 9.0")->required();
  app.add_option("--nvrtc", library, "The file to load NVRTC from");
  app.add_flag("--describe", describe, "Print the compiler's version, the GPU, and an empty line");
  app.add_option("--memory-bytes", limits.memory_bytes, "Limit of address space");
  app.add_option("--cpu-seconds", limits.cpu_seconds, "Limit of CPU time");
  CLI11_PARSE(app, argc, argv);
  return compiler::Run(gpu, library, describe, limits);
}
