// What decides who gets through to a listener, and what a connection shows at it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/resources.h"
#include "runtime/base/status.h"
#include "runtime/control/keys/allow_list.h"
#include "runtime/control/keys/key.h"

namespace lockstep::control {

// Threads: safe. A thread of the channel's asks.
class Gate {
 public:
  virtual ~Gate() = default;
  Gate() = default;
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // The listener's own key, by which its peers know it.
  virtual KeyPair own() const = 0;
  // The identity of the key, if it may come in. An error says why not, for the listener's log: the
  // peer is told nothing but that.
  virtual StatusOr<Identity> Admit(const PublicKey& key) = 0;
  // True if one that was admitted may still send. May change when version() does.
  virtual bool Holds(const Identity& identity) const = 0;
  virtual uint64_t version() const = 0;
  // Called several times a second: looks whether what it decides by has changed.
  virtual void Refresh() {}
};

// What a connection needs: who it is, and which listeners it takes for the one that it wants.
struct Credentials {
  KeyPair own;
  std::vector<PublicKey> listeners;  // any of them; at least one
};

// Asked whenever a connection is made, so that keys can change while a process runs.
using CredentialSource = std::function<StatusOr<Credentials>()>;

// Reads them from files. `key`: a key file, or a secret key; `listener`: a file of public keys, or
// one such key. Null if both are empty: nothing is encrypted. kInvalidArgument if only one is; the
// errors of ReadKeyFile() and ReadPublicKeys() if they cannot be read now.
StatusOr<CredentialSource> CredentialsFrom(const std::string& key, const std::string& listener);

// The key pair of a key file, or of a secret key that is given itself.
StatusOr<KeyPair> ReadOwnKey(const std::string& path_or_key);

// A file's state, to see whether it was changed.
struct FileState {
  bool exists = false;
  long long device = 0, inode = 0, size = 0, modified_ns = 0, changed_ns = 0;

  static FileState Of(const std::string& path);
  friend bool operator==(const FileState&, const FileState&) = default;
};

// A gate whose allow list is a file, which is read again when the file has changed. A change that
// cannot be read or understood is told in the log and tried again, and the list stays as it was
// meanwhile.
//
// A file may be seen while it is written, and half a list would cut others off: a change counts
// when it looks the same twice, or when the whole file was renamed into place.
//
// Each connection takes a descriptor before it has shown a key: the list is read also when none
// is left, or strangers could keep a key from being revoked.
//
// Threads: safe.
class AllowListFile {
 public:
  // The errors of ReadTrustedFile() and AllowList::Parse().
  static StatusOr<std::shared_ptr<AllowListFile>> Open(const std::string& path);

  std::shared_ptr<const AllowList> list() const;
  // Grows with every change.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  void Refresh();
  // The same, if the file was not looked at lately.
  void RefreshSoon();
  const std::string& path() const { return path_; }

 private:
  static constexpr size_t kSpare = 8;

  explicit AllowListFile(std::string path) : path_(std::move(path)) {}
  // Whether the file, which looks like this, is to be read.
  bool IsWorthReading(const FileState& state);
  // kAborted if it changes meanwhile.
  Status Read(const FileState& state);
  // The file's text, with a spare descriptor if there is no other.
  StatusOr<std::string> ReadText();
  void TellFailure(const Status& why);

  const std::string path_;
  std::atomic<uint64_t> version_{0};

  std::mutex refresh_mutex_;  // guards what only looking needs
  DescriptorReserve spare_{kSpare};
  std::optional<FileState> last_look_;
  Deadline next_soon_ = Deadline::After({});
  std::string told_;  // the failure that was told last, ...
  Deadline tell_again_ = Deadline::After({});

  mutable std::mutex mutex_;
  FileState read_;  // as it was when `list_` was read
  std::shared_ptr<const AllowList> list_;
};

// Lets in those of the list whose role includes `needed`. `place` is what the listener is called in
// the log: "clients".
class FileGate final : public Gate {
 public:
  FileGate(KeyPair own, std::shared_ptr<AllowListFile> file, Role needed, std::string place)
      : own_(own), file_(std::move(file)), needed_(needed), place_(std::move(place)) {}

  KeyPair own() const override { return own_; }
  StatusOr<Identity> Admit(const PublicKey& key) override;
  bool Holds(const Identity& identity) const override { return file_->list()->Holds(identity); }
  uint64_t version() const override { return file_->version(); }
  void Refresh() override { file_->Refresh(); }

 private:
  const KeyPair own_;
  const std::shared_ptr<AllowListFile> file_;
  const Role needed_;
  const std::string place_;
};

}  // namespace lockstep::control
