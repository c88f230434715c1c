#include "runtime/control/shm/ring_client_channel.h"

#include <poll.h>
#include <sys/epoll.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::control {
namespace {

constexpr uint64_t kMostSlots = 4096;

constexpr uint64_t kMostRingWords = uint64_t{1} << 20;
// Messages that take more than this part of a ring travel by socket.
constexpr uint64_t kLargestPart = 8;

bool IsCapacity(uint64_t words) { return std::has_single_bit(words) && words <= kMostRingWords; }

// The next message of `link`, by the deadline.
Status AwaitMessage(RingLink& link, std::string* bytes, std::vector<Descriptor>* descriptors,
                    Deadline deadline) {
  do {
    switch (link.Receive(bytes, descriptors)) {
      case RingLink::Input::kMessage:
        return OkStatus();
      case RingLink::Input::kClosed:
        return Unavailable("the controller does not give its memory");
      case RingLink::Input::kNothing:
        break;
    }
    pollfd set = {link.fd(), POLLIN, 0};
    (void)poll(&set, 1, deadline.RemainingMillis());
  } while (!deadline.Expired());
  return Unavailable("the controller has not given its memory in time");
}

Status Watch(const Descriptor& all, int fd) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (all.is_open() && epoll_ctl(all.get(), EPOLL_CTL_ADD, fd, &event) == 0) return OkStatus();
  return Unavailable("cannot wait for a link and a socket: ", std::strerror(errno));
}

}  // namespace

RingClientChannel::Rings::Rings(RingLink given, MappedMemory broadcast_memory,
                                MappedMemory answer_memory, const RingPlace& place)
    : link(std::move(given)),
      broadcast_pages(std::move(broadcast_memory)),
      answer_pages(std::move(answer_memory)),
      slot(static_cast<int>(place.slot)),
      broadcast(broadcast_pages.data(), static_cast<int>(place.slots), place.words.broadcast),
      answers(answer_pages.data(), place.words.answers),
      largest_words(place.words.answers / kLargestPart),
      controller(broadcast.header().sleep),
      writer(answers, broadcast.taken(slot)) {}

RingClientChannel::RingClientChannel(std::unique_ptr<ClientChannel> sockets, AtEnd at_end)
    : sockets_(std::move(sockets)), at_end_(at_end), all_(epoll_create1(EPOLL_CLOEXEC)) {
  // Without it there will be no rings: Attach() says so.
  if (!Watch(all_, sockets_->wait_fd()).ok()) all_.Close();
}

RingClientChannel::~RingClientChannel() = default;

Status RingClientChannel::Attach(const RingOffer& offer, Deadline deadline) {
  // Of a controller that has ended before it said from where on to read.
  if (rings_ != nullptr && !by_ring() && at_end_ == AtEnd::kGoOnBySocket) DropRings();
  if (rings_ != nullptr) return FailedPrecondition("this channel has its rings");
  LOCKSTEP_ASSIGN_OR_RETURN(RingLink link, RingLink::Connect(offer.address));
  LOCKSTEP_RETURN_IF_ERROR(link.Send(offer.nonce));
  std::string bytes;
  std::vector<Descriptor> memory;
  LOCKSTEP_RETURN_IF_ERROR(AwaitMessage(link, &bytes, &memory, deadline));
  RingPlace place;
  if (bytes.size() != sizeof place || memory.size() != 2) {
    return Internal("the controller gives ", memory.size(), " descriptors and ", bytes.size(),
                    " bytes where its memory is asked for");
  }
  std::memcpy(&place, bytes.data(), sizeof place);
  if (place.slots > kMostSlots || place.slot >= place.slots || !IsCapacity(place.words.broadcast) ||
      !IsCapacity(place.words.answers)) {
    return Internal("the controller gives slot ", place.slot, " of ", place.slots, " in rings of ",
                    place.words.broadcast, " and ", place.words.answers, " words");
  }
  const int slots = static_cast<int>(place.slots);
  LOCKSTEP_ASSIGN_OR_RETURN(
      MappedMemory broadcast,
      MappedMemory::Map(memory[0], BroadcastMemory::SizeBytes(slots, place.words.broadcast),
                        MappedMemory::Access::kRead));
  LOCKSTEP_ASSIGN_OR_RETURN(
      MappedMemory answers,
      MappedMemory::Map(memory[1], AnswerMemory::SizeBytes(place.words.answers),
                        MappedMemory::Access::kReadAndWrite));
  LOCKSTEP_RETURN_IF_ERROR(Watch(all_, link.fd()));
  LOCKSTEP_RETURN_IF_ERROR(link.Send(kRingMapped));
  rings_ =
      std::make_unique<Rings>(std::move(link), std::move(broadcast), std::move(answers), place);
  due_since_ = Deadline::Clock::now();  // the note that says so
  interruptions_ = sockets_->interruptions();
  if (is_asleep_) rings_->answers.header().sleep.Begin();
  return OkStatus();
}

