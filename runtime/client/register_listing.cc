#include "runtime/client/register_listing.h"

#include "runtime/client/controller_answer.h"
#include "runtime/client/first_answer.h"
#include "runtime/control/activity_codec.h"
#include "runtime/control/held_registers_codec.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/value_codec.h"
#include "schemas/session.capnp.h"

namespace lockstep {
namespace client {
namespace {

RankRegisters ReadRank(wire::RankRegisters::Reader reader) {
  RankRegisters rank;
  rank.rank = reader.getRank();
  rank.why = control::ToString(reader.getWhy());
  if (!reader.hasHeld()) return rank;
  auto held = reader.getHeld();
  rank.activity = control::ReadActivity(held.getActivity());
  if (held.getBusy()) {
    const bool is_known = rank.activity.kind != WorkerActivity::Kind::kNone;
    rank.why = is_known ? "it is busy with " + rank.activity.Describe()
                        : "it is busy, and executes no command: it may be connecting";
  }
  rank.sessions = control::ReadHoldings(held);
  return rank;
}

}  // namespace

StatusOr<std::vector<RankRegisters>> ReadRegisterListing(const control::Message& answer) {
  if (answer.empty()) return Internal("the controller sent an empty message");
  std::vector<RankRegisters> ranks;
  LOCKSTEP_RETURN_IF_ERROR(control::DecodeMessage<wire::ControllerMessage>(
      answer[0], [&](wire::ControllerMessage::Reader reader) {
        LOCKSTEP_RETURN_IF_ERROR(CheckIsAnswer(reader));
        if (!reader.isRegisterListing()) {
          return UnexpectedAnswer("a question about registers", reader);
        }
        for (auto rank : reader.getRegisterListing().getRanks()) ranks.push_back(ReadRank(rank));
        return OkStatus();
      }));
  return ranks;
}

}  // namespace client

StatusOr<std::vector<RankRegisters>> ListRegisters(const ControllerAddress& controller,
                                                   const RegisterQuestion& question,
                                                   std::chrono::milliseconds timeout) {
  LOCKSTEP_ASSIGN_OR_RETURN(const control::Message answer,
                            client::AskOnce(controller,
                                            control::EncodeMessage<wire::ClientMessage>(
                                                [&](wire::ClientMessage::Builder message) {
                                                  auto list = message.initListRegisters();
                                                  list.setRequest(1);
                                                  list.setRank(question.rank);
                                                  list.setSession(question.session.value);
                                                  list.setMost(question.most);
                                                }),
                                            timeout));
  return client::ReadRegisterListing(answer);
}

}  // namespace lockstep
