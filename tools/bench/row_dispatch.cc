// What a command costs the worker that executes it, from its bytes on: to decode it, to find what
// it names, to call a function, and to keep or free what it names.
#include <capnp/serialize.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/child_process.h"
#include "runtime/base/random.h"
#include "runtime/base/shared_segment.h"
#include "runtime/control/batch.h"
#include "runtime/control/plain_call.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "runtime/module/builtins.h"
#include "runtime/module/module.h"
#include "services/worker/execute/executor.h"
#include "tools/bench/program.h"
#include "tools/bench/rows.h"
#include "tools/bench/thread_time.h"

namespace lockstep::bench {
namespace {

using worker::BatchContext;

constexpr double kCallGoalNanos = 150;
constexpr double kReleaseGoalNanos = 30;
constexpr size_t kBodyBytes = size_t{48} << 10;  // as a session sends them
constexpr SessionId kSession{1};
constexpr RegisterId kFunction{1, 1};
constexpr RegisterId kTensor{2, 1};
constexpr uint32_t kFirstResult = 3;
// Registers that results take in turn, as a free list gives them.
constexpr uint32_t kResults = 1024;

// Where a worker's answers go, of which there are none.
class NoController final : public control::ClientChannel {
 public:
  Status Send(const control::Message&) override { return OkStatus(); }
  bool Receive(control::Message*) override { return false; }
  bool HasInput() override { return false; }
  int wait_fd() const override { return -1; }
  bool drained() const override { return true; }
};

// A worker's executor with one session, and no one else.
class LoneExecutor {
 public:
  static StatusOr<std::unique_ptr<LoneExecutor>> Start(
      const std::shared_ptr<module::Function>& function) {
    std::unique_ptr<LoneExecutor> lone(new LoneExecutor());
    LOCKSTEP_ASSIGN_OR_RETURN(
        lone->arena_, tensor::Arena::Create({.name = std::string(SharedSegment::kNamePrefix) +
                                                     "dispatch-" + RandomHex(8),
                                             .capacity_bytes = size_t{16} << 20}));
    LOCKSTEP_ASSIGN_OR_RETURN(
        auto bulk, control::ZmqListen(lone->context_, "inproc://dispatch-" + RandomHex(8)));
    lone->bulk_ = std::make_unique<worker::BulkServer>(std::move(bulk));
    module::AddBuiltins(lone->functions_);
    LOCKSTEP_RETURN_IF_ERROR(lone->functions_.Add(function));
    lone->executor_ =
        std::make_unique<worker::Executor>(lone->options_, lone->arena_, lone->functions_,
                                           *lone->bulk_, lone->activity_, &lone->recorder_);
    lone->membership_.segments = {lone->arena_->name()};
    lone->membership_.flow_window_bytes = size_t{8} << 20;
    lone->executor_->AdoptWelcome(lone->membership_, lone->controller_);
    lone->Open();
    return lone;
  }

  // As a batch of the client's.
  void Execute(const control::Frame& body, uint32_t commands) {
    BatchContext batch;
    batch.session = kSession;
    batch.first_command = next_command_;
    next_command_ += commands;
    executor_->ExecuteBatch(batch, body);
  }
  // Not OK if the session has failed: then nothing was executed.
  Status status() {
    const auto session = executor_->sessions().Find(kSession);
    return session == nullptr ? Internal("there is no session") : session->failure().ToStatus();
  }

 private:
  LoneExecutor() = default;
  void Open() {
    BatchContext batch;
    batch.session = kSession;
    executor_->ExecuteBatch(batch, control::OneCommand([](wire::Command::Builder command) {
                              command.initOpenSession().setSession(kSession.value);
                            }));
  }

  const worker::WorkerOptions options_{};
  const std::shared_ptr<control::ZmqContext> context_ = control::ZmqContext::Create();
  std::shared_ptr<tensor::Arena> arena_;
  std::unique_ptr<worker::BulkServer> bulk_;
  module::FunctionTable functions_;
  worker::Membership membership_;
  control::ActivityPage activity_;
  worker::Recorder recorder_;
  NoController controller_;
  uint64_t next_command_ = 1;
  std::unique_ptr<worker::Executor> executor_;
};

// Bodies as a client's batches are, each with how many commands it has.
class Bodies {
 public:
  template <typename Fill>
  Status Add(Fill fill) {
    LOCKSTEP_RETURN_IF_ERROR(writer_.Add(fill));
    if (writer_.size_bytes() >= kBodyBytes) End();
    return OkStatus();
  }
  // A call as a session writes it, with the same register twice.
  Status AddCall(RegisterId function, RegisterId result, RegisterId argument) {
    const size_t words = control::PlainCallWriter::Words(2, 0);
    LOCKSTEP_RETURN_IF_ERROR(writer_.AddPlainCall(words, [&](uint64_t* at) {
      control::PlainCallWriter call(at, words, function, result, 2);
      call.AddRegister(argument);
      call.AddRegister(argument);
    }));
    if (writer_.size_bytes() >= kBodyBytes) End();
    return OkStatus();
  }
  void End() {
    if (writer_.empty()) return;
    const uint32_t commands = writer_.commands();
    bodies_.emplace_back(writer_.Take(), commands);
  }
  void ExecuteBy(LoneExecutor& executor) const {
    for (const auto& [body, commands] : bodies_) executor.Execute(body, commands);
  }
  // Reads calls as Cap'n Proto is used plainly. Returns what depends on all that was read.
  uint64_t ReadPlainly() const {
    uint64_t sum = 0;
    for (const auto& [body, commands] : bodies_) {
      kj::ArrayPtr<const capnp::word> words(reinterpret_cast<const capnp::word*>(body.data()),
                                            body.size() / sizeof(capnp::word));
      while (words.size() > 0) {
        capnp::FlatArrayMessageReader reader(words);
        const auto call = reader.getRoot<wire::Command>().getCall();
        sum += call.getFunction() + call.getResult();
        for (const auto argument : call.getArgs()) sum += argument.getRegister();
        words = kj::arrayPtr(reader.getEnd(), words.end());
      }
    }
    return sum;
  }