void RingClientChannel::Switch(uint64_t position) {
  rings_->reader.emplace(rings_->broadcast, rings_->slot, position, rings_->answers.header().read);
  read_at_ = Deadline::Clock::now();
  read_to_ = 0;
  TellToRead();
}

void RingClientChannel::TellToRead() {
  told_to_read_ = Deadline::Clock::now();
  // By socket: what was said there before comes first.
  const Status told = sockets_->Send({NoteFrame(kNumberMagic, 0)});
  if (!told.ok()) failure_ = told;
}

void RingClientChannel::WakeController() {
  if (rings_->controller.MustWake()) rings_->link.Wake();
}

void RingClientChannel::Detach() {
  detached_ = true;
  epoll_ctl(all_.get(), EPOLL_CTL_DEL, rings_->link.fd(), nullptr);
  // What is due may never come. What is left in the ring, and comes after it, must not come after
  // what the next controller says.
  if (at_end_ == AtEnd::kGoOnBySocket && (by_socket_is_due_ || !by_ring())) DropRings();
}

void RingClientChannel::NoticeEnd(std::chrono::milliseconds longest_gap) {
  if (rings_ == nullptr) return;
  if (!detached_ && !rings_->link.TakeWakes()) Detach();
  if (rings_ == nullptr || at_end_ == AtEnd::kStop) return;
  const auto now = Deadline::Clock::now();
  const bool is_due = by_socket_is_due_ || !by_ring();
  const bool is_unread = by_ring() && !detached_ && IsUnreadFor(longest_gap, now);
  const bool is_late = is_due && now - due_since_ >= longest_gap;
  const bool was_never_read = is_unread && rings_->writer.taken() == 0;
  const uint64_t interruptions = sockets_->interruptions();
  if (interruptions != interruptions_ && (is_late || (is_unread && !was_never_read)))
    return DropRings();
  // A controller that was told already takes no notice.
  if (was_never_read && now - told_to_read_ >= longest_gap) TellToRead();
  const bool all_is_well = !is_due && HasArrived() && rings_->writer.is_all_read();
  if (all_is_well) interruptions_ = interruptions;
}

bool RingClientChannel::HasArrived() const {
  return since_by_socket_ >= kEnough && rings_->writer.taken() >= arrived_at_;
}

bool RingClientChannel::IsUnreadFor(std::chrono::milliseconds gap,
                                    Deadline::Clock::time_point now) {
  const AnswerWriter& writer = rings_->writer;
  if (writer.is_all_read() || writer.taken() != read_to_) read_at_ = now;
  read_to_ = writer.taken();
  return !writer.is_all_read() && now - read_at_ >= gap;
}

void RingClientChannel::DropRings() {
  // The link's end takes it out of what is watched.
  rings_.reset();
  detached_ = by_socket_is_due_ = false;
  sent_ = by_socket_ = arrived_at_ = 0;
  since_by_socket_ = kEnough;
  failure_ = OkStatus();
}

