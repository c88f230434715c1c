// Who may come in: the public keys that a listener knows, what each may do, and what it is called.
//
//     # role   public key                                        name
//     client   lpk_5rV0...                                       trainer
//     reader   lpk_Qm3y...                                       dashboard
//
// One line a key; # begins a comment. A name may have several keys of the same role, as while one
// takes the other's place: what is connected already stays connected as long as the name has
// any. A line "revoked lpk_... NAME" ends the connections of that key, too.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/control/keys/key.h"

namespace lockstep::control {

// What the owner of a key may do. Each but the worker may also do what the one before may.
enum class Role {
  kReader,    // look: status, sessions, registers, metrics
  kClient,    // open sessions of its own
  kOperator,  // stop the cluster
  kWorker,    // join as a worker, and nothing else
};
std::string Name(Role role);  // "reader"
StatusOr<Role> ParseRole(const std::string& name);

// True if a peer that has `role` may do what `needed` may.
bool Includes(Role role, Role needed);

struct Identity {
  Role role = Role::kReader;
  std::string name;
  PublicKey key;

  // "client lpk_... trainer": also a line of an allow list.
  std::string Text() const;
  static StatusOr<Identity> Parse(const std::string& text);
};

// Letters, digits, '-', '_', '.' and '@', at most 63; no secret key, which errors never repeat.
Status CheckKeyName(const std::string& name);

class AllowList {
 public:
  // `file` is what the text is called in errors. kInvalidArgument, with all that is wrong, one a
  // line: a list of which only a part is understood would let some peer in, or keep one out.
  static StatusOr<AllowList> Parse(const std::string& text, const std::string& file);

  // Whose key this is; none: it may not come in.
  std::optional<Identity> Find(const PublicKey& key) const;
  // True if a peer that came in as `identity` may stay.
  bool Holds(const Identity& identity) const;

  const std::map<PublicKey, Identity>& all() const { return entries_; }
  const std::map<PublicKey, std::string>& revoked() const { return revoked_; }

 private:
  // Why the line is wrong, else OK. `words`: of one line.
  Status Add(const std::vector<std::string>& words);

  std::map<PublicKey, Identity> entries_;
  std::map<PublicKey, std::string> revoked_;  // and their names
  std::map<std::string, Role> names_;
};

// `text` with a line more. kInvalidArgument, kAlreadyExists: the key is there, or the name has
// another role.
StatusOr<std::string> WithLine(const std::string& text, const std::string& file,
                               const Identity& identity);
// `text` in which the key is revoked, whether it was there or not. kAlreadyExists: it is already.
StatusOr<std::string> WithoutKey(const std::string& text, const std::string& file,
                                 const PublicKey& key);

// Makes programs that change a list of allowed keys wait for one another: holds the lock file
// beside a list, "LIST.lock", until it is destroyed. The file stays: it is made with mode 0600, so
// that only its owner and root can hold it.
//
// Threads: one at a time.
class ListLock {
 public:
  // Waits until it is free. `list` need not exist; symbolic links are followed, so that each name
  // of a list has the same lock. kDeadlineExceeded; kPermissionDenied: the lock file is not ours,
  // or open to others; the errors of FileError().
  static StatusOr<ListLock> Take(const std::string& list, Deadline deadline);

  ListLock(ListLock&& other) noexcept;
  ListLock& operator=(ListLock&&) = delete;
  ~ListLock();

 private:
  explicit ListLock(int fd) : fd_(fd) {}

  int fd_;  // -1: moved from
};

}  // namespace lockstep::control
