// How workers and clients find a cluster, in any order, and which are turned away.
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/deadline.h"
#include "runtime/base/random.h"
#include "runtime/base/version.h"
#include "runtime/client/admin.h"
#include "runtime/client/session.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/input_waiter.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "schemas/control.capnp.h"
#include "tests/integration/services_fixture.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

// The parameter is the transport: "inproc", "ipc" or "tcp".
class MembershipTest : public ServicesFixture, public ::testing::WithParamInterface<std::string> {
 protected:
  // Known before a process listens there, but for tcp, whose ports are chosen by the listener.
  std::string Endpoint(const std::string& role) const {
    if (GetParam() == "tcp") return "tcp://127.0.0.1:*";
    if (GetParam() == "ipc") return IpcEndpoint(role);
    return "inproc://" + unique_ + "-" + role;
  }
  void StartController(int workers) {
    controller::ControllerOptions options;
    options.cluster = "mine";
    options.workers = workers;
    options.client_endpoint = Endpoint("clients");
    options.worker_endpoint = Endpoint("workers");
    options.liveness_endpoint = Endpoint("liveness");
    options.worker_timeout = kLong;
    ServicesFixture::StartController(options);
  }
  std::string WorkerEndpoint() const {
    return controller_ != nullptr ? controller_->worker_endpoint() : Endpoint("workers");
  }
  worker::WorkerOptions WorkerOptions(int rank) {
    worker::WorkerOptions options = SmallWorker(rank);
    options.controller_endpoint = WorkerEndpoint();
    options.bulk_endpoint = Endpoint("bulk" + std::to_string(++bulks_));
    return options;
  }
  using ServicesFixture::StartWorker;
  worker::Worker& StartWorker(int rank) { return StartWorker(WorkerOptions(rank)); }

  StatusOr<Session> Connect(std::chrono::milliseconds timeout = kLong) {
    return ConnectTo(controller_->client_endpoint(), timeout);
  }
  // The sum of all ranks, computed by all ranks.
  void ExpectWorks(int64_t sum) {
    auto session = Connect();
    ASSERT_TRUE(session.ok()) << session.status();
    const DRef rank = *session->Call(*session->GetFunction("lockstep.worker_rank"));
    const DRef tensor =
        *session->Call(*session->GetFunction("lockstep.full"), Shape{1}, rank, DType::kInt64);
    const auto value = session->DebugGet(*session->AllReduce(tensor, Reduction::kSum), 0);
    ASSERT_TRUE(value.ok()) << value.status();
    EXPECT_EQ(*value->As<HostTensor>()->Elements<int64_t>(), std::vector<int64_t>{sum});
  }

  const std::string unique_ = "membership-" + RandomHex(6);
  int bulks_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Transports, MembershipTest, ::testing::Values("inproc", "ipc", "tcp"),
                         [](const auto& info) { return info.param; });

TEST_P(MembershipTest, ControllerFirst) {
  StartController(3);
  for (int rank : {2, 0, 1}) StartWorker(rank);
  ExpectWorks(3);
}

TEST_P(MembershipTest, WorkersFirst) {
  if (GetParam() == "tcp") GTEST_SKIP() << "the port is known when the controller listens";
  for (int rank : {1, 2, 0}) StartWorker(rank);
  StartController(3);
  ExpectWorks(3);
}

TEST_P(MembershipTest, SomeBeforeAndSomeAfter) {
  if (GetParam() == "tcp") GTEST_SKIP() << "the port is known when the controller listens";
  StartWorker(1);
  StartController(2);
  StartWorker(0);
  ExpectWorks(1);
}

TEST_P(MembershipTest, ClientWaitsForTheWorkers) {
  StartController(2);
  std::thread late([&] {
    StartWorker(-1);
    StartWorker(-1);
  });
  ExpectWorks(1);
  late.join();
}

