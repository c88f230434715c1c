#include "services/controller/reports/trace_service.h"

#include <string>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/control/message_codec.h"
#include "runtime/trace/event.h"
#include "schemas/membership.capnp.h"
#include "schemas/session.capnp.h"

namespace lockstep::controller {
namespace {

template <typename Fill>
control::Frame OrderFrame(uint64_t trace, Fill&& fill) {
  return control::EncodeMessage<wire::LivenessMessage>([&](wire::LivenessMessage::Builder message) {
    auto order = message.initTrace();
    order.setTrace(trace);
    fill(order);
  });
}

}  // namespace

void TraceService::Handle(const control::PeerName& client, wire::TraceRequest::Reader request) {
  const TimePoint now = tools_.clock.Now();
  const int64_t received = trace::Nanos(now);
  const auto reply = [&](const Status& status, auto&& fill, const control::Frame& body = {}) {
    control::Message message = {control::EncodeMessage<wire::ControllerMessage>([&](auto m) {
      auto answer = m.initTrace();
      answer.setRequest(request.getRequest());
      if (tracing_.client() == client) answer.setTrace(tracing_.trace());
      if (!status.ok()) control::WriteError(answer.initError(), control::ErrorOf(status));
      fill(answer);
    })};
    if (body.size() > 0) message.push_back(body);
    outbox_.ToClient(client, unread_.Charge(client, message));
  };
  const auto nothing_more = [](wire::TraceReply::Builder) {};
  if (request.isClock()) {
    return reply(OkStatus(), [&](wire::TraceReply::Builder answer) {
      auto clock = answer.initClock();
      clock.setAsked(request.getClock());
      clock.setReceived(received);
      clock.setAnswered(trace::Nanos(tools_.clock.Now()));
    });
  }
  if (request.isStart()) {
    const Status begun = tracing_.Begin(client, request.getStart(), now);
    if (begun.ok()) {
      log::Info("a client has the cluster record a timeline");
      liveness_.Tell(OrderFrame(tracing_.trace(), [&](wire::TraceOrder::Builder order) {
        order.setStart(request.getStart());
      }));
    }
    return reply(begun, [&](wire::TraceReply::Builder answer) {
      answer.setLeaseMillis(static_cast<uint32_t>(tools_.options.session_lease.count()));
      answer.setWorkers(static_cast<uint32_t>(tools_.membership.size()));
    });
  }
  const uint64_t trace = request.getTrace();
  const Status heard = tracing_.Hear(client, trace, now);
  if (!heard.ok()) return reply(heard, nothing_more);
  switch (request.which()) {
    case wire::TraceRequest::STOP:
      tracing_.Stop();
      liveness_.Tell(OrderFrame(trace, [](wire::TraceOrder::Builder order) { order.setStop(); }));
      break;
    case wire::TraceRequest::FETCH: {
      const wire::FetchTrace::Reader fetch = request.getFetch();
      if (const Status room = unread_.CheckRoom(client); !room.ok()) {
        return reply(Unavailable(room.message()), nothing_more);
      }
      if (fetch.getRank() == -1) {
        return reply(OkStatus(), nothing_more, EncodeEvents(tracing_.Events(fetch.getFrom())));
      }
      const Status asked = Ask(trace, request.getRequest(), fetch);
      if (asked.ok()) return;  // its worker answers
      return reply(asked, nothing_more);
    }
    case wire::TraceRequest::END:
      End();
      break;
    default:
      break;
  }
  reply(OkStatus(), nothing_more);
}

Status TraceService::Ask(uint64_t trace, uint64_t request, wire::FetchTrace::Reader fetch) {
  const Rank rank = fetch.getRank();
  if (rank < 0 || rank >= tools_.membership.size()) {
    return InvalidArgument("there is no rank ", rank, "; the ranks are 0 to ",
                           tools_.membership.size() - 1);
  }
  if (!tools_.membership.IsWelcome(rank)) {
    const std::string& why = tools_.membership.member(rank).lost_because;
    if (why.empty()) return Unavailable("it has no worker yet");
    return Unavailable("its worker is lost: ", why);
  }
  LOCKSTEP_RETURN_IF_ERROR(tracing_.Ask(rank, tools_.clock.Now()));
  liveness_.Tell(OrderFrame(trace,
                            [&](wire::TraceOrder::Builder order) {
                              order.setRequest(request);
                              order.setFetch(fetch);
                            }),
                 rank);
  return OkStatus();
}

void TraceService::PassOn(const FetchedTrace& fetched) {
  if (fetched.trace != tracing_.trace()) return;
  tracing_.NoteAnswered(fetched.rank);
  control::Message message = {control::EncodeMessage<wire::ControllerMessage>([&](auto m) {
    auto answer = m.initTrace();
    answer.setRequest(fetched.request);
    answer.setTrace(fetched.trace);
    if (!fetched.problem.empty()) {
      control::WriteError(answer.initError(), control::ErrorOf(NotFound(fetched.problem)));
    }
  })};
  if (fetched.body.size() > 0) message.push_back(fetched.body);
  outbox_.ToClient(tracing_.client(), std::move(message));
}

void TraceService::EndIfSilent(TimePoint now) {
  if (tracing_.IsSilent(tools_.options.session_lease, now)) End();
}

void TraceService::End() {
  liveness_.Tell(
      OrderFrame(tracing_.trace(), [](wire::TraceOrder::Builder order) { order.setEnd(); }));
  tracing_.End();
}

}  // namespace lockstep::controller
