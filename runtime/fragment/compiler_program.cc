#include "runtime/fragment/compiler_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>

#include "runtime/base/child_process.h"
#include "runtime/base/sanitizers.h"
#include "runtime/fragment/compile_codec.h"

namespace lockstep::fragment {
namespace {

// Of what the compiler writes for people, the end is kept: that is where it says why.
constexpr size_t kLastWordsBytes = 2048;

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { Close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  void Set(int fd) {
    Close();
    fd_ = fd;
  }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

// Ours and the child's end. A socket and no pipe: writing to one that is closed raises no signal.
struct Connection {
  Descriptor ours;
  Descriptor theirs;

  Status Open() {
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
      return ResourceExhausted("no descriptor is left to reach the fragment compiler: ",
                               std::strerror(errno));
    }
    ours.Set(ends[0]);
    theirs.Set(ends[1]);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    return OkStatus();
  }
};

struct Limits {
  uint64_t memory_bytes = 0;  // of address space; 0: any
  uint64_t cpu_seconds = 0;
};

Limits LimitsOf(const CompilerOptions& options, Deadline deadline) {
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(deadline.Remaining()).count();
  // A compiler that is built like this program would not even start with less than terabytes.
  const uint64_t memory_bytes = kSanitized ? 0 : options.memory_bytes;
  // It may have threads.
  return {memory_bytes, 4 * static_cast<uint64_t>(std::clamp<int64_t>(seconds, 1, 86'400))};
}

// It sets limits itself, too, and would take lower ones than these if it were not told.
void Tell(const Limits& limits, std::vector<std::string>& arguments) {
  const uint64_t bytes = limits.memory_bytes > 0 ? limits.memory_bytes : RLIM_INFINITY;
  arguments.push_back("--memory-bytes=" + std::to_string(bytes));
  arguments.push_back("--cpu-seconds=" + std::to_string(limits.cpu_seconds));
}

// Before anything is parsed: the child has not been told the request yet.
void Limit(pid_t pid, const Limits& limits) {
  const auto limit = [&](auto resource, uint64_t value) {
    const rlimit both{value, value};
    prlimit(pid, resource, &both, nullptr);
  };
  if (limits.memory_bytes > 0) limit(RLIMIT_AS, limits.memory_bytes);
  // A sanitizer sets this one itself while the child starts, and ends it if both do so at once.
  if (!kSanitized) limit(RLIMIT_CORE, 0);
  // Ends it also where this process is gone by then.
  limit(RLIMIT_CPU, limits.cpu_seconds);
  std::ofstream("/proc/" + std::to_string(pid) + "/oom_score_adj") << 1000;
}

// One run: what goes in and comes out, until all is said or time is up.
class Exchange {
 public:
  Exchange(const std::string& input, size_t most_bytes) : input_(input), most_(most_bytes) {}

  Status Open() {
    LOCKSTEP_RETURN_IF_ERROR(in_.Open());
    LOCKSTEP_RETURN_IF_ERROR(out_.Open());
    return err_.Open();
  }
  void SetEndsOf(ChildOptions& options) const {
    options.input_fd = in_.theirs.get();
    options.output_fd = out_.theirs.get();
    options.error_fd = err_.theirs.get();
  }
  void CloseTheirs() {
    in_.theirs.Close();
    out_.theirs.Close();
    err_.theirs.Close();
  }

  // Until the child has ended, and all that it has written is read. An error: it is to be killed.
  Status Run(const ChildProcess& child, Patience patience) {
    for (;;) {
      std::array<pollfd, 5> set{{{child.pidfd(), POLLIN, 0},
                                 {in_.ours.get(), POLLOUT, 0},
                                 {out_.ours.get(), POLLIN, 0},
                                 {err_.ours.get(), POLLIN, 0},
                                 {patience.give_up_fd, POLLIN, 0}}};
      const int count = poll(set.data(), set.size(), patience.deadline.RemainingMillis());
      // Also of one that always has something to say.
      if (patience.deadline.Expired()) return DeadlineExceeded("took too long");
      if (count < 0) {
        if (errno == EINTR) continue;
        return Internal("poll: ", std::strerror(errno));
      }
      if (set[1].revents != 0) Write();
      // A child of its own, which it should not have, may keep these open after its end.
      const bool ended = set[0].revents != 0;
      if (ended || set[2].revents != 0) Read(out_.ours, output_);
      if (ended || set[3].revents != 0) {
        Read(err_.ours, last_words_);
        if (last_words_.size() > kLastWordsBytes) {
          last_words_.erase(0, last_words_.size() - kLastWordsBytes);
        }
      }
      if (output_.size() > most_) return ResourceExhausted("answered too much");
      if (ended) return OkStatus();
      if (set[4].revents != 0) return Aborted("was given up");
    }
  }

  std::string TakeOutput() { return std::move(output_); }
  const std::string& last_words() const { return last_words_; }

 private:
  void Write() {
    while (written_ < input_.size()) {
      const ssize_t count = send(in_.ours.get(), input_.data() + written_, input_.size() - written_,
                                 MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) return;
      if (count < 0) break;  // it does not want to know more
      written_ += static_cast<size_t>(count);
    }
    in_.ours.Close();
  }
  void Read(Descriptor& from, std::string& to) const {
    std::array<char, size_t{64} << 10> chunk;
    while (from.is_open() && to.size() <= most_) {
      const ssize_t count = read(from.get(), chunk.data(), chunk.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) return;
      if (count <= 0) return from.Close();
      to.append(chunk.data(), static_cast<size_t>(count));
    }
  }

  const std::string& input_;
  const size_t most_;
  Connection in_, out_, err_;
  size_t written_ = 0;
  std::string output_;
  std::string last_words_;
};

std::string LastWords(const std::string& words) {
  const size_t end = words.find_last_not_of(" \n");
  if (end == std::string::npos) return "";
  return "; it said last: " + words.substr(0, end + 1);
}

Status NotAvailable(Kind language, const Status& why) {
  return FailedPrecondition(language == Kind::kCuda ? "fragments of CUDA source" : "fragments",
                            " are not available: ", Message(why), "; install ",
                            language == Kind::kCuda ? "that compiler and NVRTC"
                                                    : "the package with the fragment compiler",
                            ", or say where it is");
}

}  // namespace

StatusOr<CompilerProgram> CompilerProgram::Find(CompilerOptions options) {
  if (options.program.empty()) {
    StatusOr<std::string> found =
        options.language == Kind::kCuda
            ? FindProgram("lockstep-cuda-compiler", "LOCKSTEP_CUDA_COMPILER",
                          "services/compiler/cuda")
            : FindProgram("lockstep-compiler", "LOCKSTEP_COMPILER", "services/compiler");
    if (!found.ok()) return NotAvailable(options.language, found.status());
    options.program = *std::move(found);
  } else if (access(options.program.c_str(), X_OK) != 0) {
    return NotAvailable(options.language,
                        NotFound("cannot execute ", options.program, ": ", std::strerror(errno)));
  }
  return CompilerProgram(std::move(options));
}

StatusOr<CompilerIdentity> CompilerProgram::Describe(Patience patience) const {
  std::vector<std::string> arguments = options_.arguments;
  arguments.emplace_back("--describe");
  StatusOr<std::string> text = Run(arguments, "", "--describe", patience);
  // What it is made of is found while it runs, and may be missing.
  if (options_.language == Kind::kCuda && text.status().code() == StatusCode::kInternal) {
    return NotAvailable(options_.language, text.status());
  }
  if (!text.ok()) {
    return Annotate(text.status(), "the fragment compiler does not tell what it is");
  }
  CompilerIdentity identity;
  std::istringstream lines(*text);
  if (!std::getline(lines, identity.compiler) || !std::getline(lines, identity.processor) ||
      !std::getline(lines, identity.features) || identity.compiler.empty() ||
      identity.processor.empty()) {
    return Internal(options_.program, " --describe printed no three lines, but ", text->size(),
                    " bytes of something else");
  }
  return identity;
}

StatusOr<std::string> CompilerProgram::Compile(const std::string& request, const std::string& name,
                                               Patience patience) const {
  std::vector<std::string> arguments = options_.arguments;
  Tell(LimitsOf(options_, patience.deadline), arguments);
  return Run(arguments, request, name, patience);
}

StatusOr<std::string> CompilerProgram::Run(const std::vector<std::string>& arguments,
                                           const std::string& input, const std::string& what,
                                           Patience patience) const {
  Exchange exchange(input, kMaxAnswerBytes);
  LOCKSTEP_RETURN_IF_ERROR(exchange.Open());
  ChildOptions options;
  options.argv = {options_.program};
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  options.only_this_environment = true;
  if (const char* const libraries = std::getenv("LD_LIBRARY_PATH")) {
    options.environment = {std::string("LD_LIBRARY_PATH=") + libraries};
  }
  exchange.SetEndsOf(options);
  StatusOr<ChildProcess> child = ChildProcess::Spawn(options);
  if (!child.ok()) return NotAvailable(options_.language, child.status());
  exchange.CloseTheirs();
  Limit(child->pid(), LimitsOf(options_, patience.deadline));

  const Status end = exchange.Run(*child, patience);
  if (!end.ok()) {
    child->Signal(SIGKILL);
    (void)child->Wait(Deadline::After(std::chrono::seconds(1)));
    return MakeStatus(end.code(), what, ": the fragment compiler ", Message(end),
                      ", and was killed", LastWords(exchange.last_words()));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const ExitStatus exit,
                            child->Wait(Deadline::After(std::chrono::seconds(1))));
  if (exit.ok()) return exchange.TakeOutput();
  // Not by us: the kernel does that where memory is short, or a limit is reached.
  const bool by_limit = exit.signal == SIGKILL || exit.signal == SIGXCPU;
  return MakeStatus(by_limit ? StatusCode::kResourceExhausted : StatusCode::kInternal, what,
                    ": the fragment compiler ", exit.Describe(), LastWords(exchange.last_words()));
}

}  // namespace lockstep::fragment
