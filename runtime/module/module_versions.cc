#include "runtime/module/module_versions.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "runtime/base/files.h"
#include "runtime/module/ffi_globals.h"
#include "runtime/module/shared_data.h"

namespace lockstep::module {
namespace {

constexpr char kRestart[] =
    "restart the workers to load it (`lockstep down`, then `lockstep up`; for services "
    "`systemctl restart`, `docker compose restart` or `kubectl rollout restart`)";

struct Version {
  std::string file;
  OpenedLibrary library;
  struct stat facts = {};
  uint64_t content = 0;  // a hash
  // What it has registered for the whole process: "function \"a.b\"", "type \"c.D\"".
  std::vector<std::string> registered;

  bool IsFile(const struct stat& other) const {
    return facts.st_dev == other.st_dev && facts.st_ino == other.st_ino;
  }
  // A file that was only renamed, linked or given other permissions is the same.
  bool IsUnchanged(const struct stat& now) const {
    return facts.st_size == now.st_size && facts.st_mtim.tv_sec == now.st_mtim.tv_sec &&
           facts.st_mtim.tv_nsec == now.st_mtim.tv_nsec;
  }
};

StatusOr<uint64_t> HashOf(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::vector<char> some(size_t{1} << 20);
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                       &XXH3_freeState);
  XXH3_64bits_reset(state.get());
  while (in.read(some.data(), static_cast<std::streamsize>(some.size())) || in.gcount() > 0) {
    XXH3_64bits_update(state.get(), some.data(), static_cast<size_t>(in.gcount()));
  }
  if (!in.eof()) return FileError("the module", file, errno);
  return XXH3_64bits_digest(state.get());
}

StatusOr<struct stat> Look(const std::string& file) {
  struct stat facts = {};
  if (stat(file.c_str(), &facts) != 0) return FileError("the module", file, errno);
  return facts;
}

// Whether `file` may be loaded beside `loaded`, which it has replaced.
Status CheckBeside(const Version& loaded, const std::string& file,
                   const std::vector<std::string>& shared_data) {
  if (!loaded.registered.empty()) {
    return FailedPrecondition(
        "module ", file, " was replaced since it was loaded, and its new version cannot be loaded ",
        "beside the old one, which has registered the ", loaded.registered.front(),
        " with tvm-ffi for the whole process: ", kRestart);
  }
  for (const std::string& symbol : shared_data) {
    if (dlsym(loaded.library.handle, symbol.c_str()) == nullptr) continue;
    return FailedPrecondition(
        "module ", file, " was replaced since it was loaded, and its new version would share the ",
        "variable ", NameOfSymbol(symbol), " with the old one: ", kRestart,
        ", or compile both versions with -fno-gnu-unique");
  }
  return OkStatus();
}

class Versions {
 public:
  StatusOr<OpenedLibrary> Open(const std::string& file) {
    const std::lock_guard<std::mutex> lock(mutex_);
    LOCKSTEP_ASSIGN_OR_RETURN(const struct stat facts, Look(file));
    size_t replaced = 0;
    for (const Version& version : versions_) {
      if (version.IsFile(facts) && version.IsUnchanged(facts)) return version.library;
      replaced += version.file == file ? 1 : 0;
    }
    // Looks like another file. A container's file system may only have given it another number, and
    // many a deployment puts the same bytes there anew.
    LOCKSTEP_ASSIGN_OR_RETURN(const uint64_t content, HashOf(file));
    // First: with an earlier version's bytes, too, what is mapped has been written over.
    for (const Version& version : versions_) {
      if (version.IsFile(facts) && version.content != content) return WrittenTo(file);
    }
    for (const Version& version : versions_) {
      const bool is_known = version.file == file || version.IsFile(facts);
      if (is_known && version.content == content) return version.library;
    }
    if (replaced > 0) {
      const std::vector<std::string> shared_data = SharedData(file);
      for (const Version& version : versions_) {
        if (version.file != file) continue;
        LOCKSTEP_RETURN_IF_ERROR(CheckBeside(version, file, shared_data));
      }
    }
    return OpenNew(file, replaced, facts, content);
  }

 private:
  static Status WrittenTo(const std::string& file) {
    return FailedPrecondition(
        "module ", file, " was written to since this worker has loaded it, so what ",
        "its functions do now is undefined: ", kRestart,
        "; replace a module by `mv` or `install`, which make a new file, never by `cp`");
  }

  StatusOr<OpenedLibrary> OpenNew(const std::string& file, size_t replaced,
                                  const struct stat& facts, uint64_t content) {
    Version version{file, {nullptr, SpellingOf(file, replaced)}, facts, content, {}};
    LOCKSTEP_ASSIGN_OR_RETURN(const std::set<std::string> before, GlobalRegistrations());
    // Undefined symbols are found now, with a message, and not in the middle of a call.
    version.library.handle =
        dlopen(version.library.name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (version.library.handle == nullptr) {
      return InvalidArgument("module ", file, " cannot be loaded: ", dlerror());
    }
    LOCKSTEP_ASSIGN_OR_RETURN(const std::set<std::string> after, GlobalRegistrations());
    std::set_difference(after.begin(), after.end(), before.begin(), before.end(),
                        std::back_inserter(version.registered));
    versions_.push_back(std::move(version));
    return versions_.back().library;
  }

  // The path, with as many "./" more as versions of it are loaded: the same file and $ORIGIN.
  static std::string SpellingOf(const std::string& file, size_t replaced) {
    std::string name = file;
    for (size_t i = 0; i < replaced; ++i) name.insert(name.rfind('/') + 1, "./");
    return name;
  }

  std::mutex mutex_;
  std::deque<Version> versions_;
};

}  // namespace

StatusOr<OpenedLibrary> OpenLibrary(const std::string& file) {
  static Versions& versions = *new Versions;  // libraries stay loaded until the process ends
  return versions.Open(file);
}

}  // namespace lockstep::module
