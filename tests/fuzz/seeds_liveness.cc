// Both directions of the liveness socket.
#include "runtime/control/error_codec.h"
#include "runtime/control/worker_report_codec.h"
#include "schemas/membership.capnp.h"
#include "tests/fuzz/seeds.h"

namespace lockstep::fuzz {
namespace {

using LivenessMessageBuilder = wire::LivenessMessage::Builder;

// As in the harnesses.
constexpr uint64_t kController = 7;

WorkerActivity Busy() {
  WorkerActivity activity;
  activity.received = 10;
  activity.kind = WorkerActivity::Kind::kCommand;
  activity.session = SessionId(1);
  activity.command = 4;
  activity.what = "lockstep.sleep";
  return activity;
}

std::string Offer(uint8_t rank, uint64_t number, uint64_t key, int members) {
  return Say<wire::LivenessMessage>(rank, [&](LivenessMessageBuilder message) {
    auto exchange = message.initExchange();
    exchange.setRank(rank);
    exchange.setController(kController);
    exchange.setWatch(rank + 1);
    exchange.setEpoch(9);
    exchange.setNumber(number);
    exchange.setKey(key);
    auto list = exchange.initMembers(static_cast<unsigned>(members));
    for (int i = 0; i < members; ++i) list.set(static_cast<unsigned>(i), i);
    if (members > 0) {
      const capnp::byte address[] = {'a', 'd', 'd', 'r'};
      exchange.initOffers(1).set(0, capnp::Data::Reader(address, sizeof address));
    }
  });
}

void AddToController(SeedFolder& folder) {
  const auto heartbeat = [](uint8_t rank, uint64_t controller) {
    return Say<wire::LivenessMessage>(rank, [&](LivenessMessageBuilder message) {
      auto heartbeat = message.initHeartbeat();
      heartbeat.setRank(rank);
      heartbeat.setController(controller);
      heartbeat.setWatch(rank + 1);
      control::WriteActivity(Busy(), heartbeat.initActivity());
    });
  };
  const std::string report = Say<wire::LivenessMessage>(0, [](LivenessMessageBuilder message) {
    auto report = message.initReport();
    report.setProbe(5);
    report.setController(kController);
    report.setWatch(1);
    control::WriteActivity(Busy(), report.initActivity());
    report.initStack(2).set(0, "sleep");
  });
  folder.Add("controller_liveness", "heartbeat", heartbeat(0, kController));
  folder.Add("controller_liveness", "heartbeat_of_another", heartbeat(1, kController + 1));
  folder.Add("controller_liveness", "report", report);
  folder.Add("controller_liveness", "held_registers",
             Say<wire::LivenessMessage>(0, [](LivenessMessageBuilder message) {
               auto held = message.initHeldRegisters();
               held.setProbe(5);
               held.setController(kController);
               held.setWatch(1);
               control::WriteActivity(Busy(), held.initActivity());
               auto session = held.initSessions(1)[0];
               session.setSession(1);
               session.setRegisters(2);
               session.initListed(1)[0].setType("int64");
               session.getListed()[0].setLayout(1);
               session.initLayouts(1)[0].initPlacements(1).set(0, "shard(0)");
             }));
  const std::string exchange = Offer(0, 1, 3, 2) + Offer(1, 1, 3, 2);
  folder.Add("controller_liveness", "exchange", exchange);
  folder.Add("controller_liveness", "exchange_given_up",
             Offer(0, 1, 3, 2) + Offer(0, 2, 0, 0) + Offer(1, 1, 3, 2));
  folder.Add("controller_liveness", "exchange_of_another_key",
             Offer(0, 1, 3, 2) + Offer(0, 1, 4, 2) + exchange);
  const std::string trace =
      Say<wire::LivenessMessage>(
          0, [](LivenessMessageBuilder message) { message.initTrace().initClock().setAsked(12); }) +
      Say<wire::LivenessMessage>(0, [](LivenessMessageBuilder message) {
        auto fetched = message.initTrace();
        fetched.setController(kController);
        fetched.setWatch(1);
        fetched.setTrace(3);
        fetched.setFetched("");
      });
  folder.Add("controller_liveness", "trace", trace);
  folder.Add("controller_liveness", "many",
             heartbeat(0, kController) + report + exchange + trace + heartbeat(1, kController));
}

void AddToWorker(SeedFolder& folder) {
  std::string all;
  const auto add = [&](const std::string& name, auto fill, const control::Frame& body = {}) {
    const std::string record = Say<wire::LivenessMessage>(0, fill, body);
    folder.Add("worker_liveness", name, record);
    all += record;
  };
  add("heartbeat", [](LivenessMessageBuilder message) {
    auto heartbeat = message.initHeartbeat();
    heartbeat.setRank(-1);
    heartbeat.setController(kController);
    heartbeat.setBroken(3);
  });
  add("abort", [](LivenessMessageBuilder message) {
    auto abort = message.initAbort();
    abort.setSession(5);
    abort.setFromCommand(2);
    control::WriteError(abort.initCause(), control::ErrorOf(Internal("it failed")));
  });
  add("abort_of_later_session", [](LivenessMessageBuilder message) {
    auto abort = message.initAbort();
    abort.setSession(6);
    abort.setGeneration(2);
    control::WriteError(abort.initCause(), control::ErrorOf(Internal("it failed")));
  });
  add("probe", [](LivenessMessageBuilder message) { message.setProbe(4); });
  add("ask_registers", [](LivenessMessageBuilder message) {
    auto question = message.initAskRegisters();
    question.setProbe(4);
    question.setMost(10);
  });
  add("broken", [](LivenessMessageBuilder message) { message.setBroken(4); });
  add(
      "exchanged", [](LivenessMessageBuilder message) { message.initExchanged(); },
      control::EncodeMessage<wire::OfferList>(
          [](wire::OfferList::Builder list) { list.initOffers(2); }));
  add("exchanged_missing", [](LivenessMessageBuilder message) {
    auto exchanged = message.initExchanged();
    exchanged.initMissing(1).set(0, 1);
  });
  add("dismissed",
      [](LivenessMessageBuilder message) { message.setDismissed("another has its rank"); });
  const auto order = [&](const std::string& name, auto fill) {
    add(name, [&](LivenessMessageBuilder message) {
      auto order = message.initTrace();
      order.setTrace(3);
      fill(order);
    });
  };
  order("trace_start", [](wire::TraceOrder::Builder order) { order.setStart(8); });
  order("trace_clock", [](wire::TraceOrder::Builder order) { order.initClock().setAsked(5); });
  order("trace_stop", [](wire::TraceOrder::Builder order) { order.setStop(); });
  order("trace_fetch", [](wire::TraceOrder::Builder order) { order.initFetch().setThread(1); });
  order("trace_end", [](wire::TraceOrder::Builder order) { order.setEnd(); });
  folder.Add("worker_liveness", "many", all);
}

}  // namespace

void AddLivenessSeeds(SeedFolder& folder) {
  AddToController(folder);
  AddToWorker(folder);
}

}  // namespace lockstep::fuzz
