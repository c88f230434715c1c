#include "services/worker/report/liveness_client.h"

#include <utility>

#include "runtime/base/log.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/value_codec.h"
#include "runtime/control/worker_report_codec.h"
#include "schemas/membership.capnp.h"

namespace lockstep::worker {
namespace {

void WriteCollectives(ArrivalLog* arrivals, wire::Heartbeat::Builder heartbeat) {
  if (arrivals == nullptr) return;
  const std::vector<CollectiveTime> times = arrivals->Take();
  if (times.empty()) return;
  auto list = heartbeat.initCollectives(static_cast<unsigned>(times.size()));
  for (unsigned i = 0; i < list.size(); ++i) {
    list[i].setSession(times[i].session.value);
    list[i].setGeneration(times[i].generation.value);
    list[i].setCommand(times[i].command);
    list[i].setFirst(times[i].first);
    list[i].setRanks(times[i].ranks);
    list[i].setKind(times[i].kind);
    list[i].setNanos(static_cast<uint64_t>(times[i].spent.count()));
  }
}

}  // namespace

LivenessClient::LivenessClient(std::unique_ptr<control::ClientChannel> channel, Options options,
                               const control::ActivityPage& activity, pthread_t executing_thread,
                               Callbacks callbacks)
    : options_(options),
      activity_(activity),
      callbacks_(std::move(callbacks)),
      channel_(std::move(channel)),
      silence_(LongestBetweenHeartbeats(options.heartbeat_interval), Deadline::Clock::now()),
      // The first is due at once, also where this machine has run for less than an interval.
      last_heartbeat_(Deadline::Clock::now() -
                      LongestBetweenHeartbeats(options.heartbeat_interval)),
      rendezvous_(std::make_shared<ControllerRendezvous>(
          ControllerRendezvous::Identity{options.rank, options.controller, options.watch},
          [this](control::Frame frame) { Post(std::move(frame)); })),
      reporter_({options.rank, options.controller, options.watch}, activity, executing_thread,
                options.register_queries,
                [this](control::Frame report) { Post(std::move(report)); }),
      thread_([this] { Run(); }) {}

LivenessClient::~LivenessClient() {
  rendezvous_->Close();
  stopping_ = true;
  wake_up_.Signal();
  thread_.join();
  if (options_.tracer != nullptr) options_.tracer->End();
  if (options_.liveness_health != nullptr) options_.liveness_health->NoteEnd();
}

Status LivenessClient::WaitUntilHeard(int wake_fd, const std::atomic<bool>& stopping,
                                      Deadline deadline) {
  control::InputWaiter waiter{std::chrono::microseconds(0)};
  const int descriptors[] = {wake_fd, heard_signal_.fd()};
  while (!heard_ && waiter.Wait({}, descriptors, deadline)) {
    if (stopping) return Aborted("the worker was stopped while it waited for the controller");
  }
  if (heard_) return OkStatus();
  return DeadlineExceeded("the controller's liveness socket does not answer");
}

void LivenessClient::Run() {
  log::ThisThread().rank = options_.rank;
  // Another controller may count its sessions from 1 again, as the one before did.
  if (options_.arrivals != nullptr) (void)options_.arrivals->Take();
  if (options_.tracer != nullptr) {
    options_.tracer->SetController({options_.rank, options_.controller, options_.watch});
  }
  control::InputWaiter waiter{std::chrono::microseconds(0)};
  control::Channel* const channels[] = {channel_.get()};
  const int descriptors[] = {wake_up_.fd()};
  while (!stopping_) {
    const auto now = Deadline::Clock::now();
    silence_.Round(now);
    if (options_.liveness_health != nullptr)
      options_.liveness_health->NoteRound(now,
                                          LongestBetweenHeartbeats(options_.heartbeat_interval));
    Beat(Receive(), now);
    if (silence_.Length(now) > options_.controller_timeout) {
      End(callbacks_.controller_lost, Unavailable("the controller has been silent for ",
                                                  options_.controller_timeout.count(), " ms"));
    }
    SendPosted();
    if (options_.tracer != nullptr) {
      for (const control::Message& late : options_.tracer->Look()) (void)channel_->Send(late);
    }
    waiter.Wait(channels, descriptors, Deadline::At(NextHeartbeat()));
    wake_up_.Clear();
  }
}

void LivenessClient::End(const std::function<void(const Status& why)>& callback,
                         const Status& why) {
  if (!std::exchange(ended_, true)) callback(why);
}

void LivenessClient::Beat(bool controller_beats, Deadline::Clock::time_point now) {
  const bool comes_along =
      controller_beats && now - last_heartbeat_ >= options_.heartbeat_interval / 2;
  if (!comes_along && now < NextHeartbeat()) return;
  SendHeartbeat();
  last_heartbeat_ = now;
}

Deadline::Clock::time_point LivenessClient::NextHeartbeat() const {
  return last_heartbeat_ + LongestBetweenHeartbeats(options_.heartbeat_interval);
}

void LivenessClient::SendHeartbeat() {
  (void)channel_->Send(
      {control::EncodeMessage<wire::LivenessMessage>([&](wire::LivenessMessage::Builder message) {
        auto heartbeat = message.initHeartbeat();
        heartbeat.setRank(options_.rank);
        heartbeat.setController(options_.controller.value);
        heartbeat.setWatch(options_.watch);
        control::WriteActivity(activity_.Now(), heartbeat.initActivity());
        WriteCollectives(options_.arrivals, heartbeat);
      })});
}

void LivenessClient::Post(control::Frame frame) {
  std::lock_guard lock(posted_mutex_);
  posted_.push_back(std::move(frame));
  wake_up_.Signal();
}

void LivenessClient::SendPosted() {
  std::vector<control::Frame> frames;
  {
    std::lock_guard lock(posted_mutex_);
    frames.swap(posted_);
  }
  for (const control::Frame& frame : frames) (void)channel_->Send({frame});
}

bool LivenessClient::Receive() {
  bool controller_beats = false;
  control::Message message;
  while (channel_->Receive(&message)) {
    // Only a controller's words are a sign that it lives.
    if (message.empty()) continue;
    if (const Status from_controller =
            control::CheckProtocol(message[0], control::Protocol::kLiveness);
        !from_controller.ok()) {
      dropped_.Warn("a message on the liveness socket was dropped: ", Message(from_controller));
      continue;
    }
    const auto heard = Deadline::Clock::now();
    silence_.Hear(heard);
    if (options_.liveness_health != nullptr) options_.liveness_health->NoteControllerHeard(heard);
    (void)control::DecodeMessage<wire::LivenessMessage>(
        message[0], [&](wire::LivenessMessage::Reader reader) {
          if (reader.isHeartbeat() &&
              reader.getHeartbeat().getController() != options_.controller.value) {
            End(callbacks_.controller_lost,
                Unavailable("the controller was restarted: the one of epoch ",
                            reader.getHeartbeat().getController(), " answers where that of epoch ",
                            options_.controller, " welcomed this worker"));
            return OkStatus();  // the rest is about worlds of its own
          }
          controller_beats |= reader.isHeartbeat();
          if (reader.isDismissed()) {
            End(callbacks_.dismissed,
                Aborted("the controller has given this worker up, though it lives: ",
                        control::ToString(reader.getDismissed()), "; start the worker again"));
          }
          if (reader.isHeartbeat() && reader.getHeartbeat().getBroken() != 0) {
            callbacks_.world_broken(Epoch(reader.getHeartbeat().getBroken()));
          }
          if (reader.isBroken()) callbacks_.world_broken(Epoch(reader.getBroken()));
          if (reader.isExchanged()) {
            rendezvous_->Take(reader.getExchanged(),
                              message.size() > 1 ? message[1] : control::Frame());
          }
          if (reader.isProbe()) reporter_.Answer(reader.getProbe());
          if (reader.isTrace() && options_.tracer != nullptr) {
            for (const control::Message& answer :
                 options_.tracer->Take(reader.getTrace(), activity_.Now())) {
              (void)channel_->Send(answer);
            }
          }
          if (reader.isAskRegisters()) reporter_.Answer(reader.getAskRegisters());
          if (reader.isAbort()) {
            auto abort = reader.getAbort();
            callbacks_.abort(SessionId(abort.getSession()),
                             {Generation(abort.getGeneration()), abort.getFromCommand(),
                              control::ReadError(abort.getCause())});
          }
          return OkStatus();
        });
    if (!heard_.exchange(true)) heard_signal_.Signal();
  }
  return controller_beats;
}

}  // namespace lockstep::worker
