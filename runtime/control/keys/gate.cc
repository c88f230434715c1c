#include "runtime/control/keys/gate.h"

#include <sys/stat.h>

#include <chrono>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/control/keys/key_file.h"

namespace lockstep::control {

StatusOr<KeyPair> ReadOwnKey(const std::string& path_or_key) {
  if (path_or_key.rfind(kSecretPrefix, 0) != 0) return ReadKeyFile(path_or_key);
  LOCKSTEP_ASSIGN_OR_RETURN(const SecretKey secret, ParseSecretKey(path_or_key));
  return PairOf(secret);
}

StatusOr<CredentialSource> CredentialsFrom(const std::string& key, const std::string& listener) {
  if (key.empty() && listener.empty()) return CredentialSource();
  if (key.empty()) {
    return InvalidArgument(
        "the controller's key is given, but none of one's own: name a key file "
        "(`lockstep keys new` makes one)");
  }
  if (listener.empty()) {
    return InvalidArgument(
        "a key of one's own is given, but not the controller's public key, by "
        "which it is known (`lockstep keys show` prints it)");
  }
  CredentialSource read = [key, listener]() -> StatusOr<Credentials> {
    Credentials credentials;
    LOCKSTEP_ASSIGN_OR_RETURN(credentials.own, ReadOwnKey(key));
    LOCKSTEP_ASSIGN_OR_RETURN(credentials.listeners, ReadPublicKeys(listener));
    return credentials;
  };
  LOCKSTEP_RETURN_IF_ERROR(read().status());
  return read;
}

namespace {

using namespace std::chrono_literals;

// A key that is not known may just have been added; but no peer is to keep us looking.
constexpr std::chrono::milliseconds kSoon = 50ms;
// A failure that lasts is told this often.
constexpr std::chrono::seconds kTellAgain = 60s;

}  // namespace

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
  LOCKSTEP_RETURN_IF_ERROR(file->Read(FileState::Of(path)));
  return file;
}

Status AllowListFile::Read(const FileState& state) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string text, ReadText());
  if (FileState::Of(path_) != state) return Aborted(path_, " is being written");
  LOCKSTEP_ASSIGN_OR_RETURN(AllowList list, AllowList::Parse(text, path_));
  std::lock_guard lock(mutex_);
  read_ = state;
  list_ = std::make_shared<const AllowList>(std::move(list));
  version_.fetch_add(1, std::memory_order_release);
  return OkStatus();
}

StatusOr<std::string> AllowListFile::ReadText() {
  StatusOr<std::string> text = ReadTrustedFile(path_);
  // Who may write is looked up in files, too: without a descriptor for them, no user is trusted.
  const bool may_want_descriptors = text.status().code() == StatusCode::kResourceExhausted ||
                                    text.status().code() == StatusCode::kPermissionDenied;
  if (!may_want_descriptors || !spare_.Release()) return text;
  text = ReadTrustedFile(path_);
  spare_.Refill();
  return text;
}

std::shared_ptr<const AllowList> AllowListFile::list() const {
  std::lock_guard lock(mutex_);
  return list_;
}

bool AllowListFile::IsWorthReading(const FileState& state) {
  const bool stands_still = state == std::exchange(last_look_, state);
  std::lock_guard lock(mutex_);
  if (state == read_) return false;
  // A rename changes the inode's own time; what is written where it stands changes both.
  const bool is_another_file = state.inode != read_.inode || state.device != read_.device;
  const bool was_renamed = is_another_file && state.changed_ns > state.modified_ns;
  return stands_still || was_renamed;
}

void AllowListFile::Refresh() {
  const FileState state = FileState::Of(path_);  // may take long where the disk is slow, or remote
  std::lock_guard lock(refresh_mutex_);
  spare_.Refill();
  if (!IsWorthReading(state)) return;
  const Status status = Read(state);
  if (!status.ok()) return TellFailure(status);
  told_.clear();
  log::Info("the allowed keys were read again: ", list()->all().size(), " keys in ", path_);
}

void AllowListFile::RefreshSoon() {
  {
    std::lock_guard lock(refresh_mutex_);
    if (!next_soon_.Expired()) return;
    next_soon_ = Deadline::After(kSoon);
  }
  Refresh();
}

void AllowListFile::TellFailure(const Status& why) {
  if (why.code() == StatusCode::kAborted) return;  // the next look will find it whole
  if (told_ == Message(why) && !tell_again_.Expired()) return;
  told_ = Message(why);
  tell_again_ = Deadline::After(kTellAgain);
  log::Error("the allowed keys stay as they were, for they cannot be read again: ", told_);
}

StatusOr<Identity> FileGate::Admit(const PublicKey& key) {
  std::shared_ptr<const AllowList> list = file_->list();
  std::optional<Identity> identity = list->Find(key);
  if (!identity.has_value()) {
    file_->RefreshSoon();
    list = file_->list();
    identity = list->Find(key);
  }
  if (const auto found = list->revoked().find(key); found != list->revoked().end()) {
    return PermissionDenied("the key ", key.Text(), " of \"", found->second, "\" was revoked");
  }
  if (!identity.has_value()) {
    return PermissionDenied("the key ", key.Text(), " is not in ", file_->path(),
                            "; its owner may come in after `lockstep keys allow --file ",
                            file_->path(), " ROLE NAME ", key.Text(), "`");
  }
  if (Includes(identity->role, needed_)) return *identity;
  return PermissionDenied("\"", identity->name, "\" is a ", Name(identity->role),
                          ", and no such key is let in among the ", place_);
}

}  // namespace lockstep::control
