// A lockstep-cuda-compiler for fake GPUs: it reads signatures as the real one does, and knows the
// kernels of kernels.cu, which host_kernels.so beside it has. What else is in the source, it does
// not read.
#include <capnp/message.h>
#include <capnp/serialize.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/fragment/abi.h"
#include "runtime/fragment/kernel_signature.h"
#include "runtime/fragment/signature_codec.h"
#include "schemas/fragment.capnp.h"

namespace lockstep {
namespace {

constexpr char kVersion[] = "fake CUDA 1";

std::string ReadKernels(const std::string& self) {
  std::ostringstream text;
  const std::string file = self.substr(0, self.rfind('/') + 1) + "host_kernels.so";
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

void Answer(const std::string& gpu, const std::string& kernels) {
  capnp::StreamFdMessageReader message(STDIN_FILENO);
  const auto request = message.getRoot<wire::CompileRequest>();
  const auto data = request.getFragment();
  const std::string source(reinterpret_cast<const char*>(data.begin()), data.size());
  const std::string kernel = request.getEntry();
  capnp::MallocMessageBuilder builder;
  auto answer = builder.initRoot<wire::CompileAnswer>();
  answer.setCompiler(kVersion);
  answer.setProcessor(gpu);
  const auto parsed = fragment::ParseKernelSignature(source, kernel);
  if (const auto* error = std::get_if<fragment::SourceError>(&parsed)) {
    auto failure = answer.initFailure();
    failure.setCode(static_cast<uint16_t>(StatusCode::kInvalidArgument));
    failure.setMessage(error->message);
    failure.setLine(error->line);
    failure.setColumn(error->column);
  } else {
    capnp::MallocMessageBuilder scratch;
    auto signature = scratch.initRoot<wire::FragmentSignature>();
    fragment::WriteSignature(signature, std::get<fragment::KernelSignature>(parsed).signature);
    auto success = answer.initSuccess();
    success.setFunction(kernel);
    success.setArguments(signature.asReader().getArguments());
    success.setResults(signature.asReader().getResults());
    success.setObject({reinterpret_cast<const kj::byte*>(kernels.data()), kernels.size()});
    success.setAbiVersion(LOCKSTEP_FRAGMENT_ABI_VERSION);
    success.setEntry(kernel);
  }
  capnp::writeMessageToFd(STDOUT_FILENO, builder);
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  std::string gpu;
  bool describe = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view text = argv[i];
    if (text.starts_with("--gpu=")) gpu = text.substr(text.find('=') + 1);
    describe = describe || text == "--describe";
  }
  if (describe) {
    std::printf("%s\n%s\n\n", lockstep::kVersion, gpu.c_str());
    return 0;
  }
  lockstep::Answer(gpu, lockstep::ReadKernels(argv[0]));
  return 0;
}
