// lockstep-compiler: compiles one fragment, in a process that can do nothing else.
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <string>

#include "runtime/fragment/fragment.h"
#include "runtime/fragment/mlir/compiler.h"
#include "services/compiler/codec.h"
#include "services/compiler/one_request.h"
#include "services/compiler/sandbox.h"

namespace lockstep::compiler {
namespace {

constexpr size_t kMaxRequestBytes = fragment::Fragment::kMaxSourceBytes + (1 << 20);

int Fail(const Status& status) {
  std::fprintf(stderr, "lockstep-compiler: %s\n", Message(status).c_str());
  return 1;
}

StatusOr<std::string> Answer(wire::CompileRequest::Reader request, const fragment::Target& host) {
  const StatusOr<DecodedRequest> decoded = Decode(request, host);
  if (!decoded.ok()) {
    fragment::Answer answer;
    answer.failure = fragment::Failure{decoded.status().code(), Message(decoded.status())};
    return Encode(answer, host);
  }
  return Encode(fragment::Compile(decoded->request, decoded->target), decoded->target);
}

// Says what it was about when MLIR or LLVM crashed, and lets the signal end it. Async-signal-safe.
void OnCrash(int /*signal*/) {
  char text[128] = "lockstep-compiler: MLIR or LLVM has met what it did not expect, while ";
  std::strncat(text, fragment::CurrentStage(), sizeof(text) - std::strlen(text) - 2);
  std::strcat(text, "\n");
  // Where this cannot be written, the signal has to tell enough.
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) return;
}

void ExplainCrashes() {
  // Of its own: what ran out may be the stack.
  static char stack[size_t{64} << 10];
  stack_t place{};
  place.ss_sp = stack;
  place.ss_size = sizeof(stack);
  sigaltstack(&place, nullptr);
  struct sigaction action {};
  action.sa_handler = OnCrash;
  action.sa_flags = SA_ONSTACK | static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT})
    sigaction(signal, &action, nullptr);
}

int Run(const Limits& limits) {
  ExplainCrashes();
  // What is only to be had from files comes first.
  const fragment::Target host = fragment::HostTarget();
  if (const Status status = fragment::PrepareLinking(); !status.ok()) return Fail(status);
  return AnswerOneRequest(
      "lockstep-compiler", kMaxRequestBytes, limits,
      [&](wire::CompileRequest::Reader request) { return Answer(request, host); });
}

}  // namespace
}  // namespace lockstep::compiler

int main(int argc, char** argv) {
  using namespace lockstep;
  CLI::App app(
      "Compiles a fragment: reads a CompileRequest (schemas/fragment.capnp) from standard input, "
      "and writes a "
      "CompileAnswer to standard output.");
  compiler::Limits limits;
  bool describe = false;
  app.add_flag("--describe", describe,
               "Print the compiler's version, this machine's processor and its features");
  app.add_option("--memory-bytes", limits.memory_bytes, "Limit of address space");
  app.add_option("--cpu-seconds", limits.cpu_seconds, "Limit of CPU time");
  app.add_option("--file-bytes", limits.file_bytes, "Limit of what is linked");
  CLI11_PARSE(app, argc, argv);
  if (describe) {
    const fragment::Target host = fragment::HostTarget();
    std::printf("%s\n%s\n%s\n", fragment::CompilerVersion().c_str(), host.processor.c_str(),
                host.features.c_str());
    return 0;
  }
  return compiler::Run(limits);
}
