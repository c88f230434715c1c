#include "tests/fuzz/worker_parts.h"

#include <atomic>
#include <cstdlib>
#include <string>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/random.h"
#include "runtime/base/shared_segment.h"
#include "runtime/collective/rendezvous.h"
#include "runtime/control/batch.h"
#include "runtime/module/builtins.h"
#include "services/worker/backends.h"

namespace lockstep::fuzz {
namespace {

template <typename T>
T OrAbort(StatusOr<T> value) {
  if (!value.ok()) std::abort();
  return *std::move(value);
}

// A world of one rank has no peers.
class NoPeers final : public collective::Rendezvous {
 public:
  StatusOr<std::vector<std::string>> Exchange(uint64_t, absl::Span<const Rank>,
                                              const std::vector<std::string>& mine,
                                              const std::atomic<bool>*, Deadline) override {
    return mine;
  }
};

}  // namespace

WorkerParts::WorkerParts() : controller_(script_, [](const control::Message&) {}) {
  log::Silence();
  // What killed runs have left behind.
  SharedSegment::Sweep(SharedSegment::kNamePrefix);
  options_.max_registers = 1000;
  // What a fragment is compiled to is no affair of this process.
  options_.compiler = "/nonexistent/lockstep-compiler";
  arena_ =
      OrAbort(tensor::Arena::Create({.name = SharedSegment::kNamePrefix + ("fuzz-" + RandomHex(8)),
                                     .capacity_bytes = size_t{16} << 20,
                                     .control_bytes = options_.communicator_bytes}));
  bulk_ = std::make_unique<worker::BulkServer>(std::make_unique<ScriptedServerChannel>(
      script_, 0, [](const control::PeerName&, const control::Message&) {}));
  module::AddBuiltins(functions_);
  executor_ = std::make_unique<worker::Executor>(options_, arena_, functions_, *bulk_, activity_,
                                                 &recorder_);
  const std::atomic<bool> cancelled{false};
  worker::WorldOptions connecting;
  connecting.arena = arena_;
  connecting.rendezvous = std::make_shared<NoPeers>();
  world_ = OrAbort(worker::ConnectWorld(Alone(), connecting, cancelled,
                                        Deadline::After(std::chrono::seconds(5))))
               .communicator;
}

worker::Membership WorkerParts::Alone() const {
  worker::Membership membership;
  membership.segments = {arena_->name()};
  return membership;
}

worker::Membership WorkerParts::AloneWithSession() const {
  worker::Membership membership = Alone();
  membership.collective_timeout = std::chrono::seconds(5);
  membership.flow_window_bytes = 1 << 20;
  control::SessionRecord session;
  session.id = kSession;
  session.token = "token";
  membership.sessions.push_back(session);
  return membership;
}

void WorkerParts::Enter(worker::Membership membership) {
  executor_->sessions().SetController(membership);
  membership_ = std::move(membership);
  executor_->AdoptWelcome(membership_, controller_);
  if (membership_.world_size() == 1) executor_->SetWorld({world_.get(), nullptr});
}

void WorkerParts::Clear() { Enter(Alone()); }

void WorkerParts::MakeRegisters() {
  control::BatchWriter writer;
  uint32_t next = 1;
  const auto add = [&](auto fill) {
    if (!writer.Add(fill).ok()) std::abort();
  };
  for (const std::string& name : functions_.Names()) {
    // Waits as long as it is told to.
    if (name == "lockstep.sleep") continue;
    add([&](wire::Command::Builder command) {
      auto get = command.initGetFunction();
      get.setName(name);
      get.setResult(RegisterId{next++, 1}.Packed());
    });
  }
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{}, {0}, {4}, {2, 3}, {3, 0, 2}, {2, 2, 2}}) {
    add([&](wire::Command::Builder command) {
      auto empty = command.initEmpty();
      empty.setDtype(next % 2 == 0 ? wire::DType::FLOAT32 : wire::DType::INT64);
      auto dims = empty.initShape(static_cast<unsigned>(shape.size()));
      for (unsigned i = 0; i < dims.size(); ++i) dims.set(i, shape[i]);
      empty.setResult(RegisterId{next++, 1}.Packed());
    });
  }
  worker::BatchContext batch;
  batch.session = kSession;
  batch.first_command = 1;
  executor_->ExecuteBatch(batch, writer.Take());
}

WorkerParts& SharedWorker() {
  static WorkerParts parts;
  return parts;
}

}  // namespace lockstep::fuzz
