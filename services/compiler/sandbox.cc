#include "services/compiler/sandbox.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <vector>

namespace lockstep::compiler {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr uint32_t kArchitecture = 0;
#endif

constexpr int kAllowed[] = {
    SYS_read,          SYS_write,          SYS_pread64,
    SYS_lseek,         SYS_close,          SYS_fstat,
    SYS_dup3,          SYS_ftruncate,      SYS_brk,
    SYS_munmap,        SYS_mremap,         SYS_madvise,
    SYS_futex,         SYS_exit,           SYS_exit_group,
    SYS_rt_sigaction,  SYS_rt_sigprocmask, SYS_rt_sigreturn,
    SYS_sigaltstack,   SYS_getpid,         SYS_gettid,
    SYS_clock_gettime, SYS_getrandom,      SYS_sched_yield,
    SYS_getrusage,     SYS_sysinfo,        SYS_sched_getaffinity,
    SYS_memfd_create,
#if defined(__x86_64__)
    SYS_dup2,
#endif
};
// Of fcntl(): others can have signals sent to any process of this user (F_SETOWN).
constexpr int kAllowedFcntl[] = {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL};
// Allowed without PROT_EXEC in their third argument.
constexpr int kNotExecutable[] = {SYS_mmap, SYS_mprotect};

constexpr uint64_t kMaxDescriptors = 32;

sock_filter Load(size_t offset) {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset));
}
sock_filter Return(uint32_t action) { return BPF_STMT(BPF_RET | BPF_K, action); }

// The lower half of a 64-bit argument: both processors are little-endian.
sock_filter LoadArgument(size_t number) {
  return Load(offsetof(seccomp_data, args) + number * sizeof(uint64_t));
}

// Allows the system call `number` if its argument is one of `values`.
void AllowWith(std::vector<sock_filter>& filter, int number, size_t argument,
               const std::vector<int>& values) {
  const auto count = static_cast<uint8_t>(values.size());
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0,
                            static_cast<uint8_t>(count + 3)));
  filter.push_back(LoadArgument(argument));
  for (uint8_t i = 0; i < count; ++i) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(values[i]),
                              static_cast<uint8_t>(count - i), 0));
  }
  filter.push_back(Return(SECCOMP_RET_ERRNO | EPERM));
  filter.push_back(Return(SECCOMP_RET_ALLOW));
}

std::vector<sock_filter> Filter() {
  constexpr uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;
  std::vector<sock_filter> filter = {
      Load(offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0),
      Return(SECCOMP_RET_KILL_PROCESS),
      Load(offsetof(seccomp_data, nr)),
  };
  for (const int number : kAllowed) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 1));
    filter.push_back(Return(SECCOMP_RET_ALLOW));
  }
  for (const int number : kNotExecutable) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 4));
    filter.push_back(LoadArgument(2));
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 1, 0));
    filter.push_back(Return(SECCOMP_RET_ALLOW));
    filter.push_back(Return(kRefuse));
  }
  // What abort() does.
  AllowWith(filter, SYS_tgkill, 0, {getpid()});
  AllowWith(filter, SYS_fcntl, 1, {std::begin(kAllowedFcntl), std::end(kAllowedFcntl)});
  for (const int number : {SYS_openat, SYS_newfstatat}) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 1));
    filter.push_back(Return(SECCOMP_RET_TRAP));
  }
  filter.push_back(Return(kRefuse));
  return filter;
}

// What openat() is answered with, instead of being done. Async-signal-safe.
int CopyOfDescriptor(const char* path) {
  constexpr char kPrefix[] = "/proc/self/fd/";
  constexpr size_t kLength = sizeof(kPrefix) - 1;
  if (path == nullptr || std::strncmp(path, kPrefix, kLength) != 0) return -EPERM;
  int fd = 0;
  const char* digit = path + kLength;
  for (; *digit >= '0' && *digit <= '9' && fd < 100000; ++digit) fd = fd * 10 + (*digit - '0');
  if (*digit != '\0' || digit == path + kLength) return -EPERM;
  const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  return copy < 0 ? -errno : copy;
}

