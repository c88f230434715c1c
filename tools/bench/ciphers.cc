// How fast the ciphers are that data between ranks could be encrypted with, on this machine: ours
// (AES-256-GCM of OpenSSL's libcrypto), and what libsodium has. docs/adr/0036 decides by this.
//
//     ciphers [ROUNDS]      processor time of sealing, and of opening in place; medians
#include <sodium.h>
#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/collective/tcp/sealing/cipher.h"
#include "tools/bench/rival_process.h"

namespace lockstep::bench {
namespace {

using collective::tcp::Cipher;

constexpr size_t kBytesOfOneRound = size_t{8} << 20;
constexpr size_t kMostTurns = 20'000;

struct Contestant {
  std::string name;
  // Of `size_bytes` at `from`, to `to` with a tag behind it.
  std::function<void(const std::byte* from, size_t size_bytes, std::byte* to)> seal;
  // In its place; only right once, for each what was sealed in its turn.
  std::function<bool(std::byte* data, size_t size_bytes)> open;
};

unsigned char* Raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }
const unsigned char* Raw(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}

Contestant Ours() {
  const Cipher::Key key = {7};
  auto seal = Cipher::Create(Cipher::Use::kSeal, key);
  auto open = Cipher::Create(Cipher::Use::kOpen, key);
  Require(seal.ok() && open.ok(), "libcrypto.so.3 is there");
  const std::shared_ptr<Cipher> sealing = *std::move(seal);
  const std::shared_ptr<Cipher> opening = *std::move(open);
  return {
      "aes-256-gcm by libcrypto",
      [sealing](const std::byte* from, size_t size, std::byte* to) {
        Require(sealing->Seal(from, size, to), "it seals");
      },
      [opening](std::byte* data, size_t size) { return opening->Open(data, size, data + size); }};
}

Contestant SodiumAes() {
  // It has to lie at a multiple of 16.
  const auto state = std::make_shared<crypto_aead_aes256gcm_state>();
  const unsigned char key[crypto_aead_aes256gcm_KEYBYTES] = {7};
  crypto_aead_aes256gcm_beforenm(state.get(), key);
  static const unsigned char nonce[crypto_aead_aes256gcm_NPUBBYTES] = {};
  return {"aes-256-gcm by libsodium",
          [state](const std::byte* from, size_t size, std::byte* to) {
            crypto_aead_aes256gcm_encrypt_detached_afternm(Raw(to), Raw(to + size), nullptr,
                                                           Raw(from), size, nullptr, 0, nullptr,
                                                           nonce, state.get());
          },
          [state](std::byte* data, size_t size) {
            return crypto_aead_aes256gcm_decrypt_detached_afternm(Raw(data), nullptr, Raw(data),
                                                                  size, Raw(data + size), nullptr,
                                                                  0, nonce, state.get()) == 0;
          }};
}

Contestant SodiumChaCha() {
  static const unsigned char key[crypto_aead_chacha20poly1305_ietf_KEYBYTES] = {7};
  static const unsigned char nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES] = {};
  return {"chacha20-poly1305 by libsodium",
          [](const std::byte* from, size_t size, std::byte* to) {
            crypto_aead_chacha20poly1305_ietf_encrypt_detached(
                Raw(to), Raw(to + size), nullptr, Raw(from), size, nullptr, 0, nullptr, nonce, key);
          },
          [](std::byte* data, size_t size) {
            return crypto_aead_chacha20poly1305_ietf_decrypt_detached(Raw(data), nullptr, Raw(data),
                                                                      size, Raw(data + size),
                                                                      nullptr, 0, nonce, key) == 0;
          }};
}

struct Times {
  std::vector<double> seal;
  std::vector<double> open;
};

// Of this thread: what else the machine does takes none of it.
double ProcessorTime() {
  timespec now = {};
  Require(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0, "clock_gettime");
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void RunRound(const Contestant& contestant, size_t size_bytes, Times& times) {
  const size_t turns = std::clamp<size_t>(kBytesOfOneRound / size_bytes, 1, kMostTurns);
  const size_t sealed_bytes = size_bytes + Cipher::kTagBytes;
  const std::vector<std::byte> plain(size_bytes, std::byte{1});
  std::vector<std::byte> sealed(turns * sealed_bytes);
  const double begin = ProcessorTime();
  for (size_t i = 0; i < turns; ++i) {
    contestant.seal(plain.data(), size_bytes, sealed.data() + i * sealed_bytes);
  }
  const double middle = ProcessorTime();
  for (size_t i = 0; i < turns; ++i) {
    Require(contestant.open(sealed.data() + i * sealed_bytes, size_bytes), "it opens");
  }
  const double end = ProcessorTime();
  times.seal.push_back((middle - begin) / static_cast<double>(turns));
  times.open.push_back((end - middle) / static_cast<double>(turns));
}

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int Main(int rounds) {
  Require(sodium_init() >= 0, "libsodium starts");
  std::vector<Contestant> contestants = {Ours(), SodiumChaCha()};
  if (crypto_aead_aes256gcm_is_available() == 1) contestants.push_back(SodiumAes());
  for (const size_t size_bytes :
       {size_t{16}, size_t{1} << 10, size_t{64} << 10, size_t{256} << 10}) {
    std::vector<Times> times(contestants.size());
    // In turns: what else the machine does falls upon all alike.
    for (int round = 0; round < rounds; ++round) {
      for (size_t i = 0; i < contestants.size(); ++i) {
        RunRound(contestants[i], size_bytes, times[i]);
      }
    }
    for (size_t i = 0; i < contestants.size(); ++i) {
      const double seal = MedianOf(times[i].seal);
      const double open = MedianOf(times[i].open);
      std::printf("%7zu B  %-31s seal %8.2f us %6.2f GB/s   open %8.2f us %6.2f GB/s\n", size_bytes,
                  contestants[i].name.c_str(), seal * 1e6,
                  static_cast<double>(size_bytes) / seal / 1e9, open * 1e6,
                  static_cast<double>(size_bytes) / open / 1e9);
    }
  }
  return 0;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 9;
  return rounds > 0 ? lockstep::bench::Main(rounds) : 2;
}
