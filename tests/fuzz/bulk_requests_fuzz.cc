// What a worker's bulk socket takes from clients: records. Ticket "TICKET--" is that of a tensor of
// 64 bytes; "CHECKSUM" the checksum of its message's second frame.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>

#include "runtime/base/bulk_memory.h"
#include "runtime/control/message_codec.h"
#include "runtime/tensor/storage.h"
#include "schemas/bulk.capnp.h"
#include "services/worker/bulk/bulk_server.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/scripted_channel.h"
#include "tests/fuzz/targets.h"

namespace lockstep::fuzz {
namespace {

void HearAnswer(const control::Message& answer) {
  // Messages of other protocols are answered with who listens.
  if (control::HasTag(answer[0], control::Protocol::kWrongProtocol)) return;
  const Status read = control::DecodeMessage<wire::BulkReply>(
      answer[0], [](wire::BulkReply::Reader) { return OkStatus(); });
  if (!read.ok()) std::abort();
}

// One server for the whole process.
class Bulk {
 public:
  Bulk()
      : server_(std::make_unique<ScriptedServerChannel>(
            script_, 0,
            [](const control::PeerName&, const control::Message& answer) { HearAnswer(answer); })),
        allocator_(tensor::NewHeapAllocator()) {
    auto tensor = tensor::Tensor::Empty(*allocator_, DType::kUInt8, Shape{64});
    if (!tensor.ok()) std::abort();
    ticket_ = server_.Publish(*tensor);
  }

  void Take(const uint8_t* data, size_t size) {
    const std::vector<Record> records = ReadRecords(data, size, control::Protocol::kBulkRequest);
    if (records.empty()) return;
    for (const Record& record : records) {
      Placeholders known = {{"TICKET--", ticket_}};
      if (record.message.size() > 1) {
        known["CHECKSUM"] = Checksum(record.message[1].data(), record.message[1].size());
      }
      script_.Add({0, "client", Fill(record.message, known)});
    }
    script_.WaitUntilDone();
  }

 private:
  Script script_;
  worker::BulkServer server_;
  std::shared_ptr<tensor::Allocator> allocator_;
  uint64_t ticket_ = 0;
};

}  // namespace

void TakeBulkRequests(const uint8_t* data, size_t size) {
  static Bulk bulk;
  bulk.Take(data, size);
}

}  // namespace lockstep::fuzz