// Answers the calls that the filter traps, in place of the kernel.
long Answer(long number, long first, long second, long third) {
  const char* const path = reinterpret_cast<const char*>(second);
  if (number == SYS_openat) return CopyOfDescriptor(path);
  // What fstat() calls: of a descriptor, and no path.
  if (number == SYS_newfstatat && path != nullptr && *path == '\0') {
    return syscall(SYS_fstat, first, third) == 0 ? 0 : -errno;
  }
  return -EPERM;
}

void OnTrappedCall(int /*signal*/, siginfo_t* info, void* context) {
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext;
  const int saved_errno = errno;
#if defined(__x86_64__)
  auto& saved = registers.gregs;
  saved[REG_RAX] = Answer(info->si_syscall, saved[REG_RDI], saved[REG_RSI], saved[REG_RDX]);
#elif defined(__aarch64__)
  auto& saved = registers.regs;
  saved[0] =
      static_cast<uint64_t>(Answer(info->si_syscall, static_cast<long>(saved[0]),
                                   static_cast<long>(saved[1]), static_cast<long>(saved[2])));
#else
  static_cast<void>(info);
  static_cast<void>(registers);
#endif
  errno = saved_errno;
}

// One that is lower already stays.
bool Lower(int resource, uint64_t soft, uint64_t hard) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) return false;
  limit.rlim_max = std::min<rlim_t>(limit.rlim_max, hard);
  limit.rlim_cur = std::min<rlim_t>({limit.rlim_cur, limit.rlim_max, soft});
  return setrlimit(resource, &limit) == 0;
}

Status SetLimit(int resource, const char* name, uint64_t soft, uint64_t hard) {
  if (Lower(resource, soft, hard)) return OkStatus();
  // Who has started us limits us, too, and may have done so between our two calls; it does it once.
  if (errno == EPERM && Lower(resource, soft, hard)) return OkStatus();
  return Internal("the limit ", name, " cannot be set: ", std::strerror(errno));
}

void BecomeFirstToBeEnded() {
  // Where /proc is not there or not writable the kernel chooses without this advice.
  const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  if (write(fd, "1000", 4) != 4)
    std::fputs("lockstep-compiler: oom_score_adj cannot be raised\n", stderr);
  close(fd);
}

}  // namespace

Status ApplyLimits(const Limits& limits) {
  BecomeFirstToBeEnded();
  LOCKSTEP_RETURN_IF_ERROR(SetLimit(RLIMIT_CORE, "RLIMIT_CORE", 0, 0));
  LOCKSTEP_RETURN_IF_ERROR(
      SetLimit(RLIMIT_AS, "RLIMIT_AS", limits.memory_bytes, limits.memory_bytes));
  LOCKSTEP_RETURN_IF_ERROR(
      SetLimit(RLIMIT_CPU, "RLIMIT_CPU", limits.cpu_seconds, limits.cpu_seconds + 1));
  // Files in memory count as files only.
  LOCKSTEP_RETURN_IF_ERROR(
      SetLimit(RLIMIT_NOFILE, "RLIMIT_NOFILE", kMaxDescriptors, kMaxDescriptors));
  return SetLimit(RLIMIT_FSIZE, "RLIMIT_FSIZE", limits.file_bytes, limits.file_bytes);
}

Status EnterSandbox() {
  if (kArchitecture == 0) return Unavailable("there is no sandbox for this processor");
  struct sigaction action {};
  action.sa_sigaction = OnTrappedCall;
  action.sa_flags = SA_SIGINFO;
  if (sigaction(SIGSYS, &action, nullptr) != 0)
    return Internal("sigaction: ", std::strerror(errno));
  std::vector<sock_filter> filter = Filter();
  const sock_fprog program{static_cast<uint16_t>(filter.size()), filter.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0) {
    return Unavailable("no seccomp filter can be set: ", std::strerror(errno));
  }
  return OkStatus();
}

}  // namespace lockstep::compiler
