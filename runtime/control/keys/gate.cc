#include "runtime/control/keys/gate.h"

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

}  // namespace lockstep::control
