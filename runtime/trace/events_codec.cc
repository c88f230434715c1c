#include "runtime/trace/events_codec.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "runtime/control/message_codec.h"
#include "runtime/control/value_codec.h"
#include "schemas/trace.capnp.h"

namespace lockstep::trace {
namespace {

// Texts by their place in the list; the first is empty.
class Names {
 public:
  uint32_t PlaceOf(const char* text) {
    const auto [found, is_new] = places_.emplace(text, static_cast<uint32_t>(texts_.size()));
    if (is_new) texts_.push_back(found->first);
    return found->second;
  }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::vector<std::string> texts_ = {""};
  std::unordered_map<std::string, uint32_t> places_ = {{"", 0}};
};

}  // namespace

control::Frame EncodeEvents(const Events& from) {
  return control::EncodeMessage<wire::TraceEvents>([&](wire::TraceEvents::Builder to) {
    to.setRank(from.rank);
    to.setHostName(from.host_name);
    to.setHostId(from.host_id);
    to.setPid(from.pid);
    auto clocks = to.initClocks(static_cast<unsigned>(from.clocks.size()));
    for (unsigned i = 0; i < clocks.size(); ++i) {
      clocks[i].setAt(from.clocks[i].at);
      clocks[i].setOffset(from.clocks[i].offset);
      clocks[i].setUncertainty(from.clocks[i].uncertainty);
    }
    to.setThreads(from.threads);
    to.setThread(from.thread);
    to.setThreadName(from.thread_name);
    to.setLost(from.lost);
    to.setNext(from.next);
    Names names;
    auto events = to.initEvents(static_cast<unsigned>(from.events.size()));
    for (unsigned i = 0; i < events.size(); ++i) {
      const Event& event = from.events[i];
      auto wire = events[i];
      wire.setBegin(event.begin);
      wire.setNanos(static_cast<uint64_t>(std::max<int64_t>(event.end - event.begin, 0)));
      wire.setCommand(event.command);
      wire.setBytes(event.bytes);
      wire.setSession(event.session);
      wire.setKind(static_cast<uint16_t>(event.kind));
      wire.setCode(event.code);
      wire.setName(names.PlaceOf(event.name));
      wire.setBackend(names.PlaceOf(event.backend));
      wire.setFirst(event.first);
      wire.setRanks(event.ranks);
      wire.setUnfinished(event.unfinished);
      wire.setCommands(event.commands);
      wire.setStep(event.step);
      wire.setLane(event.lane);
    }
    auto texts = to.initNames(static_cast<unsigned>(names.texts().size()));
    for (unsigned i = 0; i < texts.size(); ++i) texts.set(i, names.texts()[i]);
  });
}

StatusOr<Events> DecodeEvents(const control::Frame& frame) {
  Events to;
  LOCKSTEP_RETURN_IF_ERROR(
      control::DecodeMessage<wire::TraceEvents>(frame, [&](wire::TraceEvents::Reader from) {
        to.rank = from.getRank();
        to.host_name = control::ToString(from.getHostName());
        to.host_id = control::ToString(from.getHostId());
        to.pid = from.getPid();
        for (auto clock : from.getClocks()) {
          to.clocks.push_back({clock.getAt(), clock.getOffset(), clock.getUncertainty()});
        }
        to.threads = from.getThreads();
        to.thread = from.getThread();
        to.thread_name = control::ToString(from.getThreadName());
        to.lost = from.getLost();
        to.next = from.getNext();
        std::vector<std::string> names;
        for (auto name : from.getNames()) names.push_back(control::ToString(name));
        const auto named = [&](uint32_t place) {
          return place < names.size() ? std::string_view(names[place]) : std::string_view();
        };
        // Times that are none must not make sums overflow.
        constexpr int64_t kFurthest = std::numeric_limits<int64_t>::max() / 4;
        for (auto wire : from.getEvents()) {
          Event event;
          event.begin = std::clamp(wire.getBegin(), -kFurthest, kFurthest);
          event.end = event.begin + static_cast<int64_t>(std::min(
                                        wire.getNanos(), static_cast<uint64_t>(kFurthest)));
          event.command = wire.getCommand();
          event.bytes = wire.getBytes();
          event.session = wire.getSession();
          event.kind = static_cast<Kind>(
              std::min<uint16_t>(wire.getKind(), static_cast<uint16_t>(Kind::kMark)));
          event.code = wire.getCode();
          event.SetName(named(wire.getName()));
          event.SetBackend(named(wire.getBackend()));
          event.first = wire.getFirst();
          event.ranks = wire.getRanks();
          event.unfinished = wire.getUnfinished();
          event.commands = wire.getCommands();
          event.step = wire.getStep();
          event.lane = wire.getLane();
          to.events.push_back(event);
        }
        return OkStatus();
      }));
  return to;
}

}  // namespace lockstep::trace