TEST_P(MembershipTest, ClientLearnsWhoIsMissing) {
  StartController(3);
  StartWorker(1);
  const Deadline deadline = Deadline::After(kLong);
  Status status;
  do {
    status = Connect(50ms).status();
  } while (Message(status).find("1 (joining)") == std::string::npos && !deadline.Expired());
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  EXPECT_THAT(Message(status), HasSubstr("0, 1 (joining), 2"));
}

TEST_P(MembershipTest, NobodyAtTheEndpoint) {
  SessionOptions options;
  options.endpoint = GetParam() == "tcp" ? "tcp://127.0.0.1:1" : Endpoint("nobody");
  options.connect_timeout = 50ms;
  const Status status = Session::Connect(options, context_).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  EXPECT_THAT(Message(status), AllOf(HasSubstr(options.endpoint), HasSubstr("is it running?")));
}

TEST_P(MembershipTest, SecondWorkerOfARankIsRefusedAndTheFirstWorks) {
  StartController(2);
  StartWorker(0);
  StartWorker(1);
  ExpectWorks(1);
  const Status status = StartWorker(1).Wait(Deadline::After(kLong));
  EXPECT_EQ(status.code(), StatusCode::kAlreadyExists) << status;
  EXPECT_THAT(Message(status), HasSubstr("rank 1 is taken"));
  EXPECT_EQ(StartWorker(-1).Wait(Deadline::After(kLong)).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(StartWorker(7).Wait(Deadline::After(kLong)).code(), StatusCode::kOutOfRange);
  ExpectWorks(1);
}

TEST_P(MembershipTest, WorkerOfAnotherClusterIsRefused) {
  StartController(1);
  worker::WorkerOptions options = WorkerOptions(0);
  options.cluster = "theirs";
  const Status status = StartWorker(options).Wait(Deadline::After(kLong));
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(Message(status), AllOf(HasSubstr("\"mine\""), HasSubstr("\"theirs\"")));
  options = WorkerOptions(0);
  options.cluster = "mine";
  StartWorker(options);
  ExpectWorks(0);
}

TEST_P(MembershipTest, WorkerThatSpeaksAnotherVersionIsRefused) {
  StartController(1);
  auto worker = control::ZmqConnect(context_, controller_->worker_endpoint());
  ASSERT_TRUE(worker.ok());
  ASSERT_TRUE((*worker)
                  ->Send({control::EncodeMessage<wire::WorkerMessage>(
                      [](wire::WorkerMessage::Builder message) {
                        auto hello = message.initHello();
                        hello.setMinVersion(kProtocolVersion + 1);
                        hello.setMaxVersion(kProtocolVersion + 2);
                        hello.setBuild("8.8.8");
                      })})
                  .ok());
  control::InputWaiter waiter(0us);
  control::Channel* const channels[] = {worker->get()};
  ASSERT_TRUE(waiter.Wait(channels, {}, Deadline::After(kLong)));
  control::Message message;
  ASSERT_TRUE((*worker)->Receive(&message));
  Status refusal;
  ASSERT_TRUE(control::DecodeMessage<wire::Envelope>(message[0], [&](wire::Envelope::Reader e) {
                EXPECT_TRUE(e.isRefused());
                refusal = control::ReadError(e.getRefused().getError()).ToStatus();
                return OkStatus();
              }).ok());
  EXPECT_EQ(refusal.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(refusal), AllOf(HasSubstr("8.8.8"), HasSubstr(kBuildVersion)));
  StartWorker(0);  // its rank was not taken
  ExpectWorks(0);
}

// What comes from a worker that has not joined is ignored, and nonsense is dropped.
TEST_P(MembershipTest, StrangersOnTheWorkersSocketAreIgnored) {
  StartController(1);
  auto stranger = control::ZmqConnect(context_, controller_->worker_endpoint());
  ASSERT_TRUE(stranger.ok());
  ASSERT_TRUE((*stranger)->Send({control::Frame::Copy("junk", 4)}).ok());
  ASSERT_TRUE((*stranger)
                  ->Send({control::EncodeMessage<wire::WorkerMessage>(
                      [](wire::WorkerMessage::Builder message) {
                        auto failure = message.initFailure();
                        failure.initError().setSession(1);
                      })})
                  .ok());
  ASSERT_TRUE((*stranger)
                  ->Send({control::EncodeMessage<wire::WorkerMessage>(
                      [](wire::WorkerMessage::Builder message) { message.initReady(); })})
                  .ok());
  StartWorker(0);
  ExpectWorks(0);
  ExpectWorks(0);
}

TEST_P(MembershipTest, WorkersEndWithTheirController) {
  StartController(2);
  StartWorker(0);
  StartWorker(1);
  ExpectWorks(1);
  controller_->RequestStop("enough for today");
  for (auto& worker : workers_) EXPECT_EQ(worker->Wait(Deadline::After(kLong)), OkStatus());
}

TEST_P(MembershipTest, WorkerThatWaitsForOthersEndsWithTheController) {
  StartController(2);
  worker::Worker& lonely = StartWorker(0);
  const Deadline deadline = Deadline::After(kLong);
  while (Message(Connect(30ms).status()).find("0 (joining)") == std::string::npos) {
    ASSERT_FALSE(deadline.Expired());
  }
  controller_->RequestStop("enough for today");
  const Status status = lonely.Wait(Deadline::After(kLong));
  EXPECT_NE(status.code(), StatusCode::kDeadlineExceeded) << status;
}

TEST_P(MembershipTest, WorkerWithoutAControllerGivesUp) {
  worker::WorkerOptions options = WorkerOptions(0);
  if (GetParam() == "tcp") options.controller_endpoint = "tcp://127.0.0.1:1";
  options.join_timeout = 50ms;
  const Status status = StartWorker(options).Wait(Deadline::After(kLong));
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  EXPECT_THAT(Message(status), HasSubstr(options.controller_endpoint));
}

TEST_P(MembershipTest, StatusShowsTheClusterAndItsSessions) {
  if (GetParam() == "inproc") GTEST_SKIP() << "inproc endpoints cannot be asked from outside";
  StartController(2);
  StartWorker(0);
  StartWorker(1);
  SessionOptions options;
  options.endpoint = controller_->client_endpoint();
  options.name = "the program";
  auto session = Session::Connect(options);
  ASSERT_TRUE(session.ok()) << session.status();
  const auto status = GetClusterStatus(controller_->client_endpoint(), kLong);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->cluster, "mine");
  EXPECT_TRUE(status->IsReady());
  ASSERT_EQ(status->workers.size(), 2u);
  EXPECT_EQ(status->workers[1].rank, 1);
  EXPECT_EQ(status->workers[1].backend, "shm");
  EXPECT_EQ(status->workers[1].device, "cpu:0");
  ASSERT_EQ(status->sessions.size(), 1u);
  EXPECT_EQ(status->sessions[0].session, session->id());
  EXPECT_EQ(status->sessions[0].name, "the program");
  EXPECT_EQ(status->sessions[0].error, "");
  EXPECT_TRUE(session->Close().ok());
  EXPECT_TRUE(GetClusterStatus(controller_->client_endpoint(), kLong)->sessions.empty());
}

TEST(ControllerTest, BadOptionsAreRefused) {
  controller::ControllerOptions options;
  options.client_endpoint = "inproc://a";
  options.worker_endpoint = "inproc://b";
  options.liveness_endpoint = "inproc://c";
  const auto start = [&] {
    return controller::Controller::Start(options, control::ZmqContext::Create()).status().code();
  };
  options.workers = 0;
  EXPECT_EQ(start(), StatusCode::kInvalidArgument);
  options.workers = 1'000'000;
  EXPECT_EQ(start(), StatusCode::kInvalidArgument);
  options.workers = 1;
  options.worker_timeout = 2 * options.heartbeat_interval - 1ms;
  EXPECT_EQ(start(), StatusCode::kInvalidArgument);
  options.worker_timeout = 2s;
  options.client_endpoint = "tcp://0.0.0.0:*";
  EXPECT_EQ(start(), StatusCode::kPermissionDenied);
  options.client_endpoint = "inproc://b";
  EXPECT_EQ(start(), StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace lockstep::testing