bool RingClientChannel::HasInput() {
  const bool ring_is_enough = by_ring() && !by_socket_is_due_ && !detached_;
  if (ring_is_enough && ++looks_ % kSocketsEvery != 0) return rings_->reader->HasInput();
  // Asked also for what is not due yet: its descriptor stays readable until then, and must not keep
  // a thread awake.
  const bool by_socket = sockets_->HasInput();
  if (!by_ring() || by_socket_is_due_) return by_socket;
  return rings_->reader->HasInput() || (detached_ && by_socket);
}

void RingClientChannel::BeginSleep() {
  is_asleep_ = true;
  sockets_->BeginSleep();
  if (rings_ != nullptr) rings_->answers.header().sleep.Begin();
  looks_ = kSocketsEvery - 1;  // the next look is a whole one
}

void RingClientChannel::EndSleep() {
  is_asleep_ = false;
  sockets_->EndSleep();
  if (rings_ == nullptr) return;
  rings_->answers.header().sleep.End();
  if (!detached_ && !rings_->link.TakeWakes()) Detach();
}

Status RingClientChannel::Send(const Message& message) {
  if (!by_ring()) return sockets_->Send(message);
  if (detached_ && at_end_ == AtEnd::kGoOnBySocket) return sockets_->Send(message);
  if (detached_) return Unavailable("the controller has let go of the memory it shared");
  const uint64_t number = ++sent_;
  const bool is_small = RecordWords(message) <= rings_->largest_words;
  if (is_small && rings_->writer.Write(number, message)) {
    if (since_by_socket_ < kEnough && ++since_by_socket_ == kEnough) {
      arrived_at_ = rings_->writer.head();
    }
    WakeController();
    return OkStatus();
  }
  since_by_socket_ = 0;
  return sockets_->Send(WithNote(kNumberMagic, number, message));
}

bool RingClientChannel::Receive(Message* message) {
  while (true) {
    if (by_ring()) {
      if (ReceiveByRing(message)) return true;
      const bool is_over = detached_ || !failure_.ok();
      if (at_end_ == AtEnd::kStop || !is_over) return false;
      DropRings();
    }
    if (!sockets_->Receive(message)) return false;
    // Of rings that were given up meanwhile.
    if (ReadNote(kBySocketMagic, *message).has_value()) message->erase(message->begin());
    const std::optional<uint64_t> position = ReadNote(kSwitchMagic, *message);
    if (!position.has_value()) return true;
    // Without rings: it is late, and they were given up for it.
    if (rings_ != nullptr) Switch(*position);
  }
}

bool RingClientChannel::ReceiveByRing(Message* message) {
  while (failure_.ok()) {
    if (by_socket_is_due_) {
      if (!sockets_->Receive(message)) return false;
      by_socket_is_due_ = false;
      const std::optional<uint64_t> number = ReadNote(kBySocketMagic, *message);
      if (!number.has_value()) return true;  // as to workers, whose batches are numbered
      message->erase(message->begin());
      if (*number == by_socket_) return true;
      failure_ = DataLoss("message ", by_socket_, " by socket has not come, and ", *number, " has");
      return false;
    }
    const StatusOr<BroadcastReader::Next> next = rings_->reader->Take(message);
    if (!next.ok()) {
      failure_ = next.status();
      return false;
    }
    if (rings_->reader->GivesAwaitedRoom()) WakeController();
    if (*next == BroadcastReader::Next::kMessage) return true;
    by_socket_is_due_ = *next == BroadcastReader::Next::kBySocket;
    if (by_socket_is_due_) {
      ++by_socket_;
      due_since_ = Deadline::Clock::now();
    }
    if (*next == BroadcastReader::Next::kNothing) {
      return detached_ && at_end_ == AtEnd::kStop && sockets_->Receive(message);
    }
  }
  return false;
}

}  // namespace lockstep::control
