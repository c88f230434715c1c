#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lld/Common/Driver.h"
#include "llvm/Support/raw_ostream.h"
#include "runtime/fragment/mlir/object.h"

LLD_HAS_DRIVER(elf)

namespace lockstep::fragment {
namespace {

// A file without a name, closed with the object.
class MemoryFile {
 public:
  explicit MemoryFile(const char* name) : fd_(memfd_create(name, MFD_CLOEXEC)) {}
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() {
    if (fd_ >= 0) close(fd_);
  }

  int fd() const { return fd_; }

  bool Write(const std::string& content) const {
    for (size_t done = 0; done < content.size();) {
      const ssize_t written = write(fd_, content.data() + done, content.size() - done);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return false;
      done += static_cast<size_t>(written);
    }
    return true;
  }

  StatusOr<std::string> Read() const {
    struct stat status {};
    if (fstat(fd_, &status) != 0)
      return Internal("a file in memory cannot be read: ", std::strerror(errno));
    std::string content(static_cast<size_t>(status.st_size), '\0');
    for (size_t done = 0; done < content.size();) {
      const ssize_t read =
          pread(fd_, content.data() + done, content.size() - done, static_cast<off_t>(done));
      if (read < 0 && errno == EINTR) continue;
      if (read <= 0) return Internal("a file in memory cannot be read: ", std::strerror(errno));
      done += static_cast<size_t>(read);
    }
    return content;
  }

 private:
  const int fd_;
};

// While it lives, standard output is another file: lld writes to files by their names, or there.
class RedirectedOutput {
 public:
  explicit RedirectedOutput(int fd) : saved_(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)) {
    llvm::outs().flush();
    dup2(fd, STDOUT_FILENO);
  }
  RedirectedOutput(const RedirectedOutput&) = delete;
  RedirectedOutput& operator=(const RedirectedOutput&) = delete;
  ~RedirectedOutput() {
    llvm::outs().flush();
    if (saved_ < 0) {
      close(STDOUT_FILENO);
    } else {
      dup2(saved_, STDOUT_FILENO);
      close(saved_);
    }
  }

 private:
  const int saved_;
};

std::string PathOf(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

// Descriptors of the libraries that objects need, open for good.
std::vector<int>& Libraries() {
  static auto* const libraries = new std::vector<int>();
  return *libraries;
}

// Where the dynamic linker finds a library; empty if it does not.
std::string FindLibrary(const char* name) {
  void* const handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return "";
  link_map* map = nullptr;
  const std::string path = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : "";
  dlclose(handle);
  return path;
}

}  // namespace

Status PrepareLinking() {
  if (!Libraries().empty()) return OkStatus();
  for (const char* name : {"libm.so.6", "libmvec.so.1"}) {
    const std::string path = FindLibrary(name);
    const int fd = path.empty() ? -1 : open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
      Libraries().push_back(fd);
    } else if (Libraries().empty()) {
      // Not every architecture has libmvec.
      return Unavailable("fragments cannot be linked: there is no ", name);
    }
  }
  return OkStatus();
}

StatusOr<std::string> LinkShared(const std::string& object) {
  LOCKSTEP_RETURN_IF_ERROR(PrepareLinking());
  const MemoryFile input("fragment.o");
  const MemoryFile output("fragment.so");
  if (input.fd() < 0 || output.fd() < 0 || !input.Write(object)) {
    return ResourceExhausted("there is no room for an object of ", object.size(),
                             " bytes: ", std::strerror(errno));
  }
  std::vector<std::string> arguments = {"ld.lld",
                                        "-shared",
                                        "-o",
                                        "-",
                                        "--threads=1",
                                        "-s",
                                        "--gc-sections",
                                        "--build-id=none",
                                        "--hash-style=gnu",
                                        "-z",
                                        "noexecstack",
                                        "-z",
                                        "relro",
                                        "-z",
                                        "now",
                                        "-z",
                                        "max-page-size=4096",
                                        "--as-needed",
                                        PathOf(input.fd())};
  for (const int library : Libraries()) arguments.push_back(PathOf(library));
  std::vector<const char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());
  std::string messages;
  llvm::raw_string_ostream log(messages);
  {
    const RedirectedOutput redirected(output.fd());
    const lld::Result result = lld::lldMain(pointers, log, log, {{lld::Gnu, &lld::elf::link}});
    if (result.retCode != 0) return Internal("linking failed: ", log.str());
  }
  return output.Read();
}

}  // namespace lockstep::fragment
