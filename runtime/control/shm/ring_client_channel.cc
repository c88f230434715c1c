#include "runtime/control/shm/ring_client_channel.h"

#include <poll.h>
#include <sys/epoll.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::control {
namespace {

constexpr uint64_t kMostSlots = 4096;

// Answers that are larger travel by socket.
constexpr uint64_t kLargestAnswerWords = kAnswerWords / 8;

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

StatusOr<Descriptor> WatchBoth(int first, int second) {
  Descriptor all(epoll_create1(EPOLL_CLOEXEC));
  for (const int fd : {first, second}) {
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.fd = fd;
    if (!all.is_open() || epoll_ctl(all.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
      return Unavailable("cannot wait for a link and a socket: ", std::strerror(errno));
    }
  }
  return all;
}

}  // namespace

RingClientChannel::Rings::Rings(RingLink given, MappedMemory broadcast_memory,
                                MappedMemory answer_memory, int own_slot, int slots)
    : link(std::move(given)),
      broadcast_pages(std::move(broadcast_memory)),
      answer_pages(std::move(answer_memory)),
      slot(own_slot),
      broadcast(broadcast_pages.data(), slots, kBroadcastWords),
      answers(answer_pages.data(), kAnswerWords),
      controller(broadcast.header().sleep),
      writer(answers, broadcast.taken(own_slot)) {}

RingClientChannel::RingClientChannel(std::unique_ptr<ClientChannel> sockets)
    : sockets_(std::move(sockets)) {}

RingClientChannel::~RingClientChannel() = default;

Status RingClientChannel::Attach(const RingOffer& offer, Deadline deadline) {
  if (rings_ != nullptr) return FailedPrecondition("this channel has had its rings");
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
  if (place.slots > kMostSlots || place.slot >= place.slots) {
    return Internal("the controller gives slot ", place.slot, " of ", place.slots);
  }
  const int slots = static_cast<int>(place.slots);
  LOCKSTEP_ASSIGN_OR_RETURN(
      MappedMemory broadcast,
      MappedMemory::Map(memory[0], BroadcastMemory::SizeBytes(slots, kBroadcastWords),
                        MappedMemory::Access::kRead));
  LOCKSTEP_ASSIGN_OR_RETURN(MappedMemory answers,
                            MappedMemory::Map(memory[1], AnswerMemory::SizeBytes(kAnswerWords),
                                              MappedMemory::Access::kReadAndWrite));
  LOCKSTEP_ASSIGN_OR_RETURN(Descriptor all, WatchBoth(sockets_->wait_fd(), link.fd()));
  LOCKSTEP_RETURN_IF_ERROR(link.Send(kRingMapped));
  rings_ = std::make_unique<Rings>(std::move(link), std::move(broadcast), std::move(answers),
                                   static_cast<int>(place.slot), slots);
  all_ = std::move(all);
  return OkStatus();
}

void RingClientChannel::Switch(uint64_t position) {
  rings_->reader.emplace(rings_->broadcast, rings_->slot, position, rings_->answers.header().read);
  // What was said by socket before comes first.
  const Status told = sockets_->Send({NoteFrame(kNumberMagic, 0)});
  if (!told.ok()) failure_ = told;
}

void RingClientChannel::WakeController() {
  if (rings_->controller.MustWake()) rings_->link.Wake();
}

void RingClientChannel::Detach() {
  detached_ = true;
  epoll_ctl(all_.get(), EPOLL_CTL_DEL, rings_->link.fd(), nullptr);
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
  if (rings_ != nullptr) rings_->answers.header().sleep.Begin();
  looks_ = kSocketsEvery - 1;  // the next look is a whole one
}

void RingClientChannel::EndSleep() {
  if (rings_ == nullptr) return;
  rings_->answers.header().sleep.End();
  if (!detached_ && !rings_->link.TakeWakes()) Detach();
}

Status RingClientChannel::Send(const Message& message) {
  if (!by_ring()) return sockets_->Send(message);
  if (detached_) return Unavailable("the controller has let go of the memory it shared");
  const uint64_t number = ++sent_;
  const bool is_small = RecordWords(message) <= kLargestAnswerWords;
  if (is_small && rings_->writer.Write(number, message)) {
    WakeController();
    return OkStatus();
  }
  Message numbered{NoteFrame(kNumberMagic, number)};
  numbered.insert(numbered.end(), message.begin(), message.end());
  return sockets_->Send(numbered);
}

bool RingClientChannel::Receive(Message* message) {
  while (!by_ring()) {
    if (!sockets_->Receive(message)) return false;
    if (rings_ == nullptr) return true;
    const std::optional<uint64_t> position = ReadNote(kSwitchMagic, *message);
    if (!position.has_value()) return true;
    Switch(*position);
  }
  return ReceiveByRing(message);
}

bool RingClientChannel::ReceiveByRing(Message* message) {
  while (failure_.ok()) {
    if (by_socket_is_due_) {
      if (!sockets_->Receive(message)) return false;
      by_socket_is_due_ = false;
      return true;
    }
    const StatusOr<BroadcastReader::Next> next = rings_->reader->Take(message);
    if (!next.ok()) {
      failure_ = next.status();
      return false;
    }
    if (rings_->reader->GivesAwaitedRoom()) WakeController();
    if (*next == BroadcastReader::Next::kMessage) return true;
    by_socket_is_due_ = *next == BroadcastReader::Next::kBySocket;
    if (*next == BroadcastReader::Next::kNothing) {
      return detached_ && sockets_->Receive(message);
    }
  }
  return false;
}

}  // namespace lockstep::control
