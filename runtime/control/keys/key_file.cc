#include "runtime/control/keys/key_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <sstream>

#include "absl/cleanup/cleanup.h"
#include "runtime/base/files.h"

namespace lockstep::control {
namespace {

// The keys of a large cluster, each with a name.
constexpr off_t kMaxFileBytes = off_t{4} << 20;

// A secret is not repeated as the path of a file that is not there.
Status KeyFileError(const std::string& what, const std::string& path, int error) {
  return FileError(what, HideSecrets(path), error);
}

// What `mode` lets others do who must not.
Status CheckSecret(const std::string& path, const struct stat& file) {
  const bool by_root = file.st_uid == 0;
  if (!by_root && file.st_uid != geteuid()) {
    return PermissionDenied("the key file ", path, " belongs to user ", file.st_uid,
                            "; it must be this process's own (user ", geteuid(), ") or root's");
  }
  const mode_t forbidden = by_root && geteuid() != 0 ? 0037 : 0077;
  if ((file.st_mode & forbidden) == 0) return OkStatus();
  std::ostringstream mode;
  mode << std::oct << (file.st_mode & 0777);
  return PermissionDenied("the key file ", path, " has mode ", mode.str(),
                          ": others than its owner may use it, and may have read it; "
                          "`chmod 600 ",
                          path, "`, or better make a new key",
                          by_root && (file.st_mode & 0037) == 0
                              ? " (but a service's key, which its group reads, stays as it is: "
                                "root takes one of its own)"
                              : "");
}

using Check = Status (*)(const std::string& path, const struct stat& file);

StatusOr<std::string> ReadChecked(const std::string& path, Check check) {
  // Nothing that stands still for ever when it is opened.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return KeyFileError("cannot read", path, errno);
  const absl::Cleanup close_it = [fd] { close(fd); };
  struct stat file {};
  if (fstat(fd, &file) != 0) return KeyFileError("cannot read", path, errno);
  if (!S_ISREG(file.st_mode)) return InvalidArgument(path, " is no file");
  LOCKSTEP_RETURN_IF_ERROR(check(path, file));
  LOCKSTEP_RETURN_IF_ERROR(CheckDirectoriesTo(path));
  if (file.st_size > kMaxFileBytes) {
    return InvalidArgument(path, " has ", file.st_size, " bytes; at most ", kMaxFileBytes,
                           " are read");
  }
  std::string text(static_cast<size_t>(file.st_size), '\0');
  size_t have = 0;
  while (have < text.size()) {
    const ssize_t got = read(fd, text.data() + have, text.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return KeyFileError("cannot read", path, errno);
    if (got == 0) break;
    have += static_cast<size_t>(got);
  }
  text.resize(have);
  return text;
}

// The lines that are neither empty nor comments.
std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    const size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos || line[begin] == '#') continue;
    lines.push_back(line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1));
  }
  return lines;
}

std::string KeyFileText(const KeyPair& pair, const std::string& name) {
  return "# The secret key of \"" + name + "\": any program that has it is \"" + name +
         "\". Its public key:\n# " + pair.public_key.Text() + "\n" + pair.secret_key.SecretText() +
         "\n";
}

// Gives the file the owner and the group of the one whose place it takes. 0, or an errno.
int TakeOverOwner(int fd, const std::string& path) {
  struct stat before {};
  struct stat draft {};
  if (lstat(path.c_str(), &before) != 0) return errno == ENOENT ? 0 : errno;
  if (fstat(fd, &draft) != 0) return errno;
  if (before.st_uid == draft.st_uid && before.st_gid == draft.st_gid) return 0;
  return fchown(fd, before.st_uid, before.st_gid) == 0 ? 0 : errno;
}

// What was renamed stays so when the machine loses its power. Not every file system can say so.
void SyncDirectory(const std::string& path) {
  const std::string directory = std::filesystem::absolute(path).parent_path();
  const int fd = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);
  close(fd);
}

