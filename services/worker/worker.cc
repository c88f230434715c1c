#include "services/worker/worker.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "absl/container/inlined_vector.h"
#include "runtime/control/host.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/value_codec.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "runtime/module/builtins.h"
#include "services/worker/backends.h"

namespace lockstep::worker {
namespace {

constexpr std::chrono::hours kUntilWoken{1};

}  // namespace

StatusOr<std::unique_ptr<Worker>> Worker::Start(const WorkerOptions& options,
                                                std::shared_ptr<control::ZmqContext> context) {
  if (options.device != "cpu") {
    return InvalidArgument("device \"", options.device, "\" is not supported; expected \"cpu\"");
  }
  // What killed processes left behind would otherwise stay until the machine restarts.
  SharedSegment::Sweep(SharedSegment::kNamePrefix);
  tensor::ArenaOptions arena_options;
  arena_options.name = SharedSegment::kNamePrefix + control::RandomHex(8);
  arena_options.capacity_bytes = options.arena_bytes;
  arena_options.control_bytes = options.communicator_bytes;
  LOCKSTEP_ASSIGN_OR_RETURN(std::shared_ptr<tensor::Arena> arena,
                            tensor::Arena::Create(arena_options));
  LOCKSTEP_ASSIGN_OR_RETURN(auto bulk_channel, control::ZmqListen(context, options.bulk_endpoint));
  LOCKSTEP_ASSIGN_OR_RETURN(auto controller,
                            control::ZmqConnect(context, options.controller_endpoint));
  return std::unique_ptr<Worker>(new Worker(options, std::move(context), std::move(arena),
                                            std::move(controller),
                                            std::make_unique<BulkServer>(std::move(bulk_channel))));
}

Worker::Worker(const WorkerOptions& options, std::shared_ptr<control::ZmqContext> context,
               std::shared_ptr<tensor::Arena> arena,
               std::unique_ptr<control::ClientChannel> controller, std::unique_ptr<BulkServer> bulk)
    : options_(options),
      context_(std::move(context)),
      arena_(std::move(arena)),
      controller_(std::move(controller)),
      bulk_(std::move(bulk)) {
  module::AddBuiltins(functions_);
  thread_ = std::thread([this] { Run(); });
}

Worker::~Worker() {
  RequestStop("the worker ends");
  thread_.join();
}

void Worker::RequestStop(const std::string& reason) {
  std::lock_guard lock(state_mutex_);
  if (stopping_) return;
  stop_reason_ = reason;
  stopping_ = true;
  wake_up_.Signal();
  if (executor_ != nullptr) {
    executor_->AbortAll(control::ErrorOf(Aborted("the worker stops: ", reason)));
  }
}

Status Worker::Wait(Deadline deadline) {
  std::unique_lock lock(state_mutex_);
  if (ended_changed_.wait_until(lock, deadline.when(), [this] { return ended_; })) {
    return end_status_;
  }
  return DeadlineExceeded("the worker has not ended");
}

void Worker::Run() {
  const Status status = JoinAndServe();
  if (!status.ok()) spdlog::error("worker ends: {}", Message(status));
  std::lock_guard lock(state_mutex_);
  // Nobody should have to wait until the silence of a worker is noticed. A controller that has sent
  // its workers away listens no more.
  if (!sent_away_) (void)SendGoodbye(*controller_, status.ok() ? stop_reason_ : Message(status));
  ended_ = true;
  // Wait() says kDeadlineExceeded for a worker that has not ended; one that gave up waiting has.
  end_status_ =
      status.code() == StatusCode::kDeadlineExceeded ? Unavailable(Message(status)) : status;
  ended_changed_.notify_all();
}

Status Worker::JoinAndServe() {
  const Deadline deadline = Deadline::After(options_.join_timeout);
  const StatusOr<Place> place = Join(*controller_, options_, {arena_->name(), bulk_->endpoint()},
                                     wake_up_.fd(), stopping_, deadline);
  if (!place.ok()) return stopping_ ? OkStatus() : place.status();
  place_ = *place;
  // Before the communicator: connecting it may take longer than a silent worker is given.
  LOCKSTEP_ASSIGN_OR_RETURN(auto liveness_channel,
                            control::ZmqConnect(context_, place_.liveness_endpoint,
                                                {.linger = std::chrono::milliseconds(0)}));
  LivenessClient liveness(std::move(liveness_channel),
                          {place_.rank, place_.epoch, place_.watch, place_.heartbeat_interval,
                           options_.controller_timeout},
                          activity_, pthread_self(),
                          {[this](SessionId session, const AbortOrder& abort) {
                             std::lock_guard lock(state_mutex_);
                             if (executor_ != nullptr) executor_->Abort(session, abort);
                           },
                           [this](const Status& why) { OnControllerLost(why); }});
  const StatusOr<std::unique_ptr<collective::Communicator>> world =
      ConnectWorld(place_, arena_, stopping_, deadline);
  Status status = world.status();
  if (status.ok()) status = liveness.WaitUntilHeard(wake_up_.fd(), stopping_, deadline);
  // A wait that a stop interrupts is no failure; why the stop was asked for may be one.
  const bool interrupted = status.code() == StatusCode::kAborted && stopping_;
  if (status.ok()) status = ServeWith(**world);
  if (!status.ok() && !interrupted) return status;
  std::lock_guard lock(state_mutex_);
  return controller_lost_;
}

void Worker::OnControllerLost(const Status& why) {
  {
    std::lock_guard lock(state_mutex_);
    controller_lost_ = why;
  }
  RequestStop(Message(why));
}

Status Worker::ServeWith(collective::Communicator& world) {
  Executor executor(options_, place_, arena_, functions_, world, *bulk_, activity_, *controller_);
  // Other threads reach the executor from here until this function returns.
  const auto publish = [this](Executor* current) {
    std::lock_guard lock(state_mutex_);
    executor_ = current;
  };
  publish(&executor);
  Status status = SendReady(*controller_, place_.rank, world.backend());
  if (status.ok()) {
    spdlog::info("rank {} of {} in cluster {} is ready, backend {}", place_.rank,
                 place_.world_size(), place_.cluster, world.backend());
    status = Serve(executor);
  }
  publish(nullptr);
  return status;
}

Status Worker::Serve(Executor& executor) {
  control::InputWaiter waiter(options_.poll_before_sleep);
  control::Channel* const channels[] = {controller_.get()};
  control::Message message;
  while (!stopping_) {
    while (controller_->Receive(&message)) {
      LOCKSTEP_ASSIGN_OR_RETURN(const bool go_on, Handle(executor, message));
      if (!go_on) return OkStatus();
      if (stopping_) break;
    }
    Orphans& orphans = executor.orphans();
    orphans.FreeEnded();
    absl::InlinedVector<int, 8> descriptors = {wake_up_.fd()};
    descriptors.insert(descriptors.end(), orphans.descriptors().begin(),
                       orphans.descriptors().end());
    waiter.Wait(channels, descriptors, Deadline::After(kUntilWoken));
  }
  spdlog::info("rank {} stops: {}", place_.rank, stop_reason_);
  return OkStatus();
}

StatusOr<bool> Worker::Handle(Executor& executor, const control::Message& message) {
  if (message.empty()) return Internal("the controller sent an empty message");
  BatchContext batch;
  uint64_t sequence = 0;
  bool is_batch = false;
  bool shutdown = false;
  LOCKSTEP_RETURN_IF_ERROR(
      control::DecodeMessage<wire::Envelope>(message[0], [&](wire::Envelope::Reader envelope) {
        if (Epoch(envelope.getEpoch()) != place_.epoch) {
          return Internal("a message of epoch ", envelope.getEpoch(), " in epoch ", place_.epoch);
        }
        switch (envelope.which()) {
          case wire::Envelope::BATCH:
            is_batch = true;
            sequence = envelope.getSequence();
            batch.session = SessionId(envelope.getSession());
            batch.generation = Generation(envelope.getGeneration());
            batch.first_command = envelope.getFirstCommand();
            batch.request = RequestId(envelope.getRequest());
            return OkStatus();
          case wire::Envelope::SHUTDOWN:
            shutdown = true;
            sent_away_ = true;
            spdlog::info("rank {} stops: {}", place_.rank,
                         control::ToString(envelope.getShutdown()));
            return OkStatus();
          case wire::Envelope::WELCOME:
            return Internal("a second welcome");
          case wire::Envelope::REFUSED:
            return control::ReadError(envelope.getRefused().getError()).ToStatus();
        }
        return Unimplemented("unknown kind of message ", static_cast<int>(envelope.which()));
      }));
  if (shutdown) return false;
  if (!is_batch || message.size() != 2) {
    return Internal("a batch of the controller has no body");
  }
  // Going on after a gap would be silently wrong: registers would miss what others have.
  if (last_sequence_ != 0 && sequence != last_sequence_ + 1) {
    return Internal("batch ", sequence, " came after batch ", last_sequence_,
                    "; some were lost on the way");
  }
  last_sequence_ = sequence;
  activity_.Receive();
  executor.ExecuteBatch(batch, message[1]);
  return true;
}

}  // namespace lockstep::worker
