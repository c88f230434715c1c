// Exchanges between workers that cannot talk to one another yet: each tells each other something,
// such as where it listens (schemas/membership.capnp, Exchange).
//
// Threads: one at a time. No sockets, no clocks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/control/channel.h"
#include "schemas/membership.capnp.h"

namespace lockstep::controller {

class Exchanges {
 public:
  struct Offer {
    Rank rank = 0;
    Epoch epoch;
    uint64_t number = 0;
    uint64_t key = 0;
    std::vector<Rank> members;         // empty: it gives up
    std::vector<std::string> offered;  // to each member, or one to all
  };
  // What members have offered to one of them, or to all alike. As it is sent, too: encoded once.
  struct Offered {
    std::vector<std::string> texts;  // by member
    control::Frame frame;            // an OfferList
  };
  struct Answer {
    Rank to = 0;
    uint64_t number = 0;
    // Null while members are missing. Shared by all members that are told the same.
    std::shared_ptr<const Offered> offered;
    std::vector<Rank> missing;
  };

  explicit Exchanges(int workers) : last_(static_cast<size_t>(workers)) {}

  // What is to be said now: to all members, once the last one has come; to a member that says its
  // offer again, how it stands. An offer that makes no sense, or of a world that is over, is
  // dropped.
  std::vector<Answer> Take(Offer offer);

  // `rank` has another worker, or none: what it has begun is given up.
  void Forget(Rank rank);

 private:
  using Name = std::pair<uint64_t, std::vector<Rank>>;  // key, members
  using Meeting = std::vector<std::optional<Offer>>;    // by member
  using Meetings = std::map<Name, Meeting>;
  // The last exchange of a worker.
  struct Last {
    uint64_t number = 0;
    const Name* meeting = nullptr;  // while others are missing: a key of meetings_
    std::optional<Answer> answer;   // since none is
  };

  bool MakesSense(const Offer& offer) const;
  void GiveUp(Rank rank);
  static std::shared_ptr<const Offered> OfferedTo(const Meeting& meeting, size_t to);
  std::vector<Answer> Complete(Meetings::iterator met);

  Epoch epoch_;
  Meetings meetings_;
  std::vector<Last> last_;  // by rank
};

Exchanges::Offer ReadOffer(wire::Exchange::Reader exchange);
// A LivenessMessage for the worker, and what it was offered.
control::Message ExchangedMessage(const Exchanges::Answer& answer);

}  // namespace lockstep::controller
