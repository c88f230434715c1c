#include "runtime/collective/tcp/sealing/libcrypto.h"

#include <dlfcn.h>

#include <cstdint>

#include "runtime/base/load_once.h"

namespace lockstep::collective::tcp {
namespace {

constexpr char kFile[] = "libcrypto.so.3";
// Of OPENSSL_init_crypto(): a worker's threads may still use it while the process ends.
constexpr uint64_t kNoCleanUpAtExit = 0x00080000;

template <typename Function>
bool Find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

StatusOr<Libcrypto> Load() {
  void* const library = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return FailedPrecondition("data between ranks cannot be encrypted: there is no ", kFile, " (",
                              dlerror(), "); install OpenSSL 3 (package libssl3)");
  }
  Libcrypto crypto;
  int (*init)(uint64_t, const void*) = nullptr;
  const bool is_whole = Find(library, "EVP_CIPHER_CTX_new", crypto.new_context) &&
                        Find(library, "EVP_CIPHER_CTX_free", crypto.free_context) &&
                        Find(library, "EVP_CIPHER_CTX_ctrl", crypto.control) &&
                        Find(library, "EVP_aes_256_gcm", crypto.aes_256_gcm) &&
                        Find(library, "EVP_EncryptInit_ex", crypto.seal_init) &&
                        Find(library, "EVP_EncryptUpdate", crypto.seal_update) &&
                        Find(library, "EVP_EncryptFinal_ex", crypto.seal_final) &&
                        Find(library, "EVP_DecryptInit_ex", crypto.open_init) &&
                        Find(library, "EVP_DecryptUpdate", crypto.open_update) &&
                        Find(library, "EVP_DecryptFinal_ex", crypto.open_final) &&
                        Find(library, "OPENSSL_init_crypto", init);
  if (!is_whole || init(kNoCleanUpAtExit, nullptr) != 1) {
    return FailedPrecondition("data between ranks cannot be encrypted: ", kFile,
                              " lacks AES-256-GCM; install OpenSSL 3 (package libssl3)");
  }
  return crypto;
}

}  // namespace

StatusOr<const Libcrypto*> LoadLibcrypto() { return LoadOnce<Libcrypto>(Load); }

}  // namespace lockstep::collective::tcp
