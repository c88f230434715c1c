// What workers say, each answer once and in order, whichever way it has come.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <unordered_map>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/tree/packet.h"
#include "runtime/control/tree/tree_keys.h"

namespace lockstep::control {

// Threads: one at a time.
class AnswerCollector {
 public:
  // An answer that is not taken.
  struct Fault {
    enum class Kind {
      kTag,  // its worker has not said it
      kGap,  // one before it is missing
    };
    Kind kind = Kind::kTag;
    PeerName worker;
    uint64_t last = 0;  // of that worker's answers, which was taken
  };

  // Answers of `peer` are taken from now on; bundles call it `number`.
  void Add(uint64_t number, const PeerName& peer, const AnswerKey& key);
  void Remove(uint64_t number) { workers_.erase(number); }

  // Takes what is in a bundle; what was taken before, or is of a worker that is not known, is
  // passed over. `on_fault` adds and removes no workers.
  // kInvalidArgument: it is no bundle, or breaks off; what is before that is taken.
  Status Take(const Message& bundle, const std::function<void(const Fault&)>& on_fault);
  // Whether an answer of that worker has come before one that is missing still.
  bool HasGap(uint64_t number) const;

  bool empty() const { return answers_.empty(); }
  // The next answer, and whose it is; there is one.
  std::pair<PeerName, Message> Next();

 private:
  struct Worker {
    PeerName peer;
    AnswerKey key;
    uint64_t last = 0;     // number of the last one that was taken, ...
    uint64_t dropped = 0;  // ... and of the last that came before one which is missing
  };

  std::unordered_map<uint64_t, Worker> workers_;
  std::deque<std::pair<PeerName, Message>> answers_;
};

}  // namespace lockstep::control
