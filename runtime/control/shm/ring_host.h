// Hands the memory of rings over to the peers that were offered some, and notices their ends.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/shm/broadcast_pages.h"
#include "runtime/control/shm/ring_handover.h"
#include "runtime/control/shm/ring_link.h"
#include "runtime/control/shm/ring_memory.h"
#include "runtime/control/shm/sealed_memory.h"

namespace lockstep::control {

// Threads: one at a time.
class RingHost {
 public:
  // For at most `slots` peers at a time. All read what is `shared`; without it each has broadcast
  // memory of its own. kUnavailable: there are no descriptors for it.
  static StatusOr<std::unique_ptr<RingHost>> Create(int slots, RingSizes words,
                                                    std::shared_ptr<const BroadcastPages> shared);

  RingSizes words() const { return words_; }
  int slots() const { return static_cast<int>(link_of_.size()); }
  // Readable when Look() has news. `fd` is watched, too, but means none.
  int wait_fd() const { return all_.get(); }
  Status WatchToo(int fd);

  // Good once, and until the next one to the same peer.
  RingOffer OfferTo(const PeerName& peer);
  // The peer is offered nothing any more, also where it has asked already.
  void Withdraw(const PeerName& peer);

  struct Mapped {
    int slot;
    int place;  // its slot in `broadcast`
    PeerName peer;
    MappedMemory answers;                             // of AnswerMemory, to read
    std::shared_ptr<const BroadcastPages> broadcast;  // that it reads
    pid_t pid;                                        // 0: of another PID namespace
  };
  struct News {
    std::vector<Mapped> mapped;
    std::vector<int> ended;  // slots of peers whose link is closed; they are not free yet
    bool wakes = false;      // some peer has woken us
    bool others = false;     // what is watched besides is readable
  };
  News Look();

  // Wakes the peer that has mapped its memory, if it is still there.
  void Wake(int slot);
  // The slot may be another's.
  void Free(int slot);

 private:
  // One that has yet to say its nonce, to map its memory, or that has it.
  struct Connection {
    RingLink link;
    std::optional<int> slot;
    PeerName peer;
    std::optional<MappedMemory> answers;  // handed over, and not mapped yet
    std::shared_ptr<const BroadcastPages> broadcast;
  };

  RingHost(RingListener listener, int slots, RingSizes words,
           std::shared_ptr<const BroadcastPages> shared, Descriptor all);

  // In the broadcast memory that the peer of `slot` reads.
  int PlaceOf(int slot) const { return shared_ == nullptr ? 0 : slot; }
  void AcceptLinks();
  // False: the connection is to be closed.
  bool HandleInput(Connection& connection, const std::string& bytes, News* news);
  Status HandOver(Connection& connection, const std::string& nonce);
  void Close(uint64_t id, News* news);

  RingListener listener_;
  const RingSizes words_;
  const std::shared_ptr<const BroadcastPages> shared_;  // null: each peer has its own
  const Descriptor all_;  // readable when the listener, a link, or what is watched besides is
  uint64_t last_link_;
  std::map<uint64_t, Connection> links_;
  std::unordered_map<std::string, PeerName> offers_;  // by nonce
  // By slot: whether it is in use, and by which connection (0: that is closed).
  std::vector<std::optional<uint64_t>> link_of_;
};

}  // namespace lockstep::control
