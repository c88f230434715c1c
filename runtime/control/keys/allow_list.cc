#include "runtime/control/keys/allow_list.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <sstream>
#include <thread>
#include <utility>

#include "runtime/base/files.h"
#include "runtime/control/keys/key_file.h"

namespace lockstep::control {
namespace {

constexpr std::pair<Role, const char*> kRoles[] = {{Role::kReader, "reader"},
                                                   {Role::kClient, "client"},
                                                   {Role::kOperator, "operator"},
                                                   {Role::kWorker, "worker"}};
constexpr char kRevoked[] = "revoked";
// The name in the line of a key that was revoked without having been in the list.
constexpr char kUnlisted[] = "unlisted";
constexpr size_t kMaxNameBytes = 63;

std::vector<std::string> Words(const std::string& line) {
  std::istringstream stream(line.substr(0, line.find('#')));
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

}  // namespace

std::string Name(Role role) {
  for (const auto& [known, name] : kRoles) {
    if (known == role) return name;
  }
  return "unknown";
}

StatusOr<Role> ParseRole(const std::string& name) {
  for (const auto& [role, known] : kRoles) {
    if (name == known) return role;
  }
  return InvalidArgument("\"", HideSecrets(name),
                         "\" is no role: expected reader, client, operator or worker");
}

bool Includes(Role role, Role needed) {
  if (role == Role::kWorker || needed == Role::kWorker) return role == needed;
  return role >= needed;
}

std::string Identity::Text() const { return control::Name(role) + " " + key.Text() + " " + name; }

StatusOr<Identity> Identity::Parse(const std::string& text) {
  const std::vector<std::string> words = Words(text);
  if (words.size() != 3) return InvalidArgument("\"", HideSecrets(text), "\" is no identity");
  Identity identity;
  LOCKSTEP_ASSIGN_OR_RETURN(identity.role, ParseRole(words[0]));
  LOCKSTEP_ASSIGN_OR_RETURN(identity.key, ParsePublicKey(words[1]));
  LOCKSTEP_RETURN_IF_ERROR(CheckKeyName(words[2]));
  identity.name = words[2];
  return identity;
}

Status CheckKeyName(const std::string& name) {
  if (HasSecret(name)) {
    return InvalidArgument("a secret key (", kSecretPrefix,
                           "...) where a name belongs: take it out and make a new one, for others "
                           "may have seen it");
  }
  const auto is_allowed = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == '@';
  };
  if (!name.empty() && name.size() <= kMaxNameBytes &&
      std::all_of(name.begin(), name.end(), is_allowed)) {
    return OkStatus();
  }
  return InvalidArgument("\"", name, "\" is no name: expected 1 to ", kMaxNameBytes,
                         " letters, digits, '-', '_', '.' or '@'");
}

Status AllowList::Add(const std::vector<std::string>& words) {
  if (words.size() != 3) {
    return InvalidArgument("expected a role, a public key and a name, found ", words.size(),
                           " words");
  }
  const std::string& name = words[2];
  LOCKSTEP_ASSIGN_OR_RETURN(const PublicKey key, ParsePublicKey(words[1]));
  LOCKSTEP_RETURN_IF_ERROR(CheckKeyName(name));
  if (entries_.count(key) != 0 || revoked_.count(key) != 0) {
    return InvalidArgument("the key ", words[1], " is in another line already");
  }
  if (words[0] == kRevoked) {
    revoked_.emplace(key, name);
    return OkStatus();
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const Role role, ParseRole(words[0]));
  const auto [known, is_new] = names_.emplace(name, role);
  if (!is_new && known->second != role) {
    return InvalidArgument("\"", name, "\" is a ", words[0], " here and a ",
                           control::Name(known->second), " in another line");
  }
  entries_.emplace(key, Identity{role, name, key});
  return OkStatus();
}

StatusOr<AllowList> AllowList::Parse(const std::string& text, const std::string& file) {
  constexpr int kMostProblems = 20;
  AllowList list;
  std::string problems;
  int count = 0;
  int number = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::vector<std::string> words = Words(line);
    if (words.empty()) continue;
    const Status status = list.Add(words);
    if (status.ok() || ++count > kMostProblems) continue;
    problems += (problems.empty() ? "" : "\n") + file + ":" + std::to_string(number) + ": " +
                Message(status);
  }
  if (count == 0) return list;
  if (count > kMostProblems) {
    problems += "\n" + file + ": and " + std::to_string(count - kMostProblems) + " more problems";
  }
  return InvalidArgument(problems);
}

