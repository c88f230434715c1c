// How far what ranks send each other may go without being encrypted.
#pragma once

namespace lockstep::collective::tcp {

// In growing order: a connection goes by the lesser of its two ends'.
enum class Plaintext { kNowhere, kOnLoopback, kAnywhere };

// What one rank wants of its connections. One that must be encrypted, with a rank that cannot, is
// refused on all ranks.
struct Protection {
  Plaintext plaintext = Plaintext::kOnLoopback;
  bool can_encrypt = true;
};

}  // namespace lockstep::collective::tcp
