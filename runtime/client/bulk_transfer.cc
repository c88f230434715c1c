#include "runtime/client/bulk_transfer.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "runtime/base/bulk_memory.h"
#include "runtime/base/quantity.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/input_waiter.h"
#include "runtime/control/message_codec.h"

namespace lockstep::client {
namespace {

using std::chrono::milliseconds;

// As large as the smallest request. Of small tensors, enough chunks to have both ends and the wire
// at work at once.
constexpr size_t kLargestChunk = size_t{128} << 10;
constexpr size_t kSmallestChunk = size_t{64} << 10;
constexpr size_t kFewRequests = 8;
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
          std::clamp(std::bit_ceil(size_bytes / kFewRequests), kSmallestChunk, kLargestChunk)),
      chunks_((size_bytes + chunk_bytes_ - 1) / chunk_bytes_, Chunk::kToDo),
      patience_(kFirstPatience),
      last_answer_(Deadline::Clock::now()),
      lent_(std::make_unique<LentMemory>()) {}

size_t BulkTransfer::BytesOf(const Request& request) const {
  return std::min(request.chunks * chunk_bytes_, size_bytes_ - request.first * chunk_bytes_);
}

void BulkTransfer::Mark(const Request& request, Chunk chunk) {
  std::fill_n(chunks_.begin() + static_cast<int64_t>(request.first), request.chunks, chunk);
}

StatusOr<bool> BulkTransfer::Continue(control::ClientChannel& channel, uint64_t ticket,
                                      const Surroundings& surroundings) {
  // Asleep at once: what keeps the wire busy is on its way, and both ends need the processors.
  control::InputWaiter waiter{milliseconds(0)};
  control::Channel* const channels[] = {&channel};
  auto last_sign = Deadline::Clock::now();  // of life, on this connection
  surroundings.pace.Begin();
  control::Message reply;
  while (done_ < chunks_.size()) {
    LOCKSTEP_RETURN_IF_ERROR(Ask(channel, ticket, surroundings.pace));
    if (channel.Receive(&reply)) {
      LOCKSTEP_RETURN_IF_ERROR(Take(reply, ticket, surroundings.pace));
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
                              surroundings.timeout.count(), " ms; ",
                              RoundedSize(done_ * chunk_bytes_), " of ", RoundedSize(size_bytes_),
                              " had arrived by then");
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
  under_way_.clear();
  under_way_bytes_ = 0;
  is_answered_ = false;
  patience_ = std::min(2 * patience_, kMostPatience);
}

Status BulkTransfer::Ask(control::ClientChannel& channel, uint64_t ticket, const BulkPace& pace) {
  const BulkPace::Limits limits = pace.Current();
  const size_t most_bytes =
      std::min(limits.request_bytes, std::bit_ceil(size_bytes_ / kFewRequests));
  while (first_to_do_ < chunks_.size()) {
    if (chunks_[first_to_do_] != Chunk::kToDo) {
      ++first_to_do_;
      continue;
    }
    const Request request = Next(first_to_do_, most_bytes, pace.Now());
    const size_t bytes = BytesOf(request);
    // One always: else nothing would be answered.
    if (!under_way_.empty() && under_way_bytes_ + bytes > limits.under_way_bytes) break;
    LOCKSTEP_RETURN_IF_ERROR(Send(request, channel, ticket));
    Mark(request, Chunk::kUnderWay);
    under_way_.emplace(request.first, request);
    under_way_bytes_ += bytes;
  }
  return OkStatus();
}

BulkTransfer::Request BulkTransfer::Next(size_t first, size_t most_bytes,
                                         BulkPace::Clock::time_point now) const {
  const size_t most = std::max<size_t>(1, most_bytes / chunk_bytes_);
  size_t chunks = 1;
  while (chunks < most && first + chunks < chunks_.size() &&
         chunks_[first + chunks] == Chunk::kToDo) {
    ++chunks;
  }
  return {first, chunks, now};
}

Status BulkTransfer::Send(const Request& request, control::ClientChannel& channel,
                          uint64_t ticket) {
  const size_t offset = request.first * chunk_bytes_;
  const size_t size = BytesOf(request);
  const std::byte* const data = memory_ + offset;
  control::Message message = {
      control::EncodeMessage<wire::BulkRequest>([&](wire::BulkRequest::Builder builder) {
        builder.setTicket(ticket);
        builder.setOffset(offset);
        if (direction_ == Direction::kRead) {
          builder.setRead(size);
        } else {
          builder.setWrite(Checksum(data, size));
        }
      })};
  if (direction_ == Direction::kWrite) message.push_back(lent_->Lend(data, size));
  return channel.Send(message);
}

Status BulkTransfer::Take(const control::Message& reply, uint64_t ticket, BulkPace& pace) {
  if (reply.empty()) return Internal("worker-0 sent an empty message");
  return control::DecodeMessage<wire::BulkReply>(
      reply[0], [&](wire::BulkReply::Reader reader) -> Status {
        if (reader.getTicket() != ticket) {
          return Internal("worker-0 answers about another tensor");
        }
        const auto found = under_way_.find(reader.getOffset() / chunk_bytes_);
        if (reader.getOffset() % chunk_bytes_ != 0 || found == under_way_.end()) {
          return Internal("worker-0 answers for bytes from ", reader.getOffset(),
                          " of a tensor of ", size_bytes_, ", for which it was not asked");
        }
        const Request request = found->second;
        under_way_.erase(found);
        under_way_bytes_ -= BytesOf(request);
        // What came before the first request under a ticket has nothing to do with it.
        const bool is_first = !std::exchange(is_answered_, true);
        pace.NoteAnswer(request.sent, BytesOf(request), !is_first && reader.getCommandsCame());
        return TakeAnswer(reader, reply, request);
      });
}

Status BulkTransfer::TakeAnswer(wire::BulkReply::Reader reply, const control::Message& message,
                                const Request& request) {
  if (reply.hasError()) {
    const Status error = control::ReadError(reply.getError()).ToStatus();
    return error.code() == StatusCode::kDataLoss ? AskAgain(request) : error;
  }
  if (direction_ == Direction::kRead) {
    const size_t offset = request.first * chunk_bytes_;
    if (message.size() != 2 || message[1].size() != BytesOf(request)) {
      return Internal("worker-0 answers without the ", BytesOf(request), " bytes from ", offset,
                      " on");
    }
    std::memcpy(memory_ + offset, message[1].data(), message[1].size());
    if (Checksum(message[1].data(), message[1].size()) != reply.getChecksum()) {
      return AskAgain(request);
    }
  }
  Mark(request, Chunk::kDone);
  done_ += request.chunks;
  return OkStatus();
}

Status BulkTransfer::AskAgain(const Request& request) {
  if (++damaged_ > kMostDamaged) {
    return DataLoss("bulk data of rank 0 arrives damaged: ", damaged_, " chunks of ",
                    BytesOf(request) >> 10, " KiB had other checksums than when they were sent; ",
                    "look at the network and the memory between this client and rank 0");
  }
  Mark(request, Chunk::kToDo);
  first_to_do_ = std::min(first_to_do_, request.first);
  return OkStatus();
}

}  // namespace lockstep::client
