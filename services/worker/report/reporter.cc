#include "services/worker/report/reporter.h"

#include <string>
#include <utility>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/worker_report_codec.h"
#include "schemas/membership.capnp.h"
#include "services/worker/report/stack_sampler.h"

namespace lockstep::worker {
namespace {

// How long the executing thread may take to show its stack, ...
constexpr std::chrono::milliseconds kPatience{200};
// ... and to tell what its registers hold: less than the controller waits for.
constexpr std::chrono::milliseconds kRegisterPatience{300};

// If questions come faster than they can be answered, the oldest are dropped.
template <typename Question>
void Queue(std::vector<Question>& questions, Question question) {
  constexpr size_t kMostAtOnce = 64;
  if (questions.size() == kMostAtOnce) questions.erase(questions.begin());
  questions.push_back(std::move(question));
}

}  // namespace

Reporter::Reporter(Identity identity, const control::ActivityPage& activity,
                   pthread_t executing_thread, RegisterQueryQueue* register_queries,
                   std::function<void(control::Frame)> send)
    : identity_(identity),
      activity_(activity),
      executing_thread_(executing_thread),
      register_queries_(register_queries),
      send_(std::move(send)) {
  // If it fails, reports say so.
  (void)PrepareStackSampling();
  thread_ = std::thread([this] { Run(); });
}

Reporter::~Reporter() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    wanted_.notify_one();
  }
  thread_.join();
}

void Reporter::Answer(uint64_t probe) {
  std::lock_guard lock(mutex_);
  Queue(probes_, probe);
  wanted_.notify_one();
}

void Reporter::Answer(wire::AskRegisters::Reader question) {
  if (register_queries_ == nullptr) return;
  if (question.getRank() >= 0 && question.getRank() != identity_.rank) return;
  std::lock_guard lock(mutex_);
  Queue(questions_, RegisterQuestion{question.getProbe(),
                                     {SessionId(question.getSession()), question.getMost()}});
  wanted_.notify_one();
}

void Reporter::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wanted_.wait(lock, [this] { return stopping_ || !probes_.empty() || !questions_.empty(); });
    if (stopping_) return;
    const std::vector<uint64_t> probes = std::exchange(probes_, {});
    const std::vector<RegisterQuestion> questions = std::exchange(questions_, {});
    lock.unlock();
    if (!probes.empty()) Report(probes);
    if (!questions.empty()) TellRegisters(questions);
    lock.lock();
  }
}

void Reporter::Report(const std::vector<uint64_t>& probes) {
  const WorkerActivity activity = activity_.Now();
  StatusOr<std::vector<std::string>> stack = std::vector<std::string>();
  if (activity.kind != WorkerActivity::Kind::kNone) {
    stack = SampleStack(executing_thread_, kPatience);
  }
  for (const uint64_t probe : probes) {
    send_(
        control::EncodeMessage<wire::LivenessMessage>([&](wire::LivenessMessage::Builder message) {
          auto report = message.initReport();
          report.setProbe(probe);
          report.setRank(identity_.rank);
          report.setController(identity_.controller.value);
          report.setWatch(identity_.watch);
          control::WriteActivity(activity, report.initActivity());
          if (!stack.ok()) return report.setNoStack(Message(stack.status()));
          auto frames = report.initStack(static_cast<unsigned>(stack->size()));
          for (unsigned i = 0; i < frames.size(); ++i) frames.set(i, (*stack)[i]);
        }));
  }
}

void Reporter::TellRegisters(const std::vector<RegisterQuestion>& questions) {
  // One wait for all: if the executing thread is busy, the last answer must not come too late.
  const Deadline deadline = Deadline::After(kRegisterPatience);
  for (const RegisterQuestion& asked : questions) {
    const StatusOr<RegisterQueryQueue::Holdings> holdings =
        register_queries_->Ask(asked.question, deadline);
    send_(
        control::EncodeMessage<wire::LivenessMessage>([&](wire::LivenessMessage::Builder message) {
          auto held = message.initHeldRegisters();
          held.setProbe(asked.probe);
          held.setRank(identity_.rank);
          held.setController(identity_.controller.value);
          held.setWatch(identity_.watch);
          control::WriteActivity(activity_.Now(), held.initActivity());
          held.setBusy(!holdings.ok());
          if (holdings.ok()) control::WriteHoldings(*holdings, held);
        }));
  }
}

}  // namespace lockstep::worker
