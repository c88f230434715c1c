// lockstep-compiler as a worker starts it: a request on standard input, an answer on standard
// output.
#include <capnp/message.h>
#include <capnp/serialize.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <vector>

#include "runtime/fragment/abi.h"
#include "runtime/fragment/mlir/compiler.h"
#include "schemas/fragment.capnp.h"
#include "services/compiler/sandbox.h"

namespace lockstep::fragment {
namespace {

struct Ended {
  int status = 0;  // of wait(2)
  std::string output;
  std::string errors;
};

std::string ContentOf(int file) {
  std::string content(static_cast<size_t>(lseek(file, 0, SEEK_END)), '\0');
  EXPECT_EQ(pread(file, content.data(), content.size(), 0), static_cast<ssize_t>(content.size()));
  close(file);
  return content;
}

// Runs the program with files in memory as its standard streams, so that nobody waits for a full
// pipe.
Ended RunCompiler(const std::string& input, std::vector<std::string> options = {}) {
  const int in = memfd_create("in", 0);
  const int out = memfd_create("out", 0);
  const int err = memfd_create("err", 0);
  EXPECT_EQ(write(in, input.data(), input.size()), static_cast<ssize_t>(input.size()));
  lseek(in, 0, SEEK_SET);
  options.insert(options.begin(), "services/compiler/lockstep-compiler");
  std::vector<char*> arguments;
  for (std::string& option : options) arguments.push_back(option.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
  pid_t pid = -1;
  EXPECT_EQ(posix_spawn(&pid, arguments[0], &actions, nullptr, arguments.data(), environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  Ended ended;
  EXPECT_EQ(waitpid(pid, &ended.status, 0), pid);
  ended.output = ContentOf(out);
  ended.errors = ContentOf(err);
  close(in);
  return ended;
}

std::string RequestMessage(const std::string& text, wire::CompileRequest::Want want,
                           const std::string& processor = "") {
  capnp::MallocMessageBuilder builder;
  auto request = builder.initRoot<wire::CompileRequest>();
  request.setFragment(kj::arrayPtr(reinterpret_cast<const kj::byte*>(text.data()), text.size()));
  request.setWant(want);
  request.setProcessor(processor);
  const auto words = capnp::messageToFlatArray(builder);
  const auto bytes = words.asBytes();
  return std::string(reinterpret_cast<const char*>(bytes.begin()), bytes.size());
}

class AnswerReader {
 public:
  explicit AnswerReader(const Ended& ended)
      : words_(kj::heapArray<capnp::word>(ended.output.size() / sizeof(capnp::word))) {
    EXPECT_TRUE(WIFEXITED(ended.status) && WEXITSTATUS(ended.status) == 0) << ended.status;
    std::copy_n(ended.output.data(), words_.size() * sizeof(capnp::word),
                reinterpret_cast<char*>(words_.begin()));
    message_.emplace(words_);
  }
  wire::CompileAnswer::Reader answer() { return message_->getRoot<wire::CompileAnswer>(); }

 private:
  kj::Array<capnp::word> words_;
  std::optional<capnp::FlatArrayMessageReader> message_;
};

constexpr char kTwice[] =
    "func.func @twice(%x: tensor<?xf64>) -> tensor<?xf64> {\n  %y = arith.addf %x, %x : "
    "tensor<?xf64>\n"
    "  return %y : tensor<?xf64>\n}";

TEST(CompilerProcessTest, AnswersWithTheSignatureAndTheObject) {
  AnswerReader signature(
      RunCompiler(RequestMessage(kTwice, wire::CompileRequest::Want::SIGNATURE)));
  ASSERT_TRUE(signature.answer().isSuccess());
  const std::string version = signature.answer().getCompiler().cStr();
  EXPECT_EQ(RunCompiler("", {"--describe"}).output.rfind(version + "\n", 0), 0u) << version;
  // By its build: this program, which has the same compiler in it, is another one.
  EXPECT_EQ(version.size(), CompilerVersion().size());
  EXPECT_NE(version, CompilerVersion());
  EXPECT_NE(version.find(", LLVM 19"), std::string::npos) << version;
  EXPECT_EQ(signature.answer().getProcessor().cStr(), HostTarget().processor);
  const auto success = signature.answer().getSuccess();
  EXPECT_STREQ(success.getFunction().cStr(), "twice");
  ASSERT_EQ(success.getArguments().size(), 1u);
  EXPECT_EQ(success.getArguments()[0].getType().getShape()[0], kOpen);
  EXPECT_TRUE(success.getResults()[0].getSizesKnown());
  EXPECT_EQ(success.getObject().size(), 0u);

  AnswerReader object(RunCompiler(RequestMessage(kTwice, wire::CompileRequest::Want::OBJECT)));
  ASSERT_TRUE(object.answer().isSuccess());
  EXPECT_EQ(object.answer().getSuccess().getAbiVersion(),
            static_cast<uint32_t>(LOCKSTEP_FRAGMENT_ABI_VERSION));
  const auto bytes = object.answer().getSuccess().getObject();
  ASSERT_GT(bytes.size(), 4u);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.begin()), 4),
            "\x7f"
            "ELF");
}

TEST(CompilerProcessTest, AnswersWithTheErrorAndItsPlace) {
  AnswerReader reader(RunCompiler(RequestMessage(
      "func.func @f(%x: f64) -> f64 {\n  return %y : f64\n}", wire::CompileRequest::Want::OBJECT)));
  ASSERT_TRUE(reader.answer().isFailure());
  EXPECT_EQ(reader.answer().getFailure().getLine(), 2u);
  EXPECT_EQ(reader.answer().getFailure().getColumn(), 10u);
  AnswerReader unknown(
      RunCompiler(RequestMessage(kTwice, wire::CompileRequest::Want::OBJECT, "nosuch")));
  ASSERT_TRUE(unknown.answer().isFailure());
  EXPECT_EQ(unknown.answer().getFailure().getCode(),
            static_cast<uint16_t>(StatusCode::kInvalidArgument));
}

TEST(CompilerProcessTest, InputThatIsNoRequestIsAnExitCode) {
  for (const std::string& input : {std::string(), std::string("x"), std::string(1000, '\xff')}) {
    const Ended ended = RunCompiler(input);
    EXPECT_TRUE(WIFEXITED(ended.status) && WEXITSTATUS(ended.status) == 1) << ended.status;
    EXPECT_EQ(ended.output, "");
    EXPECT_NE(ended.errors.find("the request cannot be read"), std::string::npos) << ended.errors;
  }
}

TEST(CompilerProcessTest, ACrashSaysWhatItWasAbout) {
  // MLIR 19's parser of linalg.reduce goes on with an attribute that it has not got.
  const Ended ended = RunCompiler(RequestMessage(
      "func.func @f(%x: tensor<?xf32>, %y: tensor<f32>) -> tensor<f32> {\n"
      "  %r = linalg.reduce { arith.addf } ins(%x : tensor<?xf32>) outs(%y : tensor<f32>) "
      "dimensions = [0.0]\n  return %r : tensor<f32>\n}",
      wire::CompileRequest::Want::OBJECT));
  EXPECT_TRUE(WIFSIGNALED(ended.status) && WTERMSIG(ended.status) == SIGSEGV) << ended.status;
  EXPECT_NE(ended.errors.find("while parsing"), std::string::npos) << ended.errors;
}

// Runs `attempt` in a child that has entered the sandbox; its exit code.
int InSandbox(int (*attempt)()) {
  const pid_t child = fork();
  if (child == 0) _exit(compiler::EnterSandbox().ok() ? attempt() : 99);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(CompilerProcessTest, TheSandboxAllowsNoFilesNoSocketsNoProcessesAndNoNewCode) {
  const auto allowed = [](bool succeeded) { return succeeded ? 1 : errno == EPERM ? 0 : 2; };
  static const auto kAllowed = +allowed;
  EXPECT_EQ(InSandbox([] { return kAllowed(open("/etc/hostname", O_RDONLY) >= 0); }), 0);
  EXPECT_EQ(
      InSandbox([] { return kAllowed(open("/proc/self/fd/1/../../environ", O_RDONLY) >= 0); }), 0);
  EXPECT_EQ(InSandbox([] { return kAllowed(socket(AF_INET, SOCK_STREAM, 0) >= 0); }), 0);
  EXPECT_EQ(InSandbox([] { return kAllowed(fork() >= 0); }), 0);
  EXPECT_EQ(InSandbox([] { return kAllowed(unlink("x") == 0); }), 0);
  EXPECT_EQ(InSandbox([] { return kAllowed(kill(getppid(), 0) == 0); }), 0);
  EXPECT_EQ(InSandbox([] {
              return kAllowed(mmap(nullptr, 4096, PROT_READ | PROT_EXEC,
                                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
            }),
            0);
  // Two ways around kill().
  EXPECT_EQ(InSandbox([] { return kAllowed(syscall(SYS_tgkill, getppid(), getppid(), 0) == 0); }),
            0);
  EXPECT_EQ(InSandbox([] { return kAllowed(fcntl(STDIN_FILENO, F_SETOWN, getppid()) == 0); }), 0);
  EXPECT_EQ(
      InSandbox([] { return kAllowed(fcntl(STDIN_FILENO, F_SETFL, O_ASYNC | O_NONBLOCK) == 0); }),
      0);
  EXPECT_EQ(InSandbox([] { return kAllowed(syscall(SYS_tgkill, getpid(), gettid(), 0) == 0); }), 1);
  // What is open already has a name.
  EXPECT_EQ(
      InSandbox([] {
        const int file = memfd_create("x", 0);
        return kAllowed(open(("/proc/self/fd/" + std::to_string(file)).c_str(), O_RDONLY) >= 0);
      }),
      1);
}

TEST(CompilerProcessTest, FilesInMemoryAreCounted) {
  const pid_t child = fork();
  if (child == 0) {
    if (!compiler::ApplyLimits({}).ok()) _exit(99);
    int count = 0;
    while (count < 40 && memfd_create("x", 0) >= 0) ++count;
    _exit(count < 32 && errno == EMFILE ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(CompilerProcessTest, ItsLimitsEndIt) {
  // 40,000 operations, which take LLVM more than the second that it is given.
  std::string text = "func.func @f(%x0: f64) -> f64 {\n";
  for (int i = 0; i < 40000; ++i) {
    text += "  %x" + std::to_string(i + 1) + " = math.sin %x" + std::to_string(i) + " : f64\n";
  }
  text += "  return %x40000 : f64\n}";
  const Ended slow =
      RunCompiler(RequestMessage(text, wire::CompileRequest::Want::OBJECT), {"--cpu-seconds", "1"});
  EXPECT_TRUE(WIFSIGNALED(slow.status) &&
              (WTERMSIG(slow.status) == SIGXCPU || WTERMSIG(slow.status) == SIGKILL))
      << slow.status;
  const Ended large = RunCompiler(RequestMessage(text, wire::CompileRequest::Want::OBJECT),
                                  {"--memory-bytes", "320000000"});
  EXPECT_TRUE(WIFSIGNALED(large.status)) << large.status;
}

}  // namespace
}  // namespace lockstep::fragment