// A file beside `path` that is there whole, with its bytes on the disk if a crash is to leave them.
StatusOr<std::string> WriteDraft(const std::string& path, const std::string& text, unsigned mode,
                                 AfterCrash after_crash = AfterCrash::kOldOrNew) {
  std::string draft = path + ".XXXXXX";
  const int fd = mkostemp(draft.data(), O_CLOEXEC);
  if (fd < 0) return KeyFileError("cannot make a file beside", path, errno);
  size_t written = 0;
  int error = TakeOverOwner(fd, path);
  if (error == 0 && fchmod(fd, mode) != 0) error = errno;
  while (error == 0 && written < text.size()) {
    const ssize_t put = write(fd, text.data() + written, text.size() - written);
    if (put < 0 && errno != EINTR) error = errno;
    if (put > 0) written += static_cast<size_t>(put);
  }
  if (error == 0 && after_crash == AfterCrash::kOldOrNew && fsync(fd) != 0) error = errno;
  close(fd);
  if (error == 0) return draft;
  unlink(draft.c_str());
  return KeyFileError("cannot write", draft, error);
}

}  // namespace

StatusOr<KeyPair> ReadKeyFile(const std::string& path) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::string text, ReadChecked(path, CheckSecret));
  std::vector<std::string> lines = Lines(text);
  const absl::Cleanup wipe = [&] {
    explicit_bzero(text.data(), text.size());
    for (std::string& line : lines) explicit_bzero(line.data(), line.size());
  };
  if (lines.size() != 1) {
    return InvalidArgument(path, ": expected one secret key, found ", lines.size(),
                           " lines; `lockstep keys new` makes such a file");
  }
  const StatusOr<SecretKey> secret = ParseSecretKey(lines.front());
  if (!secret.ok()) return Annotate(secret.status(), path);
  return PairOf(*secret);
}

std::string RealPath(const std::string& path) {
  char* const real = realpath(path.c_str(), nullptr);
  if (real == nullptr) return std::filesystem::absolute(path);
  const absl::Cleanup free_it = [real] { std::free(real); };
  return real;
}

Status WriteFileWhole(const std::string& path, const std::string& text, unsigned mode,
                      AfterCrash after_crash) {
  const std::string target = RealPath(path);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string draft, WriteDraft(target, text, mode, after_crash));
  if (rename(draft.c_str(), target.c_str()) == 0) {
    if (after_crash == AfterCrash::kOldOrNew) SyncDirectory(target);
    return OkStatus();
  }
  const int error = errno;
  unlink(draft.c_str());
  return KeyFileError("cannot replace", path, error);
}

Status WriteKeyFile(const std::string& path, const KeyPair& pair, const std::string& name) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string draft,
                            WriteDraft(path, KeyFileText(pair, name), 0600));
  // Unlike a rename, a link never takes another file's place.
  const int error = link(draft.c_str(), path.c_str()) == 0 ? 0 : errno;
  unlink(draft.c_str());
  return error == 0 ? OkStatus() : KeyFileError("cannot make", path, error);
}

Status ReplaceKeyFile(const std::string& path, const KeyPair& pair, const std::string& name) {
  struct stat before {};
  std::optional<uid_t> owner;
  if (stat(path.c_str(), &before) == 0) {
    if (!S_ISREG(before.st_mode)) return InvalidArgument(path, " is no file");
    if (geteuid() != 0 && !IsTrustedOwner(before.st_uid)) {
      return PermissionDenied(path, " belongs to user ", before.st_uid,
                              ", who would have the new key; remove it, or choose another file");
    }
    owner = before.st_uid;
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckDirectoriesTo(path, owner));
  return WriteFileWhole(path, KeyFileText(pair, name), 0600);
}

StatusOr<std::string> ReadTrustedFile(const std::string& path) {
  return ReadChecked(path, CheckTrustedFile);
}

StatusOr<std::vector<PublicKey>> ReadPublicKeys(const std::string& path_or_key) {
  // A secret one is refused as a key, and not repeated as the path of a file that is not there.
  const bool is_key = path_or_key.rfind(kPublicPrefix, 0) == 0 || HasSecret(path_or_key);
  std::vector<std::string> lines = {path_or_key};
  if (!is_key) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string text, ReadTrustedFile(path_or_key));
    lines = Lines(text);
  }
  std::vector<PublicKey> keys;
  for (const std::string& line : lines) {
    const StatusOr<PublicKey> key = ParsePublicKey(line);
    if (!key.ok()) return is_key ? key.status() : Annotate(key.status(), path_or_key);
    keys.push_back(*key);
  }
  if (keys.empty()) return InvalidArgument(path_or_key, ": there is no public key in it");
  return keys;
}

}  // namespace lockstep::control
