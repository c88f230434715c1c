// A gate whose allow list is a file.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "runtime/base/deadline.h"
#include "runtime/base/spare_descriptors.h"
#include "runtime/control/keys/gate.h"

namespace lockstep::control {

// A file's state, to see whether it was changed.
struct FileState {
  bool exists = false;
  long long device = 0, inode = 0, size = 0, modified_ns = 0, changed_ns = 0;

  static FileState Of(const std::string& path);
  friend bool operator==(const FileState&, const FileState&) = default;
};

// The allow list of a file, which is read again when the file has changed. A change that cannot be
// read or understood is told in the log and tried again, and the list stays as it was meanwhile.
//
// A file may be seen while it is written, and half a list would cut others off: a change counts
// when it looks the same twice, or when the whole file was renamed into place.
//
// Whoever connects takes a descriptor, before he has shown a key: the list is read also when none
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
  // The same, if nobody has looked lately.
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
  SpareDescriptors spare_{kSpare};
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
