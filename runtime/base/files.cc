#include "runtime/base/files.h"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <string_view>

namespace lockstep {

Status FileError(const std::string& what, const std::string& path, int error) {
  const std::string text = what + " " + path + ": " + strerror(error);
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return NotFound(text);
    case EACCES:
    case EPERM:
    case EROFS:
      return PermissionDenied(text);
    case EEXIST:
      return AlreadyExists(text);
    case EMFILE:
    case ENFILE:
      return ResourceExhausted(text);
    default:
      return Unavailable(text);
  }
}

namespace {

namespace fs = std::filesystem;

// As many as Linux follows.
constexpr int kMaxLinks = 40;
constexpr mode_t kOthers = S_IWGRP | S_IWOTH;

// The user that root's files seem to belong to; root, unless this user namespace does not map it.
uid_t FindRoot() {
  std::ifstream map("/proc/self/uid_map");
  if (!map) return 0;
  unsigned long inside = 0, outside = 0, count = 0;
  while (map >> inside >> outside >> count) {
    if (inside == 0) return 0;
  }
  uid_t overflow = 0;
  std::ifstream("/proc/sys/kernel/overflowuid") >> overflow;
  return overflow;
}

// True if no user but `user` is in the group.
bool IsPrivateGroup(gid_t group, uid_t user) {
  std::array<char, size_t{16} << 10> user_text;
  std::array<char, size_t{16} << 10> group_text;
  struct passwd user_entry {};
  struct group group_entry {};
  struct passwd* owner = nullptr;
  struct group* found = nullptr;
  if (getpwuid_r(user, &user_entry, user_text.data(), user_text.size(), &owner) != 0 ||
      owner == nullptr || owner->pw_gid != group) {
    return false;
  }
  if (getgrgid_r(group, &group_entry, group_text.data(), group_text.size(), &found) != 0 ||
      found == nullptr) {
    return false;
  }
  const std::string_view name = owner->pw_name;
  if (name != found->gr_name) return false;
  for (char** member = found->gr_mem; *member != nullptr; ++member) {
    if (name != *member) return false;
  }
  return true;
}

// The bits of the mode by which others may write. Root's own group does not count as private.
mode_t WritableByOthers(const struct stat& there) {
  const mode_t others = there.st_mode & kOthers;
  const bool is_own = there.st_uid == geteuid() && there.st_uid != 0;
  if ((others & S_IWGRP) != 0 && is_own && IsPrivateGroup(there.st_gid, there.st_uid)) {
    return others & ~mode_t{S_IWGRP};
  }
  return others;
}

Status CheckLookedAt(const std::string& path, const struct stat& there, mode_t others) {
  if (!IsTrustedOwner(there.st_uid)) {
    return PermissionDenied(path, " belongs to user ", there.st_uid,
                            "; it must be this process's own (user ", geteuid(),
                            ") or root's: `chown ", geteuid(), " ", path, "`");
  }
  if (others == 0) return OkStatus();
  return PermissionDenied(path, " can be written to by others than its owner; `chmod go-w ", path,
                          "`");
}

// The directory `here`, in which `next` (null: nothing) comes next on the way to `path`.
Status CheckStep(const std::string& here, const struct stat* next, std::optional<uid_t> also,
                 const std::string& path) {
  struct stat there {};
  if (stat(here.c_str(), &there) != 0) return FileError("cannot look at", here, errno);
  if (!IsTrustedOwner(there.st_uid) && there.st_uid != also) {
    return PermissionDenied("user ", there.st_uid, ", whose directory ", here,
                            " is, may put another file in the place of ", path,
                            "; keep it where all directories are this process's own (user ",
                            geteuid(), ") or root's, or do this as that user");
  }
  const mode_t others = WritableByOthers(there);
  if (others == 0) return OkStatus();
  const bool is_shared = (there.st_mode & S_ISVTX) != 0;
  if (is_shared && (next == nullptr || IsTrustedOwner(next->st_uid))) return OkStatus();
  if (is_shared) {
    return PermissionDenied("user ", next->st_uid, " may put another file in the place of ", path,
                            ", for what leads to it from ", here,
                            " belongs to that user; move it to a directory that only its owner may "
                            "write to");
  }
  return PermissionDenied("others may put another file in the place of ", path, "; `chmod go-w ",
                          here, "`");
}

void PutAhead(const fs::path& path, std::deque<std::string>& ahead) {
  std::deque<std::string> names;
  for (const fs::path& name : path.relative_path()) {
    if (!name.empty() && name != ".") names.push_back(name);
  }
  ahead.insert(ahead.begin(), names.begin(), names.end());
}

}  // namespace

bool IsTrustedOwner(uid_t user) { return user == 0 || user == geteuid() || user == FindRoot(); }

Status CheckTrusted(const std::string& path) {
  struct stat there {};
  if (stat(path.c_str(), &there) != 0) return FileError("cannot look at", path, errno);
  return CheckLookedAt(path, there, WritableByOthers(there));
}

Status CheckTrustedFile(const std::string& path, const struct stat& file) {
  return CheckLookedAt(path, file, file.st_mode & kOthers);
}

Status CheckDirectoriesTo(const std::string& path, std::optional<uid_t> also) {
  std::error_code error;
  const fs::path whole = fs::absolute(path, error);
  if (error) return FileError("cannot look at", path, error.value());
  std::deque<std::string> ahead;
  PutAhead(whole, ahead);
  fs::path here = "/";
  int links = 0;
  while (!ahead.empty()) {
    const std::string name = ahead.front();
    ahead.pop_front();
    // Where that leads was looked at on the way here.
    if (name == "..") {
      here = here.parent_path();
      continue;
    }
    const fs::path next = here / name;
    struct stat entry {};
    const bool exists = lstat(next.c_str(), &entry) == 0;
    if (!exists && (errno != ENOENT || !ahead.empty())) {
      return FileError("cannot look at", next, errno);
    }
    LOCKSTEP_RETURN_IF_ERROR(CheckStep(here, exists ? &entry : nullptr, also, path));
    if (!exists) break;
    if (!S_ISLNK(entry.st_mode)) {
      here = next;
      continue;
    }
    if (++links > kMaxLinks) return FileError("cannot look at", path, ELOOP);
    const fs::path target = fs::read_symlink(next, error);
    if (error) return FileError("cannot look at", next, error.value());
    if (target.is_absolute()) here = "/";
    PutAhead(target, ahead);
  }
  return OkStatus();
}

}  // namespace lockstep
