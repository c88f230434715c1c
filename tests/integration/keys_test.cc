// A cluster that asks for keys: which keys get in, what each may do, and what becomes of both when
// keys change while it runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/client/admin.h"
#include "runtime/client/cluster_tracer.h"
#include "runtime/client/session.h"
#include "runtime/control/keys/allow_list.h"
#include "runtime/control/keys/key_file.h"
#include "runtime/control/zmq/zmq_context.h"
#include "runtime/plan/program.h"
#include "services/controller/controller.h"
#include "services/local/temporary_directory.h"
#include "services/worker/worker.h"
#include "tests/integration/wire_client.h"
#include "tests/support/patience.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kKeysWorkers = 2;
constexpr int kSessionsPerKey = 8;

class KeysTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = *local::TemporaryDirectory::Create();
    Allow("controller", MakeKey("controller"), "");
    Allow("worker", MakeKey("worker"), "worker");
    for (const char* role : {"reader", "client", "operator"}) Allow(role, MakeKey(role), role);
    controller::ControllerOptions controller;
    controller.workers = kKeysWorkers;
    controller.client_endpoint = controller.worker_endpoint = controller.liveness_endpoint =
        "tcp://127.0.0.1:*";
    controller.key = Path("controller.key");
    controller.allowed_keys = Path("allowed_keys");
    controller.session_lease = 2s;
    controller.worker_timeout = 20s;
    controller.max_sessions_per_key = kSessionsPerKey;
    controller.collective_timeout = 40s;
    auto started = controller::Controller::Start(controller, context_);
    ASSERT_TRUE(started.ok()) << started.status();
    controller_ = std::move(*started);
    controller_key_ = control::ReadKeyFile(controller.key)->public_key.Text();
    for (int rank = 0; rank < kKeysWorkers; ++rank) {
      auto worker = StartWorker(rank, "worker");
      ASSERT_TRUE(worker.ok()) << worker.status();
      workers_.push_back(std::move(*worker));
    }
    ASSERT_TRUE(Await([&] {
      const auto status = GetClusterStatus(As("operator"), support::kLong);
      return status.ok() && status->IsReady();
    }));
  }
  void TearDown() override {
    if (controller_ == nullptr) return;
    controller_->RequestStop("the test is over");
    const Deadline deadline = Deadline::After(support::kLong);
    EXPECT_EQ(controller_->Wait(deadline), OkStatus());
    for (auto& worker : workers_) EXPECT_EQ(worker->Wait(deadline), OkStatus());
  }

  std::string Path(const std::string& name) const { return directory_->path() + "/" + name; }
  control::PublicKey MakeKey(const std::string& name) {
    const control::KeyPair pair = control::NewKeyPair();
    EXPECT_EQ(control::ReplaceKeyFile(Path(name + ".key"), pair, name), OkStatus());
    return pair.public_key;
  }
  // Writes the list anew with a line more; `role` empty: without.
  void Allow(const std::string& name, const control::PublicKey& key, const std::string& role) {
    if (!role.empty()) list_ += role + " " + key.Text() + " " + name + "\n";
    EXPECT_EQ(control::WriteFileWhole(Path("allowed_keys"), list_, 0600), OkStatus());
  }
  StatusOr<std::unique_ptr<worker::Worker>> StartWorker(int rank, const std::string& name) {
    worker::WorkerOptions options;
    options.rank = rank;
    options.controller_endpoint = controller_->worker_endpoint();
    options.bulk_endpoint = "tcp://127.0.0.1:*";
    options.key = Path(name + ".key");
    options.controller_key = controller_key_;
    options.controller_timeout = 40s;
    options.join_timeout = rank < kKeysWorkers ? 40s : 2s;
    options.arena_bytes = size_t{64} << 20;
    return worker::Worker::Start(options, context_);
  }
  ControllerAddress As(const std::string& name) const {
    return {controller_->client_endpoint(), Path(name + ".key"), controller_key_};
  }
  StatusOr<Session> Connect(const std::string& name) {
    SessionOptions options;
    options.Reach(As(name));
    options.name = name;
    options.connect_timeout = support::kLong;
    options.timeout = support::kLong;
    options.map_memory = false;  // so that copies go over a socket with keys, too
    return Session::Connect(options);
  }
  static Status Work(Session& session) {
    constexpr int64_t kElements = 5000;  // too many to be read with an answer
    const std::vector<float> ones(kElements, 1.0f);
    LOCKSTEP_ASSIGN_OR_RETURN(const DRef tensor,
                              session.CopyToWorker0(HostTensor::Of<float>({kElements}, ones)));
    LOCKSTEP_ASSIGN_OR_RETURN(const DRef everywhere, session.Broadcast(tensor, 0));
    LOCKSTEP_ASSIGN_OR_RETURN(const DRef sum, session.AllReduce(everywhere, Reduction::kSum));
    LOCKSTEP_ASSIGN_OR_RETURN(const HostTensor result, session.CopyFromWorker0(sum));
    LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<float> elements, result.Elements<float>());
    if (elements == std::vector<float>(kElements, static_cast<float>(kKeysWorkers)))
      return OkStatus();
    return Internal("wrong sum");
  }
  template <typename Condition>
  static bool Await(Condition condition) {
    const Deadline deadline = Deadline::After(support::kLong);
    while (!condition()) {
      if (deadline.Expired()) return false;
      std::this_thread::sleep_for(10ms);
    }
    return true;
  }

  const std::shared_ptr<control::ZmqContext> context_ = control::ZmqContext::Create();
  std::unique_ptr<local::TemporaryDirectory> directory_;
  std::string list_;
  std::string controller_key_;
  std::unique_ptr<controller::Controller> controller_;
  std::vector<std::unique_ptr<worker::Worker>> workers_;
};

