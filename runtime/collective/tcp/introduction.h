// What ranks tell each other over the rendezvous, before they connect.
#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/collective/tcp/protection.h"
#include "runtime/collective/tcp/socket.h"

namespace lockstep::collective::tcp {

struct Introduction {
  // Digits of a number that only the ranks know.
  static constexpr size_t kSecretBytes = 32;

  Place place;  // where the rank listens
  std::string secret = {};
  std::string public_key = {};  // of KeyAgreement; empty: it does not encrypt
  Plaintext plaintext = Plaintext::kOnLoopback;

  std::string ToText() const;
  // Errors: kUnavailable: it is none.
  static StatusOr<Introduction> Parse(const std::string& text);
};

// What goes between these two has to be encrypted. The same on both of them.
bool MustEncrypt(const Introduction& one, const Introduction& other);

// OK if all of them can be connected as they want to be. Errors: kFailedPrecondition: two cannot;
// the same on all ranks. `members`: by which names their ranks are known.
Status CheckProtection(const std::vector<Introduction>& all, absl::Span<const Rank> members);

}  // namespace lockstep::collective::tcp
