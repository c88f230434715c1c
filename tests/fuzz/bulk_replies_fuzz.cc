// What a client takes from worker-0 on the bulk socket: records, the replies to its requests. The
// first byte says whether it reads (even) or writes, and how large the tensor is. "CHECKSUM" is the
// checksum of its message's second frame.
#include <chrono>
#include <cstdint>
#include <vector>

#include "runtime/base/bulk_memory.h"
#include "runtime/client/bulk_transfer.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/scripted_channel.h"
#include "tests/fuzz/targets.h"

namespace lockstep::fuzz {

void TakeBulkReplies(const uint8_t* data, size_t size) {
  constexpr uint64_t kTicket = 3;
  // More than one chunk of the smallest size, in the end.
  constexpr size_t kUnit = 1000;
  if (size == 0) return;
  const uint8_t choice = data[0];
  Script script;
  for (const Record& record : ReadRecords(data + 1, size - 1, control::Protocol::kBulkReply)) {
    Placeholders known;
    if (record.message.size() > 1) {
      known["CHECKSUM"] = Checksum(record.message[1].data(), record.message[1].size());
    }
    script.Add({0, "", Fill(record.message, known)});
  }
  // Nonsense, which ends the transfer.
  script.Add({0, "", {}});
  ScriptedClientChannel channel(script, [](const control::Message&) {});
  std::vector<uint8_t> memory(choice / 2 * kUnit);
  client::BulkTransfer transfer = choice % 2 == 0
                                      ? client::BulkTransfer::Read(memory.data(), memory.size())
                                      : client::BulkTransfer::Write(memory.data(), memory.size());
  client::BulkPace pace;
  (void)transfer.Continue(channel, kTicket,
                          {[] { return OkStatus(); }, pace, std::chrono::milliseconds(1000)});
}

}  // namespace lockstep::fuzz
