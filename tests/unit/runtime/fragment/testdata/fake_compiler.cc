// A compiler that does what its fragment says.
//
//     fake_compiler [--object=FILE] [--ran=FILE] [--version=FILE] [--describe]
//
// It answers with the object in FILE (test_object.so beside it), of the signature of
// test_object.cc, and adds a byte to the file `ran` for each request. In `version` is what it calls
// itself.
#include <capnp/message.h>
#include <capnp/serialize.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/fragment/abi.h"
#include "schemas/fragment.capnp.h"

namespace lockstep {
namespace {

std::string ReadWhole(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

struct Arguments {
  std::string object;
  std::string ran;
  std::string version = "fake 1";
  bool describe = false;
};

Arguments Parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    const std::string value = text.substr(text.find('=') + 1);
    if (text.starts_with("--object=")) arguments.object = ReadWhole(value);
    if (text.starts_with("--ran=")) arguments.ran = value;
    if (text.starts_with("--version=")) arguments.version = ReadWhole(value);
    if (text == "--describe") arguments.describe = true;
  }
  if (arguments.object.empty()) {
    const std::string self = argv[0];
    arguments.object = ReadWhole(self.substr(0, self.rfind('/') + 1) + "test_object.so");
  }
  return arguments;
}

void SetType(wire::FragmentType::Builder type, wire::DType dtype, bool scalar,
             const std::vector<int64_t>& extents) {
  type.setDtype(dtype);
  type.setScalar(scalar);
  auto shape = type.initShape(static_cast<unsigned>(extents.size()));
  for (unsigned i = 0; i < extents.size(); ++i) shape.set(i, extents[i]);
}

// sum(i64, tensor<?xf64>) -> (tensor<?xf64>)
void SetSignature(wire::CompileAnswer::Success::Builder success) {
  success.setFunction("sum");
  auto arguments = success.initArguments(2);
  SetType(arguments[0].initType(), wire::DType::INT64, true, {});
  SetType(arguments[1].initType(), wire::DType::FLOAT64, false, {-1});
  arguments[1].setUsesOffset(true);
  auto results = success.initResults(1);
  SetType(results[0].initType(), wire::DType::FLOAT64, false, {-1});
  results[0].setSizesKnown(true);
}

void Answer(const std::string& fragment, const Arguments& arguments, bool wants_object) {
  capnp::MallocMessageBuilder message;
  auto answer = message.initRoot<wire::CompileAnswer>();
  answer.setCompiler(arguments.version);
  answer.setProcessor("cpu");
  answer.setFeatures("+all");
  if (fragment == "wrong" || fragment == "limited") {
    auto failure = answer.initFailure();
    failure.setCode(fragment == "wrong" ? 3 : 8);  // invalidArgument, resourceExhausted
    failure.setMessage("operand types differ");
    failure.setLine(3);
    failure.setColumn(10);
    failure.setOperation("arith.addf");
  } else {
    auto success = answer.initSuccess();
    SetSignature(success);
    success.setAbiVersion(fragment == "old" ? 0 : LOCKSTEP_FRAGMENT_ABI_VERSION);
    const std::string object = fragment == "no object" ? "no object" : arguments.object;
    if (wants_object) {
      success.setObject({reinterpret_cast<const kj::byte*>(object.data()), object.size()});
    }
  }
  capnp::writeMessageToFd(STDOUT_FILENO, message);
}

int Run(const Arguments& arguments, int argc, char** argv) {
  capnp::StreamFdMessageReader message(STDIN_FILENO);
  const auto request = message.getRoot<wire::CompileRequest>();
  const auto data = request.getFragment();
  const std::string fragment(reinterpret_cast<const char*>(data.begin()), data.size());
  if (!arguments.ran.empty()) std::ofstream(arguments.ran, std::ios::app) << '.';
  if (fragment == "crash") {
    std::fprintf(stderr, "it is all over\n");
    std::abort();
  }
  if (fragment == "hang") {
    for (;;) pause();
  }
  if (fragment == "give up") {
    std::fprintf(stderr, "cannot go on\n");
    return 3;
  }
  if (fragment == "environment") {
    for (char** variable = environ; *variable != nullptr; ++variable) std::puts(*variable);
    return 0;
  }
  if (fragment == "arguments") {
    for (int i = 1; i < argc; ++i) std::puts(argv[i]);
    return 0;
  }
  if (fragment == "chatter") {
    for (;;) std::fprintf(stderr, "still at it\n");
  }
  if (fragment == "memory") {
    // Used, so that it is not left out.
    std::string memory(size_t{2} << 30, 'm');
    std::fprintf(stderr, "%c\n", memory[memory.size() / 2]);
    return 0;
  }
  if (fragment == "too much") {
    const std::string block(size_t{1} << 20, 'x');
    for (;;) {
      if (std::fwrite(block.data(), 1, block.size(), stdout) != block.size()) return 1;
    }
  }
  if (fragment == "nonsense") {
    std::puts("what is this?");
    return 0;
  }
  if (fragment == "nothing") return 0;
  Answer(fragment, arguments, request.getWant() == wire::CompileRequest::Want::OBJECT);
  return 0;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  const lockstep::Arguments arguments = lockstep::Parse(argc, argv);
  if (arguments.describe) {
    std::printf("%s\ncpu\n+all\n", arguments.version.c_str());
    return 0;
  }
  return lockstep::Run(arguments, argc, argv);
}
