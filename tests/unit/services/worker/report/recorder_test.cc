#include "services/worker/report/recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace lockstep::worker {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

class RecorderTest : public testing::Test {
 protected:
  void Batch(wire::Command::Which which, int commands, const BatchTimes& times = {}) {
    recorder_.BeginBatch(times, Recorder::Clock::now());
    for (int i = 0; i < commands; ++i) {
      recorder_.Begin(which);
      recorder_.End();
    }
  }
  std::string Text() const {
    metrics::Families families;
    recorder_.Tell(families);
    return families.Text();
  }
  static std::string Count(const std::string& kind, const std::string& stage, int count) {
    return "lockstep_command_stage_seconds_count{kind=\"" + kind + "\",stage=\"" + stage + "\"} " +
           std::to_string(count) + "\n";
  }

  Recorder recorder_;
};

TEST_F(RecorderTest, AllCallsAreCountedAndSomeAreTimed) {
  constexpr int kCalls = 1000;
  Batch(wire::Command::CALL, kCalls);
  EXPECT_THAT(Text(), HasSubstr("lockstep_commands_total{kind=\"call\"} 1000\n"));
  // Of the first, too, the number is a multiple of kTimedEvery.
  const int timed = Recorder::kTimedFirst + (kCalls - 1) / Recorder::kTimedEvery;
  EXPECT_THAT(Text(), HasSubstr(Count("call", "executing", timed)));
  EXPECT_THAT(Text(), HasSubstr(Count("call", "waiting", timed)));
}

TEST_F(RecorderTest, AllThatIsRareIsTimed) {
  Batch(wire::Command::FETCH, 100);
  EXPECT_THAT(Text(), HasSubstr(Count("fetch", "executing", 100)));
}

TEST_F(RecorderTest, CachesAreToldFromTheStart) {
  EXPECT_THAT(Text(), HasSubstr("lockstep_plan_cache_hits_total{cache=\"programs\"} 0\n"));
  recorder_.SetPlanCache(PlanCacheCounts::Cache::kReshards,
                         {.hits = 5, .misses = 4, .evictions = 3, .entries = 2, .bytes = 1000});
  const std::string text = Text();
  for (const char* sample :
       {"hits_total{cache=\"reshards\"} 5\n", "misses_total{cache=\"reshards\"} 4\n",
        "evictions_total{cache=\"reshards\"} 3\n", "entries{cache=\"reshards\"} 2\n",
        "bytes{cache=\"reshards\"} 1000\n", "hits_total{cache=\"programs\"} 0\n"}) {
    EXPECT_THAT(text, HasSubstr(std::string("lockstep_plan_cache_") + sample));
  }
}

TEST_F(RecorderTest, TheWayOfABatchCountsForItsFirstCommand) {
  Batch(wire::Command::CALL, 10, {.in_client = 3ms, .in_controller = 5us, .in_transit = 70us});
  EXPECT_THAT(Text(), HasSubstr(Count("call", "batching", 1)));
  EXPECT_THAT(Text(), HasSubstr("lockstep_command_stage_seconds_sum{kind=\"call\","
                                "stage=\"batching\"} 0.003\n"));
  EXPECT_THAT(Text(), HasSubstr(Count("call", "ordering", 1)));
  EXPECT_THAT(Text(), HasSubstr(Count("call", "transit", 1)));
}

TEST_F(RecorderTest, ATransitThatIsNotKnownIsNotTold) {
  Batch(wire::Command::CALL, 1);
  EXPECT_THAT(Text(), Not(HasSubstr("transit")));
}

TEST_F(RecorderTest, ACommandThatIsNotKnownCountsAsOther) {
  Batch(static_cast<wire::Command::Which>(1000), 1);
  EXPECT_THAT(Text(), HasSubstr("lockstep_commands_total{kind=\"other\"} 1\n"));
}

TEST_F(RecorderTest, ErrorsAreCountedByCode) {
  recorder_.AddError(SessionId(1), 2, StatusCode::kNotFound);
  recorder_.AddError(SessionId(1), 3, static_cast<StatusCode>(77));
  EXPECT_THAT(Text(), HasSubstr("lockstep_worker_errors_total{code=\"NOT_FOUND\"} 1\n"));
  EXPECT_THAT(Text(), HasSubstr("lockstep_worker_errors_total{code=\"UNKNOWN\"} 1\n"));
  EXPECT_THAT(Text(), HasSubstr("lockstep_worker_errors_total{code=\"INTERNAL\"} 0\n"));
}