std::optional<Identity> AllowList::Find(const PublicKey& key) const {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return std::nullopt;
  return found->second;
}

bool AllowList::Holds(const Identity& identity) const {
  if (revoked_.count(identity.key) != 0) return false;
  // A key that is listed counts as what it is now, whatever else its name has.
  if (const auto entry = entries_.find(identity.key); entry != entries_.end()) {
    return entry->second.role == identity.role && entry->second.name == identity.name;
  }
  const auto name = names_.find(identity.name);
  return name != names_.end() && name->second == identity.role;
}

StatusOr<std::string> WithLine(const std::string& text, const std::string& file,
                               const Identity& identity) {
  LOCKSTEP_RETURN_IF_ERROR(CheckKeyName(identity.name));
  LOCKSTEP_ASSIGN_OR_RETURN(const AllowList before, AllowList::Parse(text, file));
  if (before.revoked().count(identity.key) != 0) {
    return AlreadyExists(file, ": the key ", identity.key.Text(),
                         " was revoked; make a new one with `lockstep keys new`");
  }
  if (const auto known = before.Find(identity.key); known.has_value()) {
    return AlreadyExists(file, ": the key is there already, as ", control::Name(known->role), " \"",
                         known->name, "\"");
  }
  std::string longer = text;
  if (!longer.empty() && longer.back() != '\n') longer += '\n';
  longer += identity.Text() + "\n";
  LOCKSTEP_RETURN_IF_ERROR(AllowList::Parse(longer, file).status());
  return longer;
}

StatusOr<std::string> WithoutKey(const std::string& text, const std::string& file,
                                 const PublicKey& key) {
  LOCKSTEP_ASSIGN_OR_RETURN(const AllowList before, AllowList::Parse(text, file));
  if (before.revoked().count(key) != 0) {
    return AlreadyExists(file, ": the key ", key.Text(), " is revoked already");
  }
  std::string changed;
  if (!before.Find(key).has_value()) {
    // Its line was taken out, and perhaps its owner has stayed: see Holds().
    changed = text;
    if (!changed.empty() && changed.back() != '\n') changed += '\n';
    return changed + kRevoked + " " + key.Text() + " " + kUnlisted + "\n";
  }
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> words = Words(line);
    const bool is_it = words.size() == 3 && words[1] == key.Text();
    changed += is_it ? std::string(kRevoked) + " " + words[1] + " " + words[2] : line;
    changed += '\n';
  }
  return changed;
}

namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kLookAgain = 20ms;

// A user who may open the file may keep it locked.
Status CheckLockFile(int fd, const std::string& path) {
  struct stat file {};
  if (fstat(fd, &file) != 0) return FileError("cannot look at", path, errno);
  if (S_ISREG(file.st_mode) && IsTrustedOwner(file.st_uid) && (file.st_mode & 0077) == 0) {
    return OkStatus();
  }
  return PermissionDenied("others than this process's user could hold the lock file ", path,
                          "; `rm ", path, "` when no `lockstep keys` runs: it is made again");
}

}  // namespace

ListLock::ListLock(ListLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

ListLock::~ListLock() {
  if (fd_ >= 0) close(fd_);
}

StatusOr<ListLock> ListLock::Take(const std::string& list, Deadline deadline) {
  const std::string path = RealPath(list) + ".lock";
  const int fd =
      open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, mode_t{0600});
  if (fd < 0) return FileError("cannot open the lock file", path, errno);
  ListLock lock(fd);
  LOCKSTEP_RETURN_IF_ERROR(CheckLockFile(fd, path));
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return FileError("cannot lock", path, errno);
    if (deadline.Expired()) {
      return DeadlineExceeded("another process changes ", list, " and has not finished: it holds ",
                              path, "; `fuser ", path, "` says which");
    }
    std::this_thread::sleep_for(
        std::min<Deadline::Clock::duration>(kLookAgain, deadline.Remaining()));
  }
  return lock;
}

}  // namespace lockstep::control
