#include "services/controller/reports/register_report.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "runtime/control/message_codec.h"
#include "schemas/membership.capnp.h"

namespace lockstep::controller {
namespace {

// How long the workers may take. One that is busy says so sooner.
constexpr uint64_t kPatienceMillis = 1000;
// Registers in one answer, from all ranks together: some megabytes.
constexpr uint32_t kMostListed = 16'384;

}  // namespace

Status RegisterReport::Ask(const control::PeerName& client, wire::ListRegisters::Reader question) {
  const Rank only = question.getRank();
  if (only < -1 || only >= tools_.membership.size()) {
    return InvalidArgument("there is no rank ", only, ": the ranks are 0 to ",
                           tools_.membership.size() - 1);
  }
  const SessionId session(question.getSession());
  if (session != SessionId() && sessions_.Find(session) == nullptr) {
    return NotFound("session ", session, " is not open; `lockstep sessions` lists those that are");
  }
  LOCKSTEP_RETURN_IF_ERROR(inquiries_.CheckRoom(client));
  std::vector<bool> asked;
  for (Rank rank = 0; rank < tools_.membership.size(); ++rank) {
    asked.push_back((only < 0 || rank == only) &&
                    tools_.membership.member(rank).state == Membership::State::kReady);
  }
  const auto ranks = static_cast<uint32_t>(only < 0 ? tools_.membership.size() : 1);
  const uint32_t most = std::min(question.getMost(), std::max(kMostListed / ranks, 1u));
  const uint64_t probe = inquiries_.Begin({client, question.getRequest(), true, only},
                                          std::move(asked), tools_.timers.After(kPatienceMillis));
  liveness_.AskRegisters(probe, only, session, most);
  return OkStatus();
}

std::string RegisterReport::WhyNot(Rank rank) const {
  const Membership::Member& member = tools_.membership.member(rank);
  switch (member.state) {
    case Membership::State::kMissing:
      return "no worker has joined with this rank yet";
    case Membership::State::kWaiting:
    case Membership::State::kJoining:
      return "it is joining";
    case Membership::State::kLost:
      return "it is lost: " + member.lost_because;
    case Membership::State::kReady:
      return "it has not answered within " + std::to_string(kPatienceMillis) + " ms";
  }
  return "";
}

void RegisterReport::Send(const Inquiry& inquiry) {
  const Rank first = std::max(inquiry.rank, 0);
  const Rank end = inquiry.rank < 0 ? tools_.membership.size() : inquiry.rank + 1;
  const control::Frame frame = control::EncodeMessage<wire::ControllerMessage>([&](auto message) {
    auto listing = message.initRegisterListing();
    listing.setRequest(inquiry.request);
    listing.setCluster(tools_.options.cluster);
    auto ranks = listing.initRanks(static_cast<unsigned>(end - first));
    for (Rank rank = first; rank < end; ++rank) {
      auto entry = ranks[static_cast<unsigned>(rank - first)];
      entry.setRank(rank);
      const control::Frame& report = inquiry.reports[static_cast<size_t>(rank)];
      if (report.size() > 0) {
        // It was read before, when it came.
        (void)control::DecodeMessage<wire::LivenessMessage>(
            report, [&](wire::LivenessMessage::Reader answer) {
              if (answer.isHeldRegisters()) entry.setHeld(answer.getHeldRegisters());
              return OkStatus();
            });
      }
      if (!entry.hasHeld()) entry.setWhy(WhyNot(rank));
    }
  });
  outbox_.ToClient(inquiry.client, unread_.Charge(inquiry.client, {frame}));
}

}  // namespace lockstep::controller