TEST_F(RecorderTest, OnlyCollectivesThatAllLeaveTogetherTellWhoCameWhen) {
  const CollectiveFacts facts{.backend = "shm", .ranks = 4, .first = 2, .bytes = 100};
  const auto add = [&](uint64_t command, wire::CollectiveKind kind, const CollectiveFacts& what) {
    recorder_.BeginBatch({}, Recorder::Clock::now());
    recorder_.Begin(wire::Command::COLLECTIVE);
    recorder_.AddCollective(SessionId(7), Generation(1), command, kind, what);
    recorder_.End();
  };
  add(1, wire::CollectiveKind::ALL_REDUCE, facts);
  add(2, wire::CollectiveKind::BROADCAST, facts);
  CollectiveFacts alone = facts;
  alone.ranks = 1;
  add(3, wire::CollectiveKind::ALL_REDUCE, alone);
  add(4, wire::CollectiveKind::BARRIER, CollectiveFacts());
  const std::vector<CollectiveTime> times = recorder_.arrivals().Take();
  ASSERT_EQ(times.size(), 1u);
  EXPECT_EQ(times[0].session, SessionId(7));
  EXPECT_EQ(times[0].command, 1u);
  EXPECT_EQ(times[0].ranks, 4);
  EXPECT_EQ(times[0].first, 2);
}

TEST(CollectiveCountsTest, BusFactorsAreThoseOfNcclTests) {
  using wire::CollectiveKind;
  EXPECT_DOUBLE_EQ(CollectiveCounts::BusFactor(CollectiveKind::ALL_REDUCE, 4), 1.5);
  for (const auto kind :
       {CollectiveKind::ALL_GATHER, CollectiveKind::REDUCE_SCATTER, CollectiveKind::ALL_TO_ALL,
        CollectiveKind::GATHER, CollectiveKind::SCATTER}) {
    EXPECT_DOUBLE_EQ(CollectiveCounts::BusFactor(kind, 4), 0.75);
  }
  for (const auto kind :
       {CollectiveKind::BROADCAST, CollectiveKind::REDUCE, CollectiveKind::TRANSFER}) {
    EXPECT_DOUBLE_EQ(CollectiveCounts::BusFactor(kind, 4), 1);
  }
  EXPECT_DOUBLE_EQ(CollectiveCounts::BusFactor(CollectiveKind::ALL_REDUCE, 1), 0);
}

TEST(CollectiveCountsTest, OperationsAreToldApartByBackend) {
  CollectiveCounts counts;
  counts.Add(wire::CollectiveKind::ALL_REDUCE, {"shm", 2, 0, 1000}, 1us);
  counts.Add(wire::CollectiveKind::ALL_REDUCE, {"shm+gloo", 2, 0, 500}, 2us);
  counts.Add(wire::CollectiveKind::ALL_REDUCE, {"carrier pigeon", 2, 0, 1}, 1h);
  metrics::Families families;
  TellTransfers(counts.List(), families);
  const std::string text = families.Text();
  EXPECT_THAT(text, HasSubstr("lockstep_transfer_bytes_total{operation=\"allreduce\","
                              "backend=\"shm\"} 1000\n"));
  EXPECT_THAT(text, HasSubstr("lockstep_transfer_bytes_total{operation=\"allreduce\","
                              "backend=\"shm+gloo\"} 500\n"));
  EXPECT_THAT(text, HasSubstr("lockstep_transfers_total{operation=\"allreduce\","
                              "backend=\"other\"} 1\n"));
  // 1000 bytes, of which each rank's bus carries 2 (n - 1) / n, in a microsecond.
  EXPECT_THAT(text, HasSubstr("lockstep_transfer_bus_bandwidth_bytes_per_second{"
                              "operation=\"allreduce\",backend=\"shm\"} 1000000000\n"));
  EXPECT_THAT(text, Not(HasSubstr("broadcast"))) << "nothing was broadcast";
}

}  // namespace
}  // namespace lockstep::worker
