// Sessions that outlive their clients: named registers, detaching, vanishing, attaching.
#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/deadline.h"
#include "runtime/client/admin.h"
#include "runtime/client/session.h"
#include "runtime/plan/layout.h"
#include "runtime/plan/program.h"
#include "tests/integration/recovery_fixture.h"
#include "tests/integration/wire_client.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::HasSubstr;

class AttachTest : public RecoveryFixture {
 protected:
  void SetUp() override {
    RecoveryFixture::SetUp();
    controller::ControllerOptions options = Options();
    options.session_lease = 500ms;
    StartController(options);
    StartWorkers();
  }
  SessionOptions Kept(std::chrono::milliseconds keep_for = 30s) const {
    SessionOptions options = Patient();
    options.num_groups = 3;
    options.keep_for = keep_for;
    return options;
  }
  Session OpenKept(std::chrono::milliseconds keep_for = 30s) {
    return Unwrapped(Session::Connect(Kept(keep_for), context_));
  }
  Session AttachTo(const std::string& ticket) {
    return Unwrapped(Session::Attach(Kept(), ticket, context_));
  }
  template <typename T>
  static T Must(StatusOr<T> result) {
    EXPECT_TRUE(result.ok()) << result.status();
    return std::move(result).value();
  }
  // How many registers the workers hold together, once that is `wanted`.
  void ExpectRegisters(uint64_t wanted) {
    const Deadline deadline = Deadline::After(kLong);
    uint64_t registers = 0;
    do {
      registers = 0;
      const auto status = GetClusterStatus(IpcEndpoint("clients"), kLong);
      ASSERT_TRUE(status.ok()) << status.status();
      for (const WorkerStatus& worker : status->workers) registers += worker.activity.registers;
    } while (registers != wanted && !deadline.Expired());
    EXPECT_EQ(registers, wanted);
  }
  // A session with a named register that holds the workers' ranks, and others; left by `leave`.
  template <typename Leave>
  std::string Left(Leave leave) {
    Session session = OpenKept();
    const DRef ranks = FullOfRank(session);
    EXPECT_EQ(session.Name(ranks, "ranks"), OkStatus());
    (void)Unwrap(session.AllReduce(ranks, Reduction::kSum));
    std::string ticket = session.ticket();
    leave(std::move(session));
    return ticket;
  }
};

