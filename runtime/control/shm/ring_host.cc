#include "runtime/control/shm/ring_host.h"

#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/base/random.h"

namespace lockstep::control {
namespace {

// What is watched is known by a number. Those of connections are greater.
constexpr uint64_t kOfOthers = 0;
constexpr uint64_t kOfListener = 1;

constexpr int kNonceBytes = 16;
// Processes of this user's that connect and say nothing.
constexpr size_t kMostStrangers = 64;
constexpr size_t kMostOffers = 8192;

Status Watch(const Descriptor& all, int fd, uint64_t id) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = id;
  if (all.is_open() && epoll_ctl(all.get(), EPOLL_CTL_ADD, fd, &event) == 0) return OkStatus();
  return Unavailable("cannot wait for peers that share memory: ", std::strerror(errno));
}

}  // namespace

StatusOr<std::unique_ptr<RingHost>> RingHost::Create(int slots, RingSizes words,
                                                     std::shared_ptr<const BroadcastPages> shared) {
  LOCKSTEP_ASSIGN_OR_RETURN(RingListener listener, RingListener::Create());
  Descriptor all(epoll_create1(EPOLL_CLOEXEC));
  LOCKSTEP_RETURN_IF_ERROR(Watch(all, listener.fd(), kOfListener));
  return std::unique_ptr<RingHost>(
      new RingHost(std::move(listener), slots, words, std::move(shared), std::move(all)));
}

RingHost::RingHost(RingListener listener, int slots, RingSizes words,
                   std::shared_ptr<const BroadcastPages> shared, Descriptor all)
    : listener_(std::move(listener)),
      words_(words),
      shared_(std::move(shared)),
      all_(std::move(all)),
      last_link_(kOfListener),
      link_of_(static_cast<size_t>(slots)) {}

Status RingHost::WatchToo(int fd) { return Watch(all_, fd, kOfOthers); }

RingOffer RingHost::OfferTo(const PeerName& peer) {
  Withdraw(peer);
  // Of peers that never ask: they go on by socket, like one that asks too late.
  if (offers_.size() >= kMostOffers) offers_.erase(offers_.begin());
  std::string nonce = RandomHex(kNonceBytes);
  offers_.emplace(nonce, peer);
  return RingOffer{listener_.address(), std::move(nonce)};
}

void RingHost::Withdraw(const PeerName& peer) {
  std::erase_if(offers_, [&](const auto& offer) { return offer.second == peer; });
  for (auto link = links_.begin(); link != links_.end();) {
    const Connection& connection = link->second;
    if (connection.peer != peer || !connection.answers.has_value()) {
      ++link;
      continue;
    }
    link_of_[static_cast<size_t>(*connection.slot)].reset();
    link = links_.erase(link);
  }
}

RingHost::News RingHost::Look() {
  News news;
  std::array<epoll_event, 64> events;
  const int count = epoll_wait(all_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const uint64_t id = events[static_cast<size_t>(i)].data.u64;
    if (id == kOfListener) AcceptLinks();
    if (id == kOfOthers) news.others = true;
    const auto found = links_.find(id);
    if (found == links_.end()) continue;
    Connection& connection = found->second;
    const bool has_memory = connection.slot.has_value() && !connection.answers.has_value();
    if (has_memory) {
      news.wakes = true;
      if (!connection.link.TakeWakes()) Close(id, &news);
      continue;
    }
    std::string bytes;
    const RingLink::Input input = connection.link.Receive(&bytes);
    const bool is_closed =
        input == RingLink::Input::kClosed ||
        (input == RingLink::Input::kMessage && !HandleInput(connection, bytes, &news));
    if (is_closed) {
      Close(id, &news);
    } else if (connection.slot.has_value()) {
      link_of_[static_cast<size_t>(*connection.slot)] = id;
    }
  }
  return news;
}

void RingHost::AcceptLinks() {
  for (RingLink& link : listener_.Accept()) {
    if (links_.size() >= link_of_.size() + kMostStrangers) continue;
    const uint64_t id = ++last_link_;
    if (!Watch(all_, link.fd(), id).ok()) continue;
    links_.emplace(id, Connection{std::move(link), std::nullopt, "", std::nullopt, nullptr});
  }
}

bool RingHost::HandleInput(Connection& connection, const std::string& bytes, News* news) {
  if (!connection.slot.has_value()) return HandOver(connection, bytes).ok();
  if (bytes != kRingMapped) return false;
  news->mapped.push_back({*connection.slot, PlaceOf(*connection.slot), connection.peer,
                          *std::move(connection.answers), std::move(connection.broadcast),
                          connection.link.peer_pid()});
  connection.answers.reset();
  return true;
}

Status RingHost::HandOver(Connection& connection, const std::string& nonce) {
  const auto offer = offers_.find(nonce);
  if (offer == offers_.end()) return PermissionDenied("a nonce that was not given");
  const PeerName peer = offer->second;
  offers_.erase(offer);
  size_t slot = 0;
  while (slot < link_of_.size() && link_of_[slot].has_value()) ++slot;
  if (slot == link_of_.size()) return ResourceExhausted("all rings are in use");
  std::shared_ptr<const BroadcastPages> broadcast = shared_;
  if (broadcast == nullptr) {
    LOCKSTEP_ASSIGN_OR_RETURN(broadcast, BroadcastPages::Create(1, words_.broadcast));
  }
  const size_t size_bytes = AnswerMemory::SizeBytes(words_.answers);
  LOCKSTEP_ASSIGN_OR_RETURN(const Descriptor memory, CreateMemory(size_bytes));
  LOCKSTEP_ASSIGN_OR_RETURN(MappedMemory pages,
                            MappedMemory::Map(memory, size_bytes, MappedMemory::Access::kRead));
  const RingPlace place{static_cast<uint64_t>(PlaceOf(static_cast<int>(slot))),
                        static_cast<uint64_t>(broadcast->slots()), words_};
  LOCKSTEP_RETURN_IF_ERROR(
      connection.link.Send({reinterpret_cast<const char*>(&place), sizeof place},
                           {broadcast->descriptor().get(), memory.get()}));
  connection.slot = static_cast<int>(slot);
  connection.peer = peer;
  connection.answers = std::move(pages);
  connection.broadcast = std::move(broadcast);
  return OkStatus();
}

void RingHost::Close(uint64_t id, News* news) {
  const auto found = links_.find(id);
  const std::optional<int> slot = found->second.slot;
  const bool has_memory = slot.has_value() && !found->second.answers.has_value();
  links_.erase(found);
  if (!slot.has_value()) return;
  std::optional<uint64_t>& link = link_of_[static_cast<size_t>(*slot)];
  if (has_memory) {
    link = 0;
    news->ended.push_back(*slot);
  } else {
    link.reset();
  }
}

void RingHost::Wake(int slot) {
  const auto link = links_.find(link_of_[static_cast<size_t>(slot)].value_or(0));
  if (link != links_.end()) link->second.link.Wake();
}

void RingHost::Free(int slot) {
  std::optional<uint64_t>& link = link_of_[static_cast<size_t>(slot)];
  links_.erase(link.value_or(0));
  link.reset();
}

}  // namespace lockstep::control
