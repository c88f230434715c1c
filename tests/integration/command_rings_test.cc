// Workers that get commands in different ways, and what the setting of a worker asks for.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/deadline.h"
#include "runtime/client/admin.h"
#include "runtime/client/session.h"
#include "tests/integration/services_fixture.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class CommandRingsTest : public ServicesFixture {
 protected:
  void Start(int workers, const std::string& rings) {
    controller::ControllerOptions options;
    options.workers = workers;
    options.client_endpoint = kAnyPort;
    options.worker_endpoint = kAnyPort;
    options.liveness_endpoint = kAnyPort;
    options.command_rings = rings;
    StartController(options);
  }
  worker::Worker& StartWorkerThat(Rank rank, const std::string& rings) {
    worker::WorkerOptions options = SmallWorker(rank);
    options.controller_endpoint = controller_->worker_endpoint();
    options.command_rings = rings;
    return StartWorker(options);
  }
  std::vector<bool> RanksByRing() {
    std::vector<bool> by_ring;
    const auto status = Unwrapped(GetClusterStatus(controller_->client_endpoint(), kLong));
    for (const WorkerStatus& worker : status.workers) by_ring.push_back(worker.by_ring);
    return by_ring;
  }
};

// Collectives of two sessions that ranks do not find in one order fail, or stand still.
TEST_F(CommandRingsTest, ThereIsOneOrderWhereSomeAreOnTheRingAndSomeAreNot) {
  Start(4, "on");
  const std::vector<bool> wanted = {true, false, true, false};
  for (Rank rank = 0; rank < 4; ++rank) {
    StartWorkerThat(rank, wanted[static_cast<size_t>(rank)] ? "on" : "off");
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> clients;
  for (int client = 0; client < 2; ++client) {
    clients.emplace_back([&] {
      Session session = Unwrapped(ConnectTo(controller_->client_endpoint()));
      const DRef rank = *session.Call(*session.GetFunction("lockstep.worker_rank"));
      const DRef full = *session.GetFunction("lockstep.full");
      const DRef tensor = *session.Call(full, Shape{100}, rank, DType::kFloat32);
      for (int i = 0; i < 200; ++i) {
        const StatusOr<DRef> sum = session.AllReduce(tensor, Reduction::kSum);
        if (!sum.ok()) ++wrong;
        if (!sum.ok() || i % 10 != 0) continue;
        const StatusOr<Value> value = session.DebugGet(*sum, 3);
        if (!value.ok() ||
            *value->As<HostTensor>()->Elements<float>() != std::vector<float>(100, 6)) {
          ++wrong;
        }
      }
      if (!session.SyncAll().ok()) ++wrong;
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(RanksByRing(), wanted);
}

TEST_F(CommandRingsTest, AWorkerThatMustHaveARingEndsWithoutOneAndSaysWhy) {
  Start(1, "off");
  const Status status = StartWorkerThat(0, "on").Wait(Deadline::After(kLong));
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(Message(status), HasSubstr("command_rings: on, but the controller offers no memory"));
  StartWorkerThat(0, "auto");
  EXPECT_EQ(Unwrapped(ConnectTo(controller_->client_endpoint())).SyncAll(), OkStatus());
}

}  // namespace
}  // namespace lockstep::testing
