// Clients that speak the wire by hand: whatever they send, no other client is harmed.
#include <random>
#include <string>
#include <vector>

#include "runtime/client/admin.h"
#include "runtime/control/value_codec.h"
#include "tests/integration/session_fixture.h"
#include "tests/integration/wire_client.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class HostileClientTest : public SessionFixture {
 protected:
  void TearDown() override {
    // The session looked on all the while.
    const DRef sum = Unwrap(session_->AllReduce(FullOfRank({2}), Reduction::kSum));
    EXPECT_EQ(Elements<float>(sum, 3), (std::vector<float>{6, 6}));
    const auto status = GetClusterStatus(address(), 20s);
    ASSERT_TRUE(status.ok()) << status.status();
    EXPECT_TRUE(status->IsReady());
    SessionFixture::TearDown();
  }
  ControllerAddress address() { return SharedCluster(GetParam()).address(); }

  static control::Frame Sync() {
    return control::OneCommand([](wire::Command::Builder command) { command.setSync(); });
  }
};
INSTANTIATE_TEST_SUITE_P(Clusters, HostileClientTest,
                         ::testing::Values(ClusterKind::kTcpThreads, ClusterKind::kLocalProcesses),
                         NameOf);

TEST_P(HostileClientTest, HandMadeClientWorksIfItBehaves) {
  WireClient client(address());
  ASSERT_EQ(client.Open(), OkStatus());
  client.SendBatch(client.session(), Sync(), 1, 1);
  EXPECT_EQ(client.NextVerdict(), OkStatus());
}

TEST_P(HostileClientTest, VersionsWithoutACommonOneAreRefused) {
  WireClient newer(address());
  const Status status = newer.Open(kProtocolVersion + 1, kProtocolVersion + 9);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(Message(status), HasSubstr("7.7.7"));
  WireClient older(address());
  EXPECT_EQ(older.Open(0, kOldestProtocolVersion - 1).code(), StatusCode::kFailedPrecondition);
  WireClient both(address());
  EXPECT_EQ(both.Open(0, kProtocolVersion + 1), OkStatus());
}

TEST_P(HostileClientTest, BytesThatAreNoMessageAreRefused) {
  WireClient client(address());
  client.SendFrames({control::Frame()});
  EXPECT_EQ(client.NextVerdict().code(), StatusCode::kInvalidArgument);
  client.SendFrames({control::Frame::Copy("cut off", 7)});
  EXPECT_EQ(client.NextVerdict().code(), StatusCode::kInvalidArgument);
  const std::vector<uint64_t> words(100, ~uint64_t{0});
  client.SendFrames({control::Frame::Copy(words.data(), 800)});
  EXPECT_EQ(client.NextVerdict().code(), StatusCode::kInvalidArgument);
}