TEST_F(KeysTest, ClientWithItsKeyWorks) {
  StatusOr<Session> session = Connect("client");
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ(Work(*session), OkStatus());
  EXPECT_EQ(session->Close(), OkStatus());
}

TEST_F(KeysTest, StrangersAreToldAtOnceThatTheyDoNotComeIn) {
  MakeKey("stranger");
  const Status unknown = Connect("stranger").status();
  EXPECT_EQ(unknown.code(), StatusCode::kPermissionDenied) << unknown;
  EXPECT_THAT(Message(unknown), HasSubstr("lockstep keys allow"));
  SessionOptions without;
  without.endpoint = controller_->client_endpoint();
  EXPECT_EQ(Session::Connect(without).status().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(GetClusterStatus(As("stranger"), support::kLong).status().code(),
            StatusCode::kPermissionDenied);
}

TEST_F(KeysTest, WhoeverHasTakenTheControllersPlaceIsNotTalkedTo) {
  ControllerAddress address = As("client");
  address.controller_key = control::NewKeyPair().public_key.Text();
  const Status status = GetClusterStatus(address, 500ms).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  EXPECT_THAT(Message(status), HasSubstr("does not have the key " + address.controller_key));
}

TEST_F(KeysTest, EachRoleMayDoWhatItIsForAndNothingElse) {
  EXPECT_TRUE(GetClusterStatus(As("reader"), support::kLong).ok());
  EXPECT_TRUE(ExplainCluster(As("reader"), support::kLong).ok());
  EXPECT_TRUE(ListRegisters(As("reader"), {}, support::kLong).ok());
  const Status looks = Connect("reader").status();
  EXPECT_EQ(looks.code(), StatusCode::kPermissionDenied) << looks;
  EXPECT_THAT(Message(looks), AllOf(HasSubstr("\"reader\""), HasSubstr("may have sessions")));
  TraceOptions patient;
  patient.timeout = support::kLong;
  const Status records = ClusterTracer::Start(As("reader"), patient).status();
  EXPECT_EQ(records.code(), StatusCode::kPermissionDenied) << records;
  EXPECT_THAT(Message(records), HasSubstr("may have traces recorded"));
  EXPECT_EQ(ClusterTracer::Start(As("client"), patient).status(), OkStatus());
  EXPECT_EQ(ShutdownCluster(As("reader"), "x", support::kLong).code(),
            StatusCode::kPermissionDenied);
  EXPECT_EQ(ShutdownCluster(As("client"), "x", support::kLong).code(),
            StatusCode::kPermissionDenied);
  EXPECT_EQ(Connect("worker").status().code(), StatusCode::kPermissionDenied);
  EXPECT_TRUE(Connect("operator").ok());
  EXPECT_EQ(ShutdownCluster(As("operator"), "for maintenance", support::kLong), OkStatus());
}

TEST_F(KeysTest, ReaderCannotTouchASessionThatIsOpen) {
  StatusOr<Session> session = Connect("client");
  ASSERT_TRUE(session.ok()) << session.status();
  WireClient reader(As("reader"));
  reader.Send([&](wire::ClientMessage::Builder message) {
    message.initCloseSession().setSession(session->id().value);
  });
  EXPECT_EQ(reader.NextVerdict().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(Work(*session), OkStatus());
}

TEST_F(KeysTest, KeyOfAClientDoesNotJoinAsAWorker) {
  // The third rank does not exist, but that is never said: no peer talks to it.
  auto impostor = StartWorker(kKeysWorkers, "client");
  ASSERT_TRUE(impostor.ok()) << impostor.status();
  const Status ended = (*impostor)->Wait(Deadline::After(support::kLong));
  EXPECT_THAT(Message(ended), HasSubstr("does not let the key"));
}

TEST_F(KeysTest, NobodyElseConnectsToABulkEndpoint) {
  StatusOr<Session> session = Connect("client");
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_EQ(Work(*session), OkStatus());
  // Even an operator has no key for it: it is the session's own.
  WireClient other(As("operator"));
  ASSERT_EQ(other.Open(), OkStatus());
  ASSERT_FALSE(other.bulk_key().empty());
  control::ZmqOptions options;
  options.credentials = *control::CredentialsFrom(Path("operator.key"), other.bulk_key());
  auto channel = control::ZmqConnect(context_, other.bulk_endpoint(), options);
  ASSERT_TRUE(channel.ok()) << channel.status();
  ASSERT_EQ((*channel)->Send({control::Frame::Copy("x", 1)}), OkStatus());
  EXPECT_TRUE(Await([&] {
    (void)(*channel)->Send({control::Frame::Copy("x", 1)});
    return (*channel)->trouble().code() == StatusCode::kPermissionDenied;
  }));
  EXPECT_EQ(Work(*session), OkStatus());
}

TEST_F(KeysTest, KeyThatIsAddedComesInAndOneThatIsRevokedIsCutOff) {
  const control::PublicKey late = MakeKey("late");
  EXPECT_FALSE(Connect("late").ok());
  StatusOr<Session> witness = Connect("client");
  ASSERT_TRUE(witness.ok()) << witness.status();
  Allow("late", late, "client");
  StatusOr<Session> session = Connect("late");
  ASSERT_TRUE(Await([&] {
    if (!session.ok()) session = Connect("late");
    return session.ok();
  })) << session.status();
  EXPECT_EQ(Work(*session), OkStatus());

  list_.replace(list_.find("client " + late.Text()), 6, "revoked");
  Allow("", {}, "");
  // Its session is ended, and the other goes on.
  EXPECT_TRUE(Await([&] {
    const auto status = GetClusterStatus(As("reader"), support::kLong);
    return status.ok() && status->sessions.size() == 1;
  }));
  const Status told = Work(*session);
  EXPECT_EQ(told.code(), StatusCode::kPermissionDenied) << told;
  EXPECT_THAT(Message(told), AllOf(HasSubstr("\"late\""), HasSubstr("not allowed any more")));
  EXPECT_EQ(Work(*witness), OkStatus());
  EXPECT_EQ(Connect("late").status().code(), StatusCode::kPermissionDenied);
}

TEST_F(KeysTest, APlanEndsWithTheRoleThatItWasBoundIn) {
  const control::PublicKey changing = MakeKey("changing");
  Allow("changing", changing, "client");
  StatusOr<Session> session = Connect("changing");
  ASSERT_TRUE(Await([&] {
    if (!session.ok()) session = Connect("changing");
    return session.ok();
  })) << session.status();
  const plan::Layout whole = *plan::Layout::Make({3}, DType::kFloat32, *plan::Mesh::Line({0, 1}),
                                                 {plan::Placement::Replicate()});
  plan::ProgramBuilder program;
  program.Output("y", program.Copy(program.Input("x", whole)));
  const std::vector<float> numbers = {1, 2, 3};
  const DRef x = *session->Place(HostTensor::Of<float>({3}, numbers), whole);
  StatusOr<BoundPlan> plan = session->Bind(*program.Build(), {.inputs = {{"x", x}}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->Execute(), OkStatus());
  ASSERT_EQ(session->SyncAll(), OkStatus());

  // A role that may do more ends it, too: what was granted was granted in another role.
  list_.replace(list_.find("client " + changing.Text()), 6, "operator");
  Allow("", {}, "");
  Status told;
  EXPECT_TRUE(Await([&] {
    if (told = plan->Execute(); told.ok()) told = session->SyncAll();
    return !told.ok();
  }));
  EXPECT_EQ(told.code(), StatusCode::kPermissionDenied) << told;
  EXPECT_THAT(Message(told), AllOf(HasSubstr("\"changing\""), HasSubstr("not allowed any more")));
  // Connected anew in the new role, it starts without the plan.
  StatusOr<Session> again = Connect("changing");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(Work(*again), OkStatus());
}

TEST_F(KeysTest, SessionThatIsKeptEndsWithTheKeyOfItsLastClient) {
  SessionOptions options;
  options.Reach(As("client"));
  options.keep_for = 1h;
  StatusOr<Session> session = Session::Connect(options);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_EQ(Work(*session), OkStatus());
  ASSERT_EQ(session->Detach(), OkStatus());
  const auto count = [&] {
    const auto status = GetClusterStatus(As("reader"), support::kLong);
    return status.ok() ? static_cast<int>(status->sessions.size()) : -1;
  };
  ASSERT_EQ(count(), 1);
  const std::string key = control::ReadKeyFile(Path("client.key"))->public_key.Text();
  list_.replace(list_.find("client " + key), 6, "revoked");
  Allow("", {}, "");
  EXPECT_TRUE(Await([&] { return count() == 0; }));
}

TEST_F(KeysTest, OneKeyDoesNotTakeAllSessions) {
  std::vector<Session> sessions;
  for (int i = 0; i < kSessionsPerKey; ++i) {
    StatusOr<Session> session = Connect("client");
    ASSERT_TRUE(session.ok()) << session.status();
    sessions.push_back(std::move(*session));
  }
  const Status one_more = Connect("client").status();
  EXPECT_EQ(one_more.code(), StatusCode::kResourceExhausted) << one_more;
  EXPECT_THAT(Message(one_more), HasSubstr("max_sessions_per_key"));
  EXPECT_TRUE(Connect("operator").ok());
  EXPECT_EQ(sessions.back().Close(), OkStatus());
  EXPECT_TRUE(Connect("client").ok());
}

TEST_F(KeysTest, RotatedKeysDisturbNobodyWhoIsConnected) {
  StatusOr<Session> session = Connect("client");
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_EQ(Work(*session), OkStatus());
  const control::KeyPair old = *control::ReadKeyFile(Path("client.key"));
  // Both the client's and the workers': the new keys take the old ones' lines.
  for (const char* name : {"client", "worker"}) {
    const std::string before =
        control::ReadKeyFile(Path(std::string(name) + ".key"))->public_key.Text();
    list_.replace(list_.find(before), before.size(), MakeKey(name).Text());
  }
  Allow("", {}, "");
  ASSERT_EQ(control::WriteKeyFile(Path("old.key"), old, "client"), OkStatus());
  EXPECT_TRUE(Await([&] {
    return GetClusterStatus(As("old"), support::kLong).status().code() ==
           StatusCode::kPermissionDenied;
  })) << "the new list counts";
  EXPECT_EQ(Work(*session), OkStatus());
  StatusOr<Session> with_new_key = Connect("client");
  ASSERT_TRUE(with_new_key.ok()) << with_new_key.status();
  EXPECT_EQ(Work(*with_new_key), OkStatus());
  const auto status = GetClusterStatus(As("reader"), support::kLong);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_TRUE(status->IsReady());
}

TEST_F(KeysTest, ControllerWithoutAListDoesNotStart) {
  controller::ControllerOptions options;
  options.client_endpoint = options.worker_endpoint = options.liveness_endpoint =
      "tcp://127.0.0.1:*";
  options.key = Path("controller.key");
  EXPECT_EQ(controller::Controller::Start(options, context_).status().code(),
            StatusCode::kInvalidArgument);
  options.key.clear();
  options.client_endpoint = "tcp://*:*";
  const Status open = controller::Controller::Start(options, context_).status();
  EXPECT_EQ(open.code(), StatusCode::kPermissionDenied) << open;
  EXPECT_THAT(Message(open), HasSubstr("lockstep keys new"));
}

}  // namespace
}  // namespace lockstep::testing