TEST_F(AttachTest, NamedRegistersAreFoundAndTheOthersAreFreed) {
  const std::string ticket = Left([](Session session) {
    EXPECT_EQ(session.Detach(), OkStatus());
    EXPECT_EQ(session.SyncAll().code(), StatusCode::kFailedPrecondition);
    EXPECT_EQ(session.Close(), OkStatus()) << "there is nothing to close any more";
  });
  std::this_thread::sleep_for(1s);  // longer than a lease
  Session session = AttachTo(ticket);
  EXPECT_EQ(session.num_groups(), 3);
  const DRef ranks = Unwrap(session.Find("ranks"));
  for (Rank rank = 0; rank < kWorkers; ++rank) {
    EXPECT_THAT(Elements(session, ranks, rank), Each(static_cast<float>(rank)));
  }
  ExpectRegisters(kWorkers);
  EXPECT_EQ(session.Find("sum").status().code(), StatusCode::kNotFound);
  // New names do not meet the old ones.
  ExpectConnected(session);
  EXPECT_THAT(Elements(session, ranks, 2), Each(2.0f));
  EXPECT_EQ(session.Name(DRef(), "ranks"), OkStatus());
  EXPECT_EQ(session.Find("ranks").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(session.Close(), OkStatus());
  ExpectRegisters(0);
}

TEST_F(AttachTest, TheNextClientFindsTensorsWithTheirLayouts) {
  const auto on = [](std::vector<Rank> ranks, plan::Placement placement) {
    return Must(plan::Layout::Make({5}, DType::kFloat32, Must(plan::Mesh::Line(std::move(ranks))),
                                   {placement}));
  };
  const plan::Layout rows = on({2, 1}, plan::Placement::Shard(0));
  const plan::Layout sums = on({0, 1, 2}, plan::Placement::Partial(Reduction::kSum));
  const HostTensor numbers = HostTensor::Of<float>({5}, std::vector<float>{1, 2, 3, 4, 5});
  const std::string ticket = Left([&](Session session) {
    const DRef placed = Unwrap(session.Place(numbers, rows));
    EXPECT_EQ(session.Name(placed, "placed"), OkStatus());
    const DRef declared = Unwrap(
        session.Call(Unwrap(session.GetFunction("lockstep.copy")), Unwrap(session.Find("ranks"))));
    EXPECT_EQ(session.DeclareLayout(declared, on({0, 1, 2}, plan::Placement::Replicate())),
              OkStatus());
    EXPECT_EQ(session.DeclareLayout(declared, sums), OkStatus());
    EXPECT_EQ(session.Name(declared, "declared"), OkStatus());
    const DRef source = Unwrap(session.Reshard(placed, sums));
    const DRef written = Unwrap(session.Reshard(placed, sums));
    EXPECT_EQ(session.Name(written, "written"), OkStatus());
    // As its argument, and written to.
    (void)Unwrap(session.Call(Unwrap(session.GetFunction("lockstep.copy")), source, written));
    for (const char* const name : {"by store", "by collective"}) {
      const DRef ref = Unwrap(session.Reshard(placed, sums));
      EXPECT_EQ(session.Name(ref, name), OkStatus());
      if (std::string_view(name) == "by store") {
        EXPECT_EQ(session.DebugSet(ref, 1, Value(numbers)), OkStatus());
      } else {
        (void)Unwrap(session.AllReduce(ref, Reduction::kSum, {.destination = ref}));
      }
    }
    EXPECT_EQ(session.Detach(), OkStatus());
  });
  Session session = AttachTo(ticket);
  const DRef placed = Unwrap(session.Find("placed"));
  EXPECT_EQ(Must(session.LayoutOf(placed)), rows);
  EXPECT_EQ(Must(session.Collect(placed)), numbers);
  EXPECT_EQ(Must(session.LayoutOf(Unwrap(session.Find("declared")))), sums) << "the last word";
  for (const char* const name : {"written", "by store", "by collective", "ranks"}) {
    EXPECT_THAT(Message(session.LayoutOf(Unwrap(session.Find(name))).status()),
                HasSubstr("DeclareLayout()"))
        << name;
  }
  // A register that was found is written to before anything was asked of it.
  EXPECT_EQ(session.Detach(), OkStatus());
  Session third = AttachTo(ticket);
  const DRef again = Unwrap(third.Find("declared"));
  EXPECT_EQ(third.DebugSet(again, 2, Value(numbers)), OkStatus());
  EXPECT_FALSE(third.LayoutOf(again).ok());
  EXPECT_EQ(third.Detach(), OkStatus());
  Session fourth = AttachTo(ticket);
  EXPECT_FALSE(fourth.LayoutOf(Unwrap(fourth.Find("declared"))).ok()) << "on no rank";
}

// What is bound to a register that was found is checked by the workers.
TEST_F(AttachTest, AProgramThatTakesWhatItFoundForAnotherTensorIsRefused) {
  const plan::Layout whole = Must(plan::Layout::Make(
      {5}, DType::kFloat32, Must(plan::Mesh::Line({0, 1, 2})), {plan::Placement::Replicate()}));
  const plan::Layout sums = Must(whole.With({plan::Placement::Partial(Reduction::kSum)}));
  const std::string ticket = Left([&](Session session) {
    const HostTensor numbers = HostTensor::Of<float>({5}, std::vector<float>{1, 2, 3, 4, 5});
    EXPECT_EQ(session.Name(Unwrap(session.Place(numbers, whole)), "x"), OkStatus());
    EXPECT_EQ(session.Detach(), OkStatus());
  });
  Session session = AttachTo(ticket);
  plan::ProgramBuilder program;
  program.Output("y", program.Reshard(program.Input("x", sums), whole));
  const BoundPlan plan =
      Must(session.Bind(Must(program.Build()), {.inputs = {{"x", Unwrap(session.Find("x"))}}}));
  const std::string message = Message(session.SyncAll());
  EXPECT_THAT(message, HasSubstr("input \"x\" is " + sums.ToString() + " in the program"));
  EXPECT_THAT(message, HasSubstr("is known to be " + whole.ToString()));
}

// It has sent no program, whatever the one before it has sent.
TEST_F(AttachTest, TheNextClientSendsItsProgramsItself) {
  const std::string ticket = Left([&](Session session) {
    BindTwice(session);
    EXPECT_EQ(session.Detach(), OkStatus());
  });
  Session session = AttachTo(ticket);
  BindTwice(session);
  EXPECT_EQ(session.Close(), OkStatus());
}

TEST_F(AttachTest, SessionMayBeHandedOnAgainAndAgain) {
  std::string ticket = Left([](Session session) { EXPECT_EQ(session.Detach(), OkStatus()); });
  for (int i = 0; i < 5; ++i) {
    Session session = AttachTo(ticket);
    const DRef ranks = Unwrap(session.Find("ranks"));
    const DRef next = Unwrap(session.AllReduce(ranks, Reduction::kMax));
    EXPECT_EQ(session.Name(next, "step " + std::to_string(i)), OkStatus());
    for (int before = 0; before < i; ++before) {
      const DRef step = Unwrap(session.Find("step " + std::to_string(before)));
      EXPECT_THAT(Elements(session, step, 0), Each(2.0f));
    }
    EXPECT_EQ(session.ticket(), ticket);
    EXPECT_EQ(session.Detach(), OkStatus());
  }
}

TEST_F(AttachTest, SessionWithAClientIsNotTaken) {
  Session session = OpenKept();
  const StatusOr<Session> second = Session::Attach(Kept(), session.ticket(), context_);
  EXPECT_EQ(second.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(second.status()), HasSubstr("it has a client"));
  EXPECT_EQ(session.SyncAll(), OkStatus());
}

// It opens a session, names a register, sends work that does not end, and is heard no more.
TEST_F(AttachTest, SessionOfAVanishedClientIsAttachedToAfterItsLease) {
  constexpr RegisterId kNamed{1, 1};  // StuckBody() uses the first
  std::string ticket;
  {
    WireClient client(IpcEndpoint("clients"));
    client.Send([](wire::ClientMessage::Builder message) {
      auto open = message.initOpenSession();
      open.setMinVersion(kOldestProtocolVersion);
      open.setMaxVersion(kProtocolVersion);
      open.setTimeoutMillis(20'000);
      open.setKeepMillis(20'000);
    });
    SessionId id;
    ASSERT_TRUE(client.WaitFor([&](wire::ControllerMessage::Reader reader) {
      if (!reader.isSessionOpened()) return false;
      id = SessionId(reader.getSessionOpened().getSession());
      ticket = std::to_string(id.value) + "-" + reader.getSessionOpened().getToken().cStr();
      return true;
    }));
    control::BatchWriter writer;
    (void)writer.Add([&](wire::Command::Builder command) {
      auto empty = command.initEmpty();
      empty.initShape(1).set(0, 7);
      empty.setDtype(wire::DType::UINT8);
      empty.setResult(kNamed.Packed());
    });
    client.SendBatch(id, writer.Take());
    client.Send([&](wire::ClientMessage::Builder message) {
      auto name = message.initNameRegister();
      name.setSession(id.value);
      name.setRequest(5);
      name.setTimeoutMillis(20'000);
      name.initName().setName("seven");
      name.getName().setRegister(kNamed.Packed());
    });
    ASSERT_TRUE(client.WaitFor([](wire::ControllerMessage::Reader reader) {
      return reader.isAnswer() && reader.getAnswer().getRequest() == 5;
    }));
    client.SendBatch(id, StuckBody(), 2, 0, -1, 3);
    EXPECT_EQ(Session::Attach(Kept(), ticket, context_).status().code(),
              StatusCode::kFailedPrecondition)
        << "its lease is not over";
  }
  StatusOr<Session> attached = Session::Attach(Kept(), ticket, context_);
  const Deadline deadline = Deadline::After(kLong);
  while (!attached.ok() && !deadline.Expired()) {
    attached = Session::Attach(Kept(), ticket, context_);
  }
  ASSERT_TRUE(attached.ok()) << attached.status();
  const Status told = attached->SyncAll();
  EXPECT_EQ(told.code(), StatusCode::kAborted) << told;
  EXPECT_THAT(Message(told), HasSubstr("its client is gone"));
  ASSERT_EQ(attached->Reset(), OkStatus());
  const auto seven = attached->DebugGet(Unwrap(attached->Find("seven")), 1);
  ASSERT_TRUE(seven.ok()) << seven.status();
  EXPECT_EQ(seven->As<HostTensor>()->shape, Shape({7}));
  ExpectRegisters(kWorkers);
  ExpectConnected(*attached);
}

TEST_F(AttachTest, SessionsAreNotKeptForEver) {
  Session session = OpenKept(300ms);
  const DRef ranks = FullOfRank(session);
  EXPECT_EQ(session.Name(ranks, "ranks"), OkStatus());
  const std::string ticket = session.ticket();
  EXPECT_EQ(session.Detach(), OkStatus());
  ExpectRegisters(0);
  const Status late = Session::Attach(Kept(), ticket, context_).status();
  EXPECT_EQ(late.code(), StatusCode::kDataLoss);
  EXPECT_THAT(Message(late), HasSubstr("it has ended"));
}

TEST_F(AttachTest, OnlyTheTicketOpensASession) {
  const std::string ticket = Left([](Session session) { EXPECT_EQ(session.Detach(), OkStatus()); });
  std::string wrong = ticket;
  wrong.back() = wrong.back() == '0' ? '1' : '0';
  EXPECT_EQ(Session::Attach(Kept(), wrong, context_).status().code(),
            StatusCode::kPermissionDenied);
  for (const char* nonsense : {"", "-", "3", "x-y", "99999999999-0"}) {
    EXPECT_EQ(Session::Attach(Kept(), nonsense, context_).status().code(),
              StatusCode::kInvalidArgument)
        << nonsense;
  }
  EXPECT_EQ(AttachTo(ticket).SyncAll(), OkStatus());
}

TEST_F(AttachTest, SessionsThatAreNotKeptCannotBeLeft) {
  Session session = OpenKept(0ms);
  const Status status = session.Detach();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(status), HasSubstr("keep_for"));
  EXPECT_EQ(session.SyncAll(), OkStatus()) << "it is not left";
  SessionOptions options = Kept(-1ms);
  EXPECT_EQ(Session::Connect(options, context_).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(AttachTest, BadNamesAreRefused) {
  Session session = OpenKept();
  const DRef ranks = FullOfRank(session);
  EXPECT_EQ(session.Name(ranks, "").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(session.Name(ranks, std::string(256, 'x')).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(session.Name(ranks, std::string(255, 'x')), OkStatus());
  EXPECT_EQ(session.Name(DRef(), "never given"), OkStatus());
}

// A register lives for as long as it has a name, whether the client drops it or not.
TEST_F(AttachTest, NamesKeepRegisters) {
  Session session = OpenKept();
  EXPECT_EQ(session.Name(FullOfRank(session), "ranks"), OkStatus());
  EXPECT_EQ(session.SyncAll(), OkStatus());
  EXPECT_THAT(Elements(session, Unwrap(session.Find("ranks")), 2), Each(2.0f));
  EXPECT_EQ(session.Name(FullOfRank(session), "ranks"), OkStatus()) << "another takes the name";
  EXPECT_EQ(session.SyncAll(), OkStatus());
  EXPECT_EQ(session.Close(), OkStatus());
}

}  // namespace
}  // namespace lockstep::testing
