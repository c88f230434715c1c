#include "services/worker/bulk/bulk_server.h"

#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "runtime/base/bulk_memory.h"
#include "runtime/base/deadline.h"
#include "runtime/base/random.h"
#include "runtime/base/resources.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/message_codec.h"
#include "runtime/tensor/storage.h"
#include "services/worker/values/reachable.h"

namespace lockstep::worker {
namespace {

constexpr std::chrono::hours kUntilWoken{1};

// Chunks are copied, never made.
tensor::Allocator& NoAllocator() {
  static const std::shared_ptr<tensor::Allocator> heap = tensor::NewHeapAllocator();
  return *heap;
}

}  // namespace

BulkServer::BulkServer(std::unique_ptr<control::ServerChannel> channel,
                       std::shared_ptr<BulkGate> gate)
    : channel_(std::move(channel)),
      endpoint_(channel_->endpoint()),
      gate_(std::move(gate)),
      host_(tensor::NewHostProcessor(NoAllocator())),
      thread_([this] { Run(); }) {}

BulkServer::~BulkServer() {
  stopping_ = true;
  wake_up_.Signal();
  thread_.join();
}

uint64_t BulkServer::Publish(const tensor::Tensor& tensor) {
  const uint64_t ticket = RandomNumber();
  std::lock_guard lock(mutex_);
  tensors_.insert_or_assign(ticket, Published{tensor});
  return ticket;
}

void BulkServer::Withdraw(uint64_t ticket) {
  std::unique_lock lock(mutex_);
  tensors_.erase(ticket);
  if (in_use_ == ticket) is_withdrawn_ = true;
  finished_.wait(lock, [&] { return in_use_ != ticket; });
}

tensor::Tensor BulkServer::Begin(uint64_t ticket) {
  std::lock_guard lock(mutex_);
  const auto found = tensors_.find(ticket);
  if (found == tensors_.end()) return tensor::Tensor();
  in_use_ = ticket;
  is_withdrawn_ = false;
  return found->second.tensor;
}

bool BulkServer::CommandsCame(uint64_t ticket) {
  const uint64_t commands = commands_.load(std::memory_order_relaxed);
  std::lock_guard lock(mutex_);
  const auto found = tensors_.find(ticket);
  return found != tensors_.end() && std::exchange(found->second.commands, commands) != commands;
}

void BulkServer::Finish() {
  std::lock_guard lock(mutex_);
  in_use_.reset();
  finished_.notify_all();
}

void BulkServer::UseGpu(std::unique_ptr<tensor::Processor> gpu, Prepare prepare) {
  std::lock_guard lock(mutex_);
  gpu_ = std::move(gpu);
  prepare_gpu_ = std::move(prepare);
}

StatusOr<tensor::Processor*> BulkServer::PlaceOf(const tensor::Tensor& tensor) {
  std::lock_guard lock(mutex_);
  LOCKSTEP_RETURN_IF_ERROR(
      RequireReachable({host_.get(), gpu_.get()}, tensor, "the tensor to copy"));
  if (tensor.device().type == DeviceType::kCpu) return host_.get();
  LOCKSTEP_RETURN_IF_ERROR(prepare_gpu_([this]() -> Status {
    if (stopping_) return Aborted("the worker stops");
    return is_withdrawn_ ? Aborted("the register was freed, or its session ended") : OkStatus();
  }));
  return gpu_.get();
}

void BulkServer::Run() {
  LowerThreadPriority();
  control::InputWaiter waiter{std::chrono::milliseconds(0)};
  control::Channel* const channels[] = {channel_.get()};
  const int descriptors[] = {wake_up_.fd()};
  while (!stopping_) {
    waiter.Wait(channels, descriptors, Deadline::After(kUntilWoken));
    control::PeerName client;
    control::Message message;
    while (!stopping_ && channel_->Receive(&client, &message)) Handle(client, message);
  }
}

void BulkServer::Handle(const control::PeerName& client, const control::Message& message) {
  if (message.empty() || AnswerStranger(client, message)) return;
  const auto began = Deadline::Clock::now();
  Synchronise();
  control::Message answer = {control::Frame()};
  uint64_t ticket = 0;
  uint64_t offset = 0;
  const Status status =
      control::DecodeMessage<wire::BulkRequest>(message[0], [&](wire::BulkRequest::Reader request) {
        ticket = request.getTicket();
        offset = request.getOffset();
        return Serve(request, message, &answer);
      });
  Synchronise();
  answer[0] = control::EncodeMessage<wire::BulkReply>([&](wire::BulkReply::Builder reply) {
    reply.setTicket(ticket);
    reply.setOffset(offset);
    reply.setCommandsCame(CommandsCame(ticket));
    if (answer.size() == 2) reply.setChecksum(Checksum(answer[1].data(), answer[1].size()));
    if (!status.ok()) control::WriteError(reply.initError(), control::ErrorOf(status));
  });
  const bool is_read = answer.size() == 2;
  const size_t bytes = is_read ? answer[1].size() : message.size() == 2 ? message[1].size() : 0;
  if (status.ok()) {
    (is_read ? read_ : written_).Add(bytes, 1, Deadline::Clock::now() - began);
  }
  if (ring_.is_on()) Record(began, is_read, bytes, status.code());
  if (!status.ok()) answer.resize(1);
  (void)channel_->Send({&client, 1}, answer);
}

bool BulkServer::AnswerStranger(const control::PeerName& client, const control::Message& message) {
  if (control::HasTag(message[0], control::Protocol::kBulkRequest)) [[likely]]
    return false;
  std::string hint;
  {
    std::lock_guard lock(mutex_);
    if (!client_endpoint_.empty()) hint = "the controller's client port is " + client_endpoint_;
  }
  std::optional<control::Frame> answer = control::AnswerToStranger(
      message[0], control::Protocol::kBulkRequest, control::Protocol::kBulkReply, hint);
  if (!answer.has_value()) return false;
  (void)channel_->Send({&client, 1}, {*std::move(answer)});
  return true;
}

void BulkServer::SetClientEndpoint(const std::string& endpoint) {
  std::lock_guard lock(mutex_);
  client_endpoint_ = endpoint;
}

void BulkServer::Record(Deadline::Clock::time_point began, bool is_read, size_t bytes,
                        StatusCode code) {
  trace::Event event;
  event.begin = trace::Nanos(began);
  event.end = trace::Now();
  event.kind = trace::Kind::kCopy;
  event.bytes = bytes;
  event.code = static_cast<uint16_t>(code);
  event.SetName(is_read ? "bulk read" : "bulk write");
  ring_.Add(event);
}

Status BulkServer::Serve(wire::BulkRequest::Reader request, const control::Message& message,
                         control::Message* answer) {
  const tensor::Tensor tensor = Begin(request.getTicket());
  const absl::Cleanup finish = [this] { Finish(); };
  if (tensor.IsNull()) {
    return NotFound("bulk ticket ", request.getTicket(),
                    " is not valid: the register was freed, or its session ended");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(tensor::Processor* const place, PlaceOf(tensor));
  const uint64_t offset = request.getOffset();
  const uint64_t total = tensor.size_bytes();
  const auto check = [&](uint64_t size) -> Status {
    if (offset <= total && size <= total - offset) return OkStatus();
    return OutOfRange("bytes ", offset, " to ", offset + size, " of a tensor of ", total, " bytes");
  };
  auto* bytes = static_cast<std::byte*>(tensor.data());
  switch (request.which()) {
    case wire::BulkRequest::WRITE:
      if (message.size() != 2) return InvalidArgument("a write needs a frame with its bytes");
      LOCKSTEP_RETURN_IF_ERROR(check(message[1].size()));
      if (Checksum(message[1].data(), message[1].size()) != request.getWrite()) {
        return DataLoss("bytes ", offset, " to ", offset + message[1].size(),
                        " have another checksum than when they were sent");
      }
      return place->FromHost(bytes + offset, message[1].data(), message[1].size());
    case wire::BulkRequest::READ: {
      const uint64_t size = request.getRead();
      if (size > uint64_t{kMaxBulkChunkBytes}) {
        return InvalidArgument("a read of ", size, " bytes; at most ", kMaxBulkChunkBytes,
                               " at a time");
      }
      LOCKSTEP_RETURN_IF_ERROR(check(size));
      const auto chunk = std::make_shared_for_overwrite<std::byte[]>(size);
      LOCKSTEP_RETURN_IF_ERROR(place->ToHost(chunk.get(), bytes + offset, size));
      answer->push_back(control::Frame(chunk, chunk.get(), size));
      return OkStatus();
    }
  }
  return Unimplemented("unknown bulk request ", static_cast<int>(request.which()));
}

}  // namespace lockstep::worker
