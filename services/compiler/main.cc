// lockstep-compiler: compiles one fragment, in a process that can do nothing else.
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>

#include "runtime/fragment/fragment.h"
#include "runtime/fragment/mlir/compiler.h"
#include "services/compiler/codec.h"
#include "services/compiler/sandbox.h"

namespace lockstep::compiler {
namespace {

constexpr size_t kMaxRequestBytes = fragment::Fragment::kMaxSourceBytes + (1 << 20);

int Fail(const Status& status) {
  std::fprintf(stderr, "lockstep-compiler: %s\n", Message(status).c_str());
  return 1;
}

// All of standard input, in words as Cap'n Proto reads them.
StatusOr<kj::Array<capnp::word>> ReadInput() {
  auto words = kj::heapArray<capnp::word>(kMaxRequestBytes / sizeof(capnp::word));
  char* const bytes = reinterpret_cast<char*>(words.begin());
  size_t size = 0;
  for (;;) {
    const ssize_t got = read(STDIN_FILENO, bytes + size, kMaxRequestBytes - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Internal("standard input cannot be read: ", std::strerror(errno));
    if (got == 0) break;
    size += static_cast<size_t>(got);
    if (size == kMaxRequestBytes) {
      return ResourceExhausted("the request has more than ", kMaxRequestBytes, " bytes");
    }
  }
  return words.slice(0, size / sizeof(capnp::word)).attach(kj::mv(words));
}

Status WriteOutput(const std::string& answer) {
  for (size_t done = 0; done < answer.size();) {
    const ssize_t written = write(STDOUT_FILENO, answer.data() + done, answer.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Internal("standard output cannot be written: ", std::strerror(errno));
    done += static_cast<size_t>(written);
  }
  return OkStatus();
}

StatusOr<std::string> Answer(const fragment::Target& host) {
  LOCKSTEP_ASSIGN_OR_RETURN(const kj::Array<capnp::word> words, ReadInput());
  capnp::FlatArrayMessageReader message(words);
  const StatusOr<DecodedRequest> decoded = Decode(message.getRoot<wire::CompileRequest>(), host);
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
  std::set_new_handler([] {
    std::fputs("lockstep-compiler: the memory limit is reached\n", stderr);
    signal(SIGABRT, SIG_DFL);
    std::abort();
  });
  if (const Status status = ApplyLimits(limits); !status.ok()) return Fail(status);
  if (const Status status = EnterSandbox(); !status.ok()) return Fail(status);
  try {
    const StatusOr<std::string> answer = Answer(host);
    if (!answer.ok()) return Fail(answer.status());
    if (const Status status = WriteOutput(*answer); !status.ok()) return Fail(status);
  } catch (const kj::Exception& exception) {
    return Fail(InvalidArgument("the request cannot be read: ", exception.getDescription().cStr()));
  }
  std::fflush(stderr);
  // Without taking apart what ends with the process anyway.
  _exit(0);
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
