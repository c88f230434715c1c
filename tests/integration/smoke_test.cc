// The shortest way through everything: a controller and workers as threads, one session.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "runtime/base/random.h"
#include "runtime/client/admin.h"
#include "runtime/client/session.h"
#include "runtime/control/zmq/zmq_context.h"
#include "services/controller/controller.h"
#include "services/worker/worker.h"

namespace lockstep {
namespace {

using std::chrono::seconds;

TEST(SmokeTest, AllReduceOfRanksOverThreads) {
  auto context = control::ZmqContext::Create();
  const std::string name = "inproc://smoke-" + RandomHex(4);
  controller::ControllerOptions controller_options;
  controller_options.workers = 4;
  controller_options.client_endpoint = name + "-clients";
  controller_options.worker_endpoint = name + "-workers";
  controller_options.liveness_endpoint = name + "-liveness";
  auto controller = controller::Controller::Start(controller_options, context);
  ASSERT_TRUE(controller.ok()) << controller.status();
  std::vector<std::unique_ptr<worker::Worker>> workers;
  for (int i = 0; i < 4; ++i) {
    worker::WorkerOptions options;
    options.controller_endpoint = (*controller)->worker_endpoint();
    options.bulk_endpoint = name + "-bulk" + std::to_string(i);
    auto worker = worker::Worker::Start(options, context);
    ASSERT_TRUE(worker.ok()) << worker.status();
    workers.push_back(std::move(*worker));
  }
  {
    SessionOptions options;
    options.endpoint = (*controller)->client_endpoint();
    options.num_groups = 2;
    options.connect_timeout = std::chrono::milliseconds(5000);
    auto session = Session::Connect(options, context);
    ASSERT_TRUE(session.ok()) << session.status();
    auto rank = session->GetFunction("lockstep.worker_rank");
    auto full = session->GetFunction("lockstep.full");
    ASSERT_TRUE(session->SyncAll().ok());
    auto r = session->Call(*rank);
    auto t = session->Call(*full, Shape{3}, *r, DType::kFloat32);
    auto sum = session->AllReduce(*t, Reduction::kSum);
    auto value = session->DebugGet(*sum, 3);
    ASSERT_TRUE(value.ok()) << value.status();
    EXPECT_EQ(ToString(*value), "float32 [3] {6, 6, 6}");
    std::vector<float> data(1000, 2.5f);
    auto x = session->CopyToWorker0(Shape{10, 100}, ViewOf(data.data(), data.size()));
    ASSERT_TRUE(x.ok()) << x.status();
    auto scattered = session->ScatterFromWorker0(*x);
    auto gathered = session->GatherToWorker0(*scattered);
    auto back = session->CopyFromWorker0(*gathered);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->shape, (Shape{10, 100}));
    EXPECT_EQ(*back->Elements<float>(), data);
    auto bad = session->GetFunction("nonsense");
    const Status status = session->SyncAll();
    EXPECT_FALSE(status.ok());
    std::cout << status << std::endl;
    EXPECT_TRUE(session->Reset().ok());
    auto again = session->AllReduce(*t, Reduction::kMax, {.in_group = true});
    value = session->DebugGet(*again, 0);
    ASSERT_TRUE(value.ok()) << value.status();
    EXPECT_EQ(ToString(*value), "float32 [3] {1, 1, 1}");
    EXPECT_TRUE(session->Close().ok());
  }
  (*controller)->RequestStop("test over");
  EXPECT_TRUE((*controller)->Wait(Deadline::After(seconds(5))).ok());
  for (auto& worker : workers) {
    EXPECT_TRUE(worker->Wait(Deadline::After(seconds(5))).ok());
  }
}

}  // namespace
}  // namespace lockstep
