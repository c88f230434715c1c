#include "runtime/collective/mpi/frames.h"

#include <cstring>
#include <utility>

#include "runtime/collective/mpi/library.h"

namespace lockstep::collective::mpi {
namespace {

// Receives that wait for whatever comes; what comes beyond waits inside MPI.
constexpr size_t kReceives = 16;
// Long frames on their way from this process at a time.
constexpr size_t kMostLongSends = 8;
// Buffers of shorter frames are not kept.
constexpr size_t kLongBytes = size_t{4} << 10;
// Frames that are taken before the caller looks at the clock again.
constexpr int kAtOnce = 64;

}  // namespace

Frames::Frames(const lockstep_mpi& mpi) : mpi_(mpi), receives_(kReceives) {
  for (Receive& receive : receives_) {
    receive.buffer.resize(sizeof(Frame) + kPayloadBytes);
    Post(receive);
  }
}

bool Frames::Check(int code) {
  if (code != 0 && failure_.ok()) failure_ = Unavailable("MPI has failed: ", Explain(mpi_, code));
  return failure_.ok();
}

void Frames::Post(Receive& receive) {
  if (failure_.ok()) {
    Check(mpi_.receive(receive.buffer.data(), static_cast<int>(receive.buffer.size()),
                       &receive.request));
  }
}

uint64_t Frames::Open(Receiver& receiver) {
  ports_[++last_port_] = &receiver;
  return last_port_;
}

void Frames::Close(uint64_t port) { ports_.erase(port); }

bool Frames::HasRoom() const { return long_sends_ < kMostLongSends; }

void Frames::SendTo(int process, const Frame& frame, absl::Span<const std::byte> payload,
                    std::shared_ptr<int> on_its_way) {
  if (!failure_.ok()) return;
  const bool is_long = payload.size() > kLongBytes;
  if (is_long && !spare_.empty()) {
    sends_.splice(sends_.end(), spare_, spare_.begin());
  } else {
    sends_.emplace_back().buffer.resize(sizeof(Frame) + (is_long ? kPayloadBytes : payload.size()));
  }
  Send& send = sends_.back();
  std::memcpy(send.buffer.data(), &frame, sizeof frame);
  if (!payload.empty()) {
    std::memcpy(send.buffer.data() + sizeof frame, payload.data(), payload.size());
  }
  send.on_its_way = std::move(on_its_way);
  if (send.on_its_way != nullptr) ++*send.on_its_way;
  if (is_long) ++long_sends_;
  Check(mpi_.send(send.buffer.data(), static_cast<int>(sizeof frame + payload.size()), process,
                  &send.request));
}

bool Frames::Progress() {
  const bool arrived = TakeArrived();
  return ForgetTaken() || arrived;
}

// Only the oldest receive is looked at: MPI gives them to messages in the order in which they were
// posted, which keeps the order of each sender.
bool Frames::TakeArrived() {
  bool any = false;
  for (int i = 0; i < kAtOnce && failure_.ok(); ++i) {
    Receive& receive = receives_[next_receive_];
    int done = 0;
    int from = 0;
    int size_bytes = 0;
    if (!Check(mpi_.test(&receive.request, &done, &from, &size_bytes)) || done == 0) break;
    any = true;
    next_receive_ = (next_receive_ + 1) % receives_.size();
    Deliver(from, {receive.buffer.data(), static_cast<size_t>(size_bytes)});
    Post(receive);
  }
  return any;
}

void Frames::Deliver(int process, absl::Span<const std::byte> bytes) {
  Frame frame;
  if (bytes.size() < sizeof frame) return;
  std::memcpy(&frame, bytes.data(), sizeof frame);
  const auto receiver = ports_.find(frame.port);
  if (receiver != ports_.end()) {
    receiver->second->TakeFrame(process, frame, bytes.subspan(sizeof frame));
  } else if (frame.kind == Frame::Kind::kData || frame.kind == Frame::Kind::kReady) {
    SendTo(process, {.port = frame.reply_port, .kind = Frame::Kind::kGone, .tag = frame.port}, {},
           nullptr);
  }
}

bool Frames::ForgetTaken() {
  bool any = false;
  for (auto send = sends_.begin(); send != sends_.end() && failure_.ok();) {
    int done = 0;
    int from = 0;
    int size_bytes = 0;
    if (!Check(mpi_.test(&send->request, &done, &from, &size_bytes)) || done == 0) {
      ++send;
      continue;
    }
    any = true;
    if (send->on_its_way != nullptr) --*std::exchange(send->on_its_way, nullptr);
    const auto taken = send++;
    if (taken->buffer.size() > sizeof(Frame) + kLongBytes) {
      --long_sends_;
      spare_.splice(spare_.end(), sends_, taken);
    } else {
      sends_.erase(taken);
    }
  }
  return any;
}

void Frames::End() {
  for (Receive& receive : receives_) {
    if (failure_.ok()) Check(mpi_.cancel_receive(&receive.request));
  }
  if (failure_.ok()) failure_ = Unavailable("this process has left its MPI job");
}

}  // namespace lockstep::collective::mpi
