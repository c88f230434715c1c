#include "runtime/client/bulk_transfer.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/base/bulk_memory.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/input_waiter.h"
#include "runtime/control/message_codec.h"

namespace lockstep::client {
namespace {

using std::chrono::milliseconds;

// Small enough to stay in a core's cache from the network to the checksum to the tensor; and of
// small tensors, enough chunks to have both ends and the wire at work at once.
constexpr size_t kLargestChunk = size_t{512} << 10;
constexpr size_t kSmallestChunk = size_t{64} << 10;
constexpr size_t kFewChunks = 8;
// Under way at a time: enough for a wire of 10 Gbit/s and 10 ms, few enough to bound memory.
constexpr size_t kChunksUnderWay = 24;
// A thread that waits for worker-0 looks this often whether the session is still well.
constexpr milliseconds kLookEvery{50};
// Silence means that a connection is lost after this long, or twice the longest silence that was
// followed by an answer: a narrow wire takes its time for each chunk.
constexpr milliseconds kFirstPatience{1000};
constexpr milliseconds kMostPatience{60'000};
// A network that damages more than this is not one to copy over.
constexpr int kMostDamaged = 16;

}  // namespace

LentMemory::LentMemory()
    : ledger_(std::make_shared<Ledger>()),
      borrowers_(ledger_.get(), [ledger = ledger_](void* /*unused*/) {
        std::lock_guard lock(ledger->mutex);
        ledger->returned = true;
        ledger->changed.notify_all();
      }) {}

LentMemory::~LentMemory() {
  borrowers_.reset();
  std::unique_lock lock(ledger_->mutex);
  ledger_->changed.wait(lock, [this] { return ledger_->returned; });
}

BulkTransfer::BulkTransfer(Direction direction, void* memory, size_t size_bytes)
    : direction_(direction),
      memory_(static_cast<std::byte*>(memory)),
      size_bytes_(size_bytes),
      chunk_bytes_(
          std::clamp(std::bit_ceil(size_bytes / kFewChunks), kSmallestChunk, kLargestChunk)),
      chunks_((size_bytes + chunk_bytes_ - 1) / chunk_bytes_, Chunk::kToDo),
      patience_(kFirstPatience),
      last_answer_(Deadline::Clock::now()),
      lent_(std::make_unique<LentMemory>()) {}

size_t BulkTransfer::SizeOf(size_t chunk) const {
  return std::min(chunk_bytes_, size_bytes_ - chunk * chunk_bytes_);
}

StatusOr<bool> BulkTransfer::Continue(control::ClientChannel& channel, uint64_t ticket,
                                      const Surroundings& surroundings) {
  // Asleep at once: what keeps the wire busy is on its way, and both ends need the processors.
  control::InputWaiter waiter{milliseconds(0)};
  control::Channel* const channels[] = {&channel};
  auto last_sign = Deadline::Clock::now();  // of life, on this connection
  control::Message reply;
  while (done_ < chunks_.size()) {
    LOCKSTEP_RETURN_IF_ERROR(Ask(channel, ticket));
    if (channel.Receive(&reply)) {
      LOCKSTEP_RETURN_IF_ERROR(Take(reply, ticket));
      const auto now = Deadline::Clock::now();
      const auto silence = std::chrono::ceil<milliseconds>(now - last_sign);
      patience_ = std::clamp(2 * silence, patience_, kMostPatience);
      last_sign = last_answer_ = now;
      continue;
    }
    // A worker that is lost cannot say so here; the controller does.
    if (waiter.Wait(channels, {}, Deadline::After(kLookEvery))) continue;
    LOCKSTEP_RETURN_IF_ERROR(surroundings.look());
    const auto now = Deadline::Clock::now();
    if (now - last_answer_ > surroundings.timeout) {
      return DeadlineExceeded("rank 0 has not answered a bulk copy for ",
                              surroundings.timeout.count(), " ms; ", done_, " of ", chunks_.size(),
                              " chunks had arrived by then");
    }
    if (now - last_sign > patience_) {
      GiveUpConnection();
      return false;
    }
  }
  return true;
}

void BulkTransfer::GiveUpConnection() {
  std::replace(chunks_.begin(), chunks_.end(), Chunk::kUnderWay, Chunk::kToDo);
  first_to_do_ = 0;
  under_way_ = 0;
  patience_ = std::min(2 * patience_, kMostPatience);
}

Status BulkTransfer::Ask(control::ClientChannel& channel, uint64_t ticket) {
  for (; first_to_do_ < chunks_.size() && under_way_ < kChunksUnderWay; ++first_to_do_) {
    if (chunks_[first_to_do_] != Chunk::kToDo) continue;
    LOCKSTEP_RETURN_IF_ERROR(AskFor(first_to_do_, channel, ticket));
    chunks_[first_to_do_] = Chunk::kUnderWay;
    ++under_way_;
  }
  return OkStatus();
}

Status BulkTransfer::AskFor(size_t chunk, control::ClientChannel& channel, uint64_t ticket) {
  const std::byte* const data = memory_ + chunk * chunk_bytes_;
  control::Message message = {
      control::EncodeMessage<wire::BulkRequest>([&](wire::BulkRequest::Builder request) {
        request.setTicket(ticket);
        request.setOffset(chunk * chunk_bytes_);
        if (direction_ == Direction::kRead) {
          request.setRead(SizeOf(chunk));
        } else {
          request.setWrite(Checksum(data, SizeOf(chunk)));
        }
      })};
  if (direction_ == Direction::kWrite) message.push_back(lent_->Lend(data, SizeOf(chunk)));
  return channel.Send(message);
}

Status BulkTransfer::Take(const control::Message& reply, uint64_t ticket) {
  if (reply.empty()) return Internal("worker-0 sent an empty message");
  return control::DecodeMessage<wire::BulkReply>(
      reply[0], [&](wire::BulkReply::Reader reader) -> Status {
        if (reader.getTicket() != ticket) {
          return Internal("worker-0 answers about another tensor");
        }
        const uint64_t chunk = reader.getOffset() / chunk_bytes_;
        if (reader.getOffset() % chunk_bytes_ != 0 || chunk >= chunks_.size() ||
            chunks_[chunk] != Chunk::kUnderWay) {
          return Internal("worker-0 answers for bytes from ", reader.getOffset(),
                          " of a tensor of ", size_bytes_, ", for which it was not asked");
        }
        return TakeAnswer(reader, reply, chunk);
      });
}

Status BulkTransfer::TakeAnswer(wire::BulkReply::Reader reply, const control::Message& message,
                                size_t chunk) {
  if (reply.hasError()) {
    const Status error = control::ReadError(reply.getError()).ToStatus();
    return error.code() == StatusCode::kDataLoss ? AskAgain(chunk) : error;
  }
  if (direction_ == Direction::kRead) {
    if (message.size() != 2 || message[1].size() != SizeOf(chunk)) {
      return Internal("worker-0 answers without the ", SizeOf(chunk), " bytes from ",
                      chunk * chunk_bytes_, " on");
    }
    std::memcpy(memory_ + chunk * chunk_bytes_, message[1].data(), message[1].size());
    if (Checksum(message[1].data(), message[1].size()) != reply.getChecksum()) {
      return AskAgain(chunk);
    }
  }
  chunks_[chunk] = Chunk::kDone;
  --under_way_;
  ++done_;
  return OkStatus();
}

Status BulkTransfer::AskAgain(size_t chunk) {
  if (++damaged_ > kMostDamaged) {
    return DataLoss("bulk data of rank 0 arrives damaged: ", damaged_, " chunks of ",
                    chunk_bytes_ >> 10, " KiB had other checksums than when they were sent; ",
                    "look at the network and the memory between this client and rank 0");
  }
  chunks_[chunk] = Chunk::kToDo;
  first_to_do_ = std::min(first_to_do_, chunk);
  --under_way_;
  return OkStatus();
}

}  // namespace lockstep::client
