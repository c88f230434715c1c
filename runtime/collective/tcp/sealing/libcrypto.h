// The few functions of OpenSSL's libcrypto that ciphers call.
//
// It is loaded when it is needed first, and not linked: most processes need none of it, and each
// that loads it pays for its 5 MB of tables and providers (docs/performance.md). Its ABI is stable
// within version 3, so its headers are not needed either.
#pragma once

#include "runtime/base/status.h"

namespace lockstep::collective::tcp {

// OpenSSL's types, of which only addresses are known here.
struct EvpContext;
struct EvpCipher;
struct OpenSslEngine;

struct Libcrypto {
  using Init = int (*)(EvpContext*, const EvpCipher*, OpenSslEngine*, const unsigned char* key,
                       const unsigned char* nonce);
  using Update = int (*)(EvpContext*, unsigned char* out, int* out_bytes, const unsigned char* in,
                         int in_bytes);
  using Final = int (*)(EvpContext*, unsigned char* out, int* out_bytes);

  EvpContext* (*new_context)() = nullptr;
  void (*free_context)(EvpContext*) = nullptr;
  int (*control)(EvpContext*, int what, int size, void* data) = nullptr;
  const EvpCipher* (*aes_256_gcm)() = nullptr;
  Init seal_init = nullptr;
  Update seal_update = nullptr;
  Final seal_final = nullptr;
  Init open_init = nullptr;
  Update open_update = nullptr;
  Final open_final = nullptr;

  // Of control().
  static constexpr int kGetTag = 0x10;
  static constexpr int kSetTag = 0x11;
};

// Threads: safe. Errors: kFailedPrecondition, with what to install.
StatusOr<const Libcrypto*> LoadLibcrypto();

}  // namespace lockstep::collective::tcp
