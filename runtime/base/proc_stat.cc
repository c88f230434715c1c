#include "runtime/base/proc_stat.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>
#include <string>

namespace lockstep {

std::optional<ProcStat> ReadProcStat(pid_t pid) {
  const std::string directory = "/proc/" + std::to_string(pid);
  // The kernel asks the same question before it follows this link as before it tells an exit code
  // (ptrace(2), PTRACE_MODE_READ_FSCREDS). There is no link any more in a process that has ended.
  char link[1];
  const bool may_see = readlink((directory + "/exe").c_str(), link, sizeof link) >= 0 ||
                       (errno != EACCES && errno != EPERM);
  const int fd = open((directory + "/stat").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  char text[2048];
  const ssize_t size = read(fd, text, sizeof text - 1);
  close(fd);
  if (size <= 0) return std::nullopt;
  text[size] = '\0';
  // The program's name, in parentheses, may hold anything.
  const char* after_name = std::strrchr(text, ')');
  if (after_name == nullptr) return std::nullopt;
  std::istringstream fields(after_name + 1);
  constexpr int kState = 3;
  constexpr int kExitCode = 52;
  ProcStat stat;
  fields >> stat.state;
  std::string field;
  for (int i = kState + 1; i <= kExitCode && fields >> field; ++i) {
    if (i == kExitCode) stat.exit_status = std::stoi(field);
  }
  stat.may_see = may_see;
  return stat;
}

}  // namespace lockstep