 private:
  control::BatchWriter writer_;
  std::vector<std::pair<control::Frame, uint32_t>> bodies_;
};

// Gives the name of each result as a client does: the places in turn, with a higher generation each
// time round.
class Results {
 public:
  RegisterId Next() {
    if (++index_ == kFirstResult + kResults) {
      index_ = kFirstResult;
      ++generation_;
    }
    return {index_, generation_};
  }

 private:
  uint32_t index_ = kFirstResult - 1;
  uint32_t generation_ = 1;
};

Status Prepare(LoneExecutor& executor, const std::string& function) {
  Bodies bodies;
  LOCKSTEP_RETURN_IF_ERROR(bodies.Add([&](wire::Command::Builder command) {
    auto get = command.initGetFunction();
    get.setName(function);
    get.setResult(kFunction.Packed());
  }));
  LOCKSTEP_RETURN_IF_ERROR(bodies.Add([&](wire::Command::Builder command) {
    auto empty = command.initEmpty();
    empty.setDtype(wire::DType::FLOAT32);
    empty.initShape(1).set(0, 4);
    empty.setResult(kTensor.Packed());
  }));
  bodies.End();
  bodies.ExecuteBy(executor);
  return executor.status();
}

// So many calls with two registers each, whose results are `results`'.
Status AddCalls(Bodies& bodies, Results& results, int calls) {
  for (int i = 0; i < calls; ++i) {
    const RegisterId result = results.Next();
    LOCKSTEP_RETURN_IF_ERROR(bodies.AddCall(kFunction, result, kTensor));
  }
  bodies.End();
  return OkStatus();
}

}  // namespace

Status MeasureDispatch(const Settings& settings, Report& report) {
  Line& call = report.Add({.row = "dispatch",
                           .what = "decode and call: 2 registers, a tvm-ffi function",
                           .unit = "ns",
                           .better = Better::kLess,
                           .goal = Goal::ValueAtMost(kCallGoalNanos),
                           .note = "one worker's thread, without what brings it the batches"});
  Line& release = report.Add({.row = "dispatch",
                              .what = "free one of the registers that a command names",
                              .unit = "ns",
                              .better = Better::kLess,
                              .goal = Goal::ValueAtMost(kReleaseGoalNanos),
                              .note = "the same; each holds what a call has returned"});
  Series& plainly = call.Rival("Cap'n Proto, to read alone");
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::string file,
      FindProgram("overlap_module.so", "LOCKSTEP_OVERLAP_MODULE", "tools/bench"));
  const std::filesystem::path path = std::filesystem::canonical(file);
  LOCKSTEP_ASSIGN_OR_RETURN(const auto loaded,
                            module::LoadModule(path, {path.parent_path().string()}));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto function, loaded->GetFunction("take_two"));
  const std::string name = function->name();
  LOCKSTEP_ASSIGN_OR_RETURN(const auto executor, LoneExecutor::Start(function));
  LOCKSTEP_RETURN_IF_ERROR(Prepare(*executor, name));

  Results results;
  const int turns = settings.quick ? 50 : 200;
  for (int round = 0; round < settings.rounds; ++round) {
    LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
    double calling = 0;
    double reading = 0;
    double releasing = 0;
    for (int turn = 0; turn < turns; ++turn) {
      Bodies calls;
      Results called = results;
      LOCKSTEP_RETURN_IF_ERROR(AddCalls(calls, results, kResults));
      Bodies releases;
      LOCKSTEP_RETURN_IF_ERROR(releases.Add([&](wire::Command::Builder command) {
        auto registers = command.initRelease().initRegisters(kResults);
        for (uint32_t i = 0; i < kResults; ++i) registers.set(i, called.Next().Packed());
      }));
      releases.End();
      calling += ThreadNanos([&] { calls.ExecuteBy(*executor); });
      reading += ThreadNanos([&] { Keep(calls.ReadPlainly()); });
      releasing += ThreadNanos([&] { releases.ExecuteBy(*executor); });
    }
    LOCKSTEP_RETURN_IF_ERROR(executor->status());
    call.ours.push_back(calling / turns / kResults);
    plainly.values.push_back(reading / turns / kResults);
    release.ours.push_back(releasing / turns / kResults);
  }
  return CheckNotInterrupted();
}

}  // namespace lockstep::bench