TEST_P(HostileClientTest, OnlyABodyMayBeLarge) {
  WireClient client(address());
  client.Send([](wire::ClientMessage::Builder message) {
    message.initOpenSession().setName(std::string(100'000, 'x'));
  });
  EXPECT_EQ(client.NextVerdict().code(), StatusCode::kInvalidArgument);
}

TEST_P(HostileClientTest, SessionsOfOthersCannotBeTouched) {
  WireClient client(address());
  ASSERT_EQ(client.Open(), OkStatus());
  const SessionId theirs = session_->id();
  client.SendBatch(theirs, Sync(), 1, 1);
  EXPECT_EQ(client.NextVerdict().code(), StatusCode::kPermissionDenied);
  client.Send([&](wire::ClientMessage::Builder message) {
    message.initCloseSession().setSession(theirs.value);
  });
  EXPECT_EQ(client.NextVerdict().code(), StatusCode::kPermissionDenied);
  client.Send([&](wire::ClientMessage::Builder message) {
    auto reset = message.initResetSession();
    reset.setSession(theirs.value);
    reset.setGeneration(1);
  });
  EXPECT_EQ(client.NextVerdict().code(), StatusCode::kPermissionDenied);
  client.Send([&](wire::ClientMessage::Builder message) {
    message.initKeepAlive().setSession(theirs.value);
  });
  EXPECT_EQ(client.NextVerdict().code(), StatusCode::kPermissionDenied);
  client.SendBatch(SessionId(1'000'000), Sync(), 1, 1);
  EXPECT_EQ(client.NextVerdict().code(), StatusCode::kNotFound);
}

TEST_P(HostileClientTest, BatchesThatAreNotWholeAreRefused) {
  WireClient client(address());
  ASSERT_EQ(client.Open(), OkStatus());
  const auto refused = [&](uint64_t first_command, Rank from) {
    client.SendBatch(client.session(), Sync(), first_command, 1, from);
    return client.NextVerdict().code();
  };
  EXPECT_EQ(refused(0, -1), StatusCode::kInvalidArgument) << "such batches are the controller's";
  EXPECT_EQ(refused(1, kWorkers), StatusCode::kInvalidArgument);
  EXPECT_EQ(refused(1, -2), StatusCode::kInvalidArgument);
  client.SendBatch(client.session(), Sync(), 1, 1, -1, /*command_count=*/0);
  EXPECT_EQ(client.NextVerdict().code(), StatusCode::kInvalidArgument);
  client.SendBatch(client.session(), Sync(), 1, ~uint64_t{0});
  EXPECT_EQ(client.NextVerdict().code(), StatusCode::kInvalidArgument) << "the controller's own";
  client.SendBatch(client.session(), Sync(), 1, 1, -1, /*command_count=*/1000);
  EXPECT_EQ(client.NextVerdict().code(), StatusCode::kInvalidArgument) << "more than fit in";
  client.Send([&](wire::ClientMessage::Builder message) {
    auto batch = message.initBatch();
    batch.setSession(client.session().value);
    batch.setFirstCommand(1);
  });
  EXPECT_EQ(client.NextVerdict().code(), StatusCode::kInvalidArgument) << "no body";
}

TEST_P(HostileClientTest, GenerationsCannotBeChosen) {
  WireClient client(address());
  ASSERT_EQ(client.Open(), OkStatus());
  for (uint32_t generation : {0u, 2000u, 4294967295u}) {
    client.Send([&](wire::ClientMessage::Builder message) {
      auto reset = message.initResetSession();
      reset.setSession(client.session().value);
      reset.setGeneration(generation);
      reset.setRequest(1);
      reset.setTimeoutMillis(20'000);
    });
    EXPECT_EQ(client.NextVerdict().code(), StatusCode::kInvalidArgument) << generation;
  }
}

// These would free registers under the worker's feet.
TEST_P(HostileClientTest, CommandsOfTheControllerFailTheSession) {
  const auto verdict = [&](auto fill) {
    WireClient client(address());
    EXPECT_EQ(client.Open(), OkStatus());
    control::BatchWriter writer;
    (void)writer.Add(fill);
    (void)writer.Add([](wire::Command::Builder command) {
      command.initRelease().initRegisters(1).set(0, RegisterId{0, 1}.Packed());
    });
    (void)writer.Add([](wire::Command::Builder command) { command.setSync(); });
    client.SendBatch(client.session(), writer.Take(), 1, 1);
    return client.NextVerdict().code();
  };
  EXPECT_EQ(verdict([](auto command) { command.initCloseSession(); }),
            StatusCode::kPermissionDenied);
  EXPECT_EQ(verdict([](auto command) { command.initReset().setGeneration(5); }),
            StatusCode::kPermissionDenied);
  EXPECT_EQ(verdict([](auto command) { command.initOpenSession(); }),
            StatusCode::kPermissionDenied);
}

TEST_P(HostileClientTest, BodiesThatAreCutOffOrJunkFailTheSession) {
  const control::Frame whole = control::OneCommand(
      [](wire::Command::Builder command) { command.initGetFunction().setName("lockstep.nop"); });
  const std::string junk(64, '\xee');
  for (const control::Frame& body :
       {control::Frame::Copy(whole.data(), whole.size() - 1),
        control::Frame::Copy(whole.data(), whole.size() - 8), control::Frame::Copy("x", 1),
        control::Frame::Copy(junk.data(), junk.size())}) {
    WireClient client(address());
    ASSERT_EQ(client.Open(), OkStatus());
    client.SendBatch(client.session(), body);
    EXPECT_EQ(client.NextVerdict().code(), StatusCode::kInvalidArgument) << body.size();
  }
}

TEST_P(HostileClientTest, ImpossibleNumbersInCommandsFailTheSession) {
  const auto verdict = [&](auto fill) {
    WireClient client(address());
    EXPECT_EQ(client.Open(), OkStatus());
    client.SendBatch(client.session(), control::OneCommand(fill));
    return client.NextVerdict().code();
  };
  const auto collective = [](auto fill) {
    return [fill](wire::Command::Builder command) {
      auto builder = command.initCollective();
      builder.setKind(wire::CollectiveKind::BARRIER);
      fill(builder);
    };
  };
  EXPECT_EQ(verdict(collective([](auto c) { c.setRoot(-7); })), StatusCode::kInvalidArgument);
  EXPECT_EQ(verdict(collective([](auto c) { c.setRoot(1 << 30); })), StatusCode::kInvalidArgument);
  EXPECT_EQ(verdict(collective([](auto c) { c.initTeam(1).set(0, 99); })),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(verdict(collective([](auto c) { c.initTeam(1).set(0, -1); })),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(verdict(collective([](auto c) { c.setKind(static_cast<wire::CollectiveKind>(99)); })),
            StatusCode::kUnimplemented);
  EXPECT_EQ(verdict([](wire::Command::Builder command) {
              auto empty = command.initEmpty();
              empty.initShape(2).set(0, int64_t{1} << 40);
              empty.getShape().set(1, int64_t{1} << 40);
              empty.setResult(RegisterId{1, 1}.Packed());
            }),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(verdict([](wire::Command::Builder command) {
              auto empty = command.initEmpty();
              empty.initShape(1).set(0, 1);
              empty.setResult(RegisterId{0xffffffff, 1}.Packed());
            }),
            StatusCode::kResourceExhausted);
}

TEST_P(HostileClientTest, FlippedBitsCostNobodyElseAnything) {
  std::mt19937 random(11);
  control::BatchWriter writer;
  for (uint32_t i = 0; i < 4; ++i) {
    (void)writer.Add([&](wire::Command::Builder command) {
      auto empty = command.initEmpty();
      empty.initShape(1).set(0, 3);
      empty.setResult(RegisterId{i, 1}.Packed());
    });
    (void)writer.Add([&](wire::Command::Builder command) {
      auto get = command.initGetFunction();
      get.setName("lockstep.identity");
      get.setResult(RegisterId{10 + i, 1}.Packed());
    });
    (void)writer.Add([&](wire::Command::Builder command) {
      auto call = command.initCall();
      call.setFunction(RegisterId{10 + i, 1}.Packed());
      call.setResult(RegisterId{20 + i, 1}.Packed());
      auto args = call.initArgs(2);
      args[0].setRegister(RegisterId{i, 1}.Packed());
      control::WriteValue(args[1], Value(Value::List{"text", 1, Shape{2}}));
    });
  }
  const control::Frame whole = writer.Take();
  for (int round = 0; round < 60; ++round) {
    WireClient client(address());
    ASSERT_EQ(client.Open(), OkStatus());
    std::vector<uint64_t> words(whole.size() / 8);
    std::memcpy(words.data(), whole.data(), whole.size());
    for (unsigned flips = 1 + random() % 4; flips > 0; --flips) {
      words[random() % words.size()] ^= uint64_t{1} << (random() % 64);
    }
    // As many commands as may be in so many bytes: damaged ones may be more than there were.
    const auto most = static_cast<uint32_t>(whole.size() / control::kMinCommandBytes);
    client.SendBatch(client.session(), control::Frame::Copy(words.data(), whole.size()), 1, 0, -1,
                     most);
    client.SendBatch(client.session(), Sync(), most + 1, 1);
    EXPECT_NE(client.NextVerdict().code(), StatusCode::kDeadlineExceeded);
    client.Send([&](wire::ClientMessage::Builder message) {
      message.initCloseSession().setSession(client.session().value);
    });
  }
}

}  // namespace
}  // namespace lockstep::testing
