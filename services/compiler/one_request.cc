#include "services/compiler/one_request.h"

#include <capnp/serialize.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

namespace lockstep::compiler {
namespace {

// All of standard input, in words as Cap'n Proto reads them.
StatusOr<std::vector<uint64_t>> ReadInput(size_t max_bytes) {
  std::vector<uint64_t> words(max_bytes / sizeof(uint64_t));
  max_bytes = words.size() * sizeof(uint64_t);
  char* const bytes = reinterpret_cast<char*>(words.data());
  size_t size = 0;
  for (;;) {
    const ssize_t got = read(STDIN_FILENO, bytes + size, max_bytes - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Internal("standard input cannot be read: ", std::strerror(errno));
    if (got == 0) break;
    size += static_cast<size_t>(got);
    if (size == max_bytes) {
      return ResourceExhausted("the request has more than ", max_bytes, " bytes");
    }
  }
  words.resize(size / sizeof(uint64_t));
  return words;
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

Status Exchange(size_t max_request_bytes, const Limits& limits, const Answerer& answer) {
  LOCKSTEP_RETURN_IF_ERROR(ApplyLimits(limits));
  LOCKSTEP_RETURN_IF_ERROR(EnterSandbox());
  try {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<uint64_t> words, ReadInput(max_request_bytes));
    capnp::FlatArrayMessageReader message(
        {reinterpret_cast<const capnp::word*>(words.data()), words.size()});
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string bytes,
                              answer(message.getRoot<wire::CompileRequest>()));
    return WriteOutput(bytes);
  } catch (const kj::Exception& exception) {
    return InvalidArgument("the request cannot be read: ", exception.getDescription().cStr());
  }
}

}  // namespace

int AnswerOneRequest(const char* program, size_t max_request_bytes, const Limits& limits,
                     const Answerer& answer) {
  static const char* name = nullptr;  // for the handler, which knows nothing else
  name = program;
  std::set_new_handler([] {
    std::fprintf(stderr, "%s: the memory limit is reached\n", name);
    // Nobody else is to explain it.
    signal(SIGABRT, SIG_DFL);
    std::abort();
  });
  const Status status = Exchange(max_request_bytes, limits, answer);
  if (!status.ok()) {
    std::fprintf(stderr, "%s: %s\n", program, Message(status).c_str());
    return 1;
  }
  std::fflush(stderr);
  // Without taking apart what ends with the process anyway.
  _exit(0);
}

}  // namespace lockstep::compiler
