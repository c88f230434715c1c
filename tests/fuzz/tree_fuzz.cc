// What workers that pass commands on get from others: packets and bundles, and the notes around
// them. An input is a row of records; each is taken for a message of the tree.
#include <cstdint>
#include <cstdlib>

#include "runtime/control/tree/packet.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/targets.h"

namespace lockstep::fuzz {
namespace {

constexpr uint64_t kWorld = 7;

// What is passed on of a bundle, as a relay does it, has the answers that were in it.
void PassOn(const control::Message& bundle) {
  (void)control::ConsumedOf(bundle);
  (void)control::IsAfterAGap(bundle, 1);
  (void)control::CheckBundle(bundle, [](uint64_t worker) { return worker % 2 == 0; });
  int answers = 0;
  const auto count = [&](control::Answer) { ++answers; };
  if (!control::ReadBundle(bundle, count).ok()) return;
  control::BundleWriter writer;
  const StatusOr<bool> appended = writer.Append(bundle);
  if (!appended.ok()) std::abort();  // it could be read
  if (!*appended || writer.empty()) return;
  int again = 0;
  const auto count_again = [&](control::Answer) { ++again; };
  const control::Message passed_on = writer.Take(kWorld, 1, 0);
  if (!control::ReadBundle(passed_on, count_again).ok() || again != answers) std::abort();
}

}  // namespace

void TakeTreeMessages(const uint8_t* data, size_t size) {
  for (const Record& record : ReadRecords(data, size, control::Protocol::kNone)) {
    const control::Message& message = record.message;
    if (control::ReadTreeNote(message).has_value()) {
      for (size_t i = 0; i < 4; ++i) (void)control::TextOfNote(message, i);
    }
    (void)control::ReadPacket(message, [](control::Message) {});
    PassOn(message);
  }
}

}  // namespace lockstep::fuzz
