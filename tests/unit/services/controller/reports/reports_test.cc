// What clients are told of the cluster: status, why, registers, timelines.
#include <gmock/gmock.h>

#include <string>
#include <utility>

#include "runtime/control/message_codec.h"
#include "runtime/control/value_codec.h"
#include "schemas/membership.capnp.h"
#include "services/controller/reports/register_report.h"
#include "services/controller/reports/status_report.h"
#include "services/controller/reports/trace_service.h"
#include "tests/unit/services/controller/parts_fixture.h"

namespace lockstep::controller {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class ReportsTest : public PartsFixture {
 protected:
  void SetUp() override {
    StartReady();
    id_ = Open("c");
  }
  // A worker answers the last probe.
  void Report(Rank rank) {
    dispatcher_->HandleReport(
        {liveness_.probes.back(), rank,
         control::EncodeMessage<wire::LivenessMessage>(
             [](wire::LivenessMessage::Builder message) { message.initReport(); })});
  }
  SessionId id_;
};

TEST_F(ReportsTest, StatusIsToldAtOnce) {
  Fail(1, id_, 1, "boom");
  Fail(0, id_, 1, "boom here, too");
  ASSERT_EQ(Batch("c", id_, 1), OkStatus());
  liveness_.heard[1].activity.kind = WorkerActivity::Kind::kCommand;
  liveness_.heard[1].activity.since = 5s;
  clock_.now += 2s;
  Forget();
  ASSERT_EQ(FromClient("reader", [](auto message) { message.setStatus(4); }), OkStatus());
  const control::Message message = parts().outbox.items().back().message;
  ASSERT_EQ(control::DecodeMessage<wire::ControllerMessage>(
                message[0],
                [&](wire::ControllerMessage::Reader reader) {
                  auto status = reader.getClusterStatus();
                  EXPECT_EQ(status.getRequest(), 4u);
                  EXPECT_EQ(status.getSequence(), 2u);
                  EXPECT_EQ(status.getEpoch(), kIncarnation.value);
                  EXPECT_EQ(status.getUptimeMillis(), 2000u);
                  EXPECT_TRUE(status.getWorkers()[1].getStuck());
                  EXPECT_FALSE(status.getWorkers()[0].getStuck());
                  auto session = status.getSessions()[0];
                  EXPECT_EQ(session.getCommands(), 1u);
                  EXPECT_EQ(session.getSentBytes(), 576u);
                  EXPECT_EQ(session.getConsumedBytes(), 0u);
                  EXPECT_EQ(session.getAgeMillis(), 2000u);
                  EXPECT_EQ(control::ReadError(session.getError()).message,
                            "boom; rank 0 failed at this command as well");
                  return OkStatus();
                }),
            OkStatus());
}

TEST_F(ReportsTest, StatusTellsSinceWhenTheWorkOfASessionThatEndsIsAborted) {
  Close("c", id_, 9, 3000);
  const auto aborted = [&] {
    Forget();
    EXPECT_EQ(FromClient("reader", [](auto message) { message.setStatus(4); }), OkStatus());
    int64_t millis = 0;
    EXPECT_EQ(control::DecodeMessage<wire::ControllerMessage>(
                  parts().outbox.items().back().message[0],
                  [&](wire::ControllerMessage::Reader reader) {
                    millis = reader.getClusterStatus().getSessions()[0].getAbortedMillis();
                    return OkStatus();
                  }),
              OkStatus());
    return millis;
  };
  EXPECT_EQ(aborted(), -1) << "it may finish its work";
  Pass(3s);
  clock_.now += 2s;
  EXPECT_EQ(aborted(), 2000);
}

TEST_F(ReportsTest, StatusTellsToWhomCommandsGoByRing) {
  rings_.by_ring = {"w1"};
  Forget();
  ASSERT_EQ(FromClient("reader", [](auto message) { message.setStatus(4); }), OkStatus());
  ASSERT_EQ(control::DecodeMessage<wire::ControllerMessage>(
                parts().outbox.items().back().message[0],
                [&](wire::ControllerMessage::Reader reader) {
                  auto workers = reader.getClusterStatus().getWorkers();
                  EXPECT_FALSE(workers[0].getByRing());
                  EXPECT_TRUE(workers[1].getByRing());
                  return OkStatus();
                }),
            OkStatus());
}

// A rank showed why its former worker was lost although another waited in its place.
TEST_F(ReportsTest, OnlyALostWorkerHasAReason) {
  Lose(0, "killed");
  Lose(1, "killed");
  Hello("w2", 1);
  Forget();
  ASSERT_EQ(FromClient("reader", [](auto message) { message.setStatus(4); }), OkStatus());
  ASSERT_EQ(control::DecodeMessage<wire::ControllerMessage>(
                parts().outbox.items().back().message[0],
                [&](wire::ControllerMessage::Reader reader) {
                  auto status = reader.getClusterStatus();
                  EXPECT_EQ(control::ToString(status.getReplacementHint()),
                            options_.replacement_hint);
                  EXPECT_EQ(control::ToString(status.getWorkers()[0].getReason()), "killed");
                  EXPECT_EQ(control::ToString(status.getWorkers()[1].getReason()), "");
                  return OkStatus();
                }),
            OkStatus());
}

TEST_F(ReportsTest, WhyIsToldWhenAllWorkersHaveReported) {
  ASSERT_EQ(FromClient("reader", [](auto message) { message.setExplain(4); }), OkStatus());
  EXPECT_EQ(liveness_.probes.size(), 1u);
  Report(0);
  EXPECT_THAT(ToClient("reader"), IsEmpty());
  Report(1);
  EXPECT_THAT(ToClient("reader"), ElementsAre("status"));
}

TEST_F(ReportsTest, WhyIsToldAfterASecondWithoutTheWorkersThatAreSilent) {
  ASSERT_EQ(FromClient("reader", [](auto message) { message.setExplain(4); }), OkStatus());
  Report(0);
  Pass(1100ms);
  EXPECT_THAT(ToClient("reader"), ElementsAre("status"));
}

TEST_F(ReportsTest, OneClientAsksTheWorkersOneThingAtATime) {
  ASSERT_EQ(FromClient("reader", [](auto message) { message.setExplain(4); }), OkStatus());
  EXPECT_EQ(FromClient("reader", [](auto message) { message.setExplain(5); }).code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(FromClient("another", [](auto message) { message.setExplain(5); }), OkStatus());
}

TEST_F(ReportsTest, RegistersAreListedWithWhyARankIsMissing) {
  Lose(1, "killed");
  Forget();
  ASSERT_EQ(FromClient("reader", [](auto message) { message.initListRegisters().setMost(10); }),
            OkStatus());
  dispatcher_->HandleReport(
      {liveness_.probes.back(), 0,
       control::EncodeMessage<wire::LivenessMessage>(
           [](wire::LivenessMessage::Builder message) { message.initHeldRegisters(); })});
  EXPECT_THAT(ToClient("reader"), ElementsAre("registers rank 0 held rank 1: it is lost: killed"));
}

TEST_F(ReportsTest, RegistersOfOneRankAreAskedOfThatAlone) {
  ASSERT_EQ(FromClient("reader", [](auto message) { message.initListRegisters().setRank(1); }),
            OkStatus());
  EXPECT_THAT(liveness_.asked, ElementsAre(1));
  Pass(1100ms);
  EXPECT_THAT(ToClient("reader"),
              ElementsAre("registers rank 1: it has not answered within 1000 ms"));
}

TEST_F(ReportsTest, RegistersOfNoRankAndNoSessionAreRefused) {
  EXPECT_EQ(FromClient("r", [](auto message) { message.initListRegisters().setRank(2); }).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(
      FromClient("r", [](auto message) { message.initListRegisters().setSession(99); }).code(),
      StatusCode::kNotFound);
}

TEST_F(ReportsTest, TraceIsRecordedByAllAndFetchedFromOneRank) {
  const auto trace = [&](auto&& fill) {
    return FromClient("t", [&](wire::ClientMessage::Builder message) {
      fill(message.initTrace());
      message.getTrace().setTrace(parts().tracing.trace());
    });
  };
  ASSERT_EQ(trace([](auto request) { request.setStart(100); }), OkStatus());
  EXPECT_THAT(ToClient("t"), ElementsAre("trace OK"));
  ASSERT_EQ(liveness_.told.size(), 1u);
  EXPECT_FALSE(liveness_.told[0].second.has_value()) << "to all";
  ASSERT_EQ(trace([](auto request) { request.setStop(); }), OkStatus());
  ASSERT_EQ(trace([](auto request) { request.initFetch().setRank(1); }), OkStatus());
  EXPECT_EQ(liveness_.told.back().second, std::optional<Rank>(1));
  Forget();
  dispatcher_->HandleFetched({1, parts().tracing.trace(), 3, "", control::Frame::Copy("x", 1)});
  dispatcher_->HandleFetched({1, parts().tracing.trace() + 1, 3, "", {}});
  EXPECT_THAT(ToClient("t"), ElementsAre("trace OK with a body"));
  ASSERT_EQ(trace([](auto request) { request.initFetch().setRank(7); }), OkStatus());
  EXPECT_THAT(ToClient("t"), ElementsAre(StartsWith("trace INVALID_ARGUMENT")));
}

TEST_F(ReportsTest, TraceOfASilentClientIsGivenUp) {
  ASSERT_EQ(FromClient("t", [](auto message) { message.initTrace().setStart(100); }), OkStatus());
  Pass(9s);
  EXPECT_NE(parts().tracing.trace(), 0u);
  const uint64_t trace = parts().tracing.trace();
  liveness_.told.clear();
  Pass(2s);
  EXPECT_EQ(parts().tracing.trace(), 0u);
  // Else the workers would go on recording, and keep what they have.
  ASSERT_EQ(liveness_.told.size(), 1u);
  EXPECT_FALSE(liveness_.told[0].second.has_value()) << "to all";
  EXPECT_EQ(control::DecodeMessage<wire::LivenessMessage>(
                liveness_.told[0].first,
                [&](wire::LivenessMessage::Reader message) {
                  EXPECT_TRUE(message.isTrace());
                  EXPECT_EQ(message.getTrace().getTrace(), trace);
                  EXPECT_TRUE(message.getTrace().isEnd());
                  return OkStatus();
                }),
            OkStatus());
}

}  // namespace
}  // namespace lockstep::controller
