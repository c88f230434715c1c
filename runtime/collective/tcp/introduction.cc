#include "runtime/collective/tcp/introduction.h"

#include <algorithm>
#include <sstream>

namespace lockstep::collective::tcp {
namespace {

constexpr char kNoKey[] = "-";

}  // namespace

std::string Introduction::ToText() const {
  std::ostringstream text;
  text << place.address << ' ' << place.port << ' ' << secret << ' '
       << (public_key.empty() ? kNoKey : public_key) << ' ' << static_cast<int>(plaintext);
  return text.str();
}

StatusOr<Introduction> Introduction::Parse(const std::string& text) {
  std::istringstream fields(text);
  Introduction told;
  int plaintext = -1;
  fields >> told.place.address >> told.place.port >> told.secret >> told.public_key >> plaintext;
  if (fields.fail() || told.secret.size() != kSecretBytes || plaintext < 0 ||
      plaintext > static_cast<int>(Plaintext::kAnywhere)) {
    return Unavailable("has told no place to reach it at");
  }
  told.plaintext = static_cast<Plaintext>(plaintext);
  if (told.public_key == kNoKey) told.public_key.clear();
  return told;
}

bool MustEncrypt(const Introduction& one, const Introduction& other) {
  const Plaintext plaintext = std::min(one.plaintext, other.plaintext);
  const bool leaves_host = !one.place.IsLoopback() || !other.place.IsLoopback();
  return plaintext == Plaintext::kNowhere || (plaintext == Plaintext::kOnLoopback && leaves_host);
}

Status CheckProtection(const std::vector<Introduction>& all, absl::Span<const Rank> members) {
  for (size_t r = 0; r < all.size(); ++r) {
    if (!all[r].public_key.empty()) continue;
    for (size_t other = 0; other < all.size(); ++other) {
      if (other == r || !MustEncrypt(all[r], all[other])) continue;
      return FailedPrecondition("rank ", members[r], " does not encrypt what it sends to rank ",
                                members[other], " (", all[r].place.address, " and ",
                                all[other].place.address,
                                "), which one of the two has to, by its settings data_encryption "
                                "and data_plaintext: give all workers the same");
    }
  }
  return OkStatus();
}

}  // namespace lockstep::collective::tcp
