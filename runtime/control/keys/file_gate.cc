#include "runtime/control/keys/file_gate.h"

#include <sys/stat.h>

#include <utility>

#include "runtime/base/log.h"
#include "runtime/control/keys/key_file.h"

namespace lockstep::control {

FileState FileState::Of(const std::string& path) {
  struct stat file {};
  if (stat(path.c_str(), &file) != 0) return {};
  constexpr long long kNanos = 1'000'000'000;
  return {true,
          static_cast<long long>(file.st_dev),
          static_cast<long long>(file.st_ino),
          file.st_size,
          file.st_mtim.tv_sec * kNanos + file.st_mtim.tv_nsec,
          file.st_ctim.tv_sec * kNanos + file.st_ctim.tv_nsec};
}

StatusOr<std::shared_ptr<AllowListFile>> AllowListFile::Open(const std::string& path) {
  std::shared_ptr<AllowListFile> file(new AllowListFile(path));
  LOCKSTEP_RETURN_IF_ERROR(file->Read());
  return file;
}

Status AllowListFile::Read() {
  // Looked at first: what changes while it is read is read again.
  const FileState state = FileState::Of(path_);
  {
    std::lock_guard lock(mutex_);
    state_ = state;
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string text, ReadTrustedFile(path_));
  LOCKSTEP_ASSIGN_OR_RETURN(AllowList list, AllowList::Parse(text, path_));
  std::lock_guard lock(mutex_);
  list_ = std::make_shared<const AllowList>(std::move(list));
  version_.fetch_add(1, std::memory_order_release);
  return OkStatus();
}

std::shared_ptr<const AllowList> AllowListFile::list() const {
  std::lock_guard lock(mutex_);
  return list_;
}

void AllowListFile::Refresh() {
  {
    std::lock_guard lock(mutex_);
    if (FileState::Of(path_) == state_) return;
  }
  const Status status = Read();
  if (status.ok()) {
    log::Info("the allowed keys were read again: ", list()->all().size(), " keys in ", path_);
  } else {
    log::Error("the allowed keys stay as they were, for they cannot be read again: ",
               Message(status));
  }
}

StatusOr<Identity> FileGate::Admit(const PublicKey& key) {
  const std::optional<Identity> identity = file_->list()->Find(key);
  if (!identity.has_value()) {
    return PermissionDenied("the key ", key.Text(), " is not in ", file_->path(),
                            "; whoever it belongs to may come in after `lockstep keys allow "
                            "--file ",
                            file_->path(), " ROLE NAME ", key.Text(), "`");
  }
  if (Includes(identity->role, needed_)) return *identity;
  return PermissionDenied("\"", identity->name, "\" is a ", Name(identity->role),
                          ", and no such key is let in among the ", place_);
}

}  // namespace lockstep::control
