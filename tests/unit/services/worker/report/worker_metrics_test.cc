#include "services/worker/report/worker_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "runtime/base/random.h"
#include "runtime/base/shared_segment.h"
#include "runtime/control/zmq/zmq_channel.h"

namespace lockstep::worker {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

class WorkerMetricsTest : public testing::Test {
 protected:
  void SetUp() override {
    auto arena = tensor::Arena::Create(
        {.name = std::string(SharedSegment::kNamePrefix) + "metrics-" + RandomHex(8),
         .capacity_bytes = size_t{64} << 20});
    ASSERT_TRUE(arena.ok()) << arena.status();
    arena_ = *std::move(arena);
    auto channel = control::ZmqListen(context_, "inproc://metrics-" + RandomHex(4));
    ASSERT_TRUE(channel.ok()) << channel.status();
    bulk_ = std::make_unique<BulkServer>(*std::move(channel));
    metrics_ = std::make_unique<WorkerMetrics>(*arena_, activity_, *bulk_);
  }

  std::shared_ptr<control::ZmqContext> context_ = control::ZmqContext::Create();
  std::shared_ptr<tensor::Arena> arena_;
  control::ActivityPage activity_;
  std::unique_ptr<BulkServer> bulk_;
  std::unique_ptr<WorkerMetrics> metrics_;
};

TEST_F(WorkerMetricsTest, ReadinessFollowsTheWorld) {
  EXPECT_EQ(metrics_->Ready().code(), StatusCode::kUnavailable);
  metrics_->Enter(3, Epoch(17));
  EXPECT_THAT(Message(metrics_->Ready()), HasSubstr("connects with the other ranks"));
  EXPECT_THAT(metrics_->Text(),
              AllOf(HasSubstr("lockstep_worker_rank 3\n"), HasSubstr("lockstep_epoch 17\n"),
                    HasSubstr("lockstep_worker_ready 0\n")));
  metrics_->SetReady(OkStatus());
  EXPECT_EQ(metrics_->Ready(), OkStatus());
  EXPECT_THAT(metrics_->Text(), HasSubstr("lockstep_worker_ready 1\n"));
}

TEST_F(WorkerMetricsTest, WhoWorksForAnHourIsHealthy) {
  EXPECT_EQ(metrics_->Healthy(), OkStatus()) << "it has yet to find a controller";
  activity_.Launch(SessionId(1), 1);
  metrics_->liveness_health().NoteRound(Deadline::Clock::now(), 500ms);
  EXPECT_EQ(metrics_->Healthy(), OkStatus());
}

TEST_F(WorkerMetricsTest, WhoseLivenessThreadIsSilentIsNot) {
  metrics_->liveness_health().NoteRound(Deadline::Clock::now() - 1min, 500ms);
  EXPECT_EQ(metrics_->Healthy().code(), StatusCode::kUnavailable);
  metrics_->liveness_health().NoteRound(Deadline::Clock::now() - 1min, 1min);
  EXPECT_EQ(metrics_->Healthy(), OkStatus()) << "its heartbeats are that far apart";
}

TEST_F(WorkerMetricsTest, WhoHasEndedIsNeitherHealthyNorReady) {
  metrics_->SetReady(OkStatus());
  metrics_->NoteEnd(Aborted("the disk is on fire"));
  EXPECT_THAT(Message(metrics_->Healthy()), HasSubstr("the disk is on fire"));
  EXPECT_EQ(metrics_->Ready().code(), StatusCode::kUnavailable);
}

TEST_F(WorkerMetricsTest, TheFirstControllerIsNoReconnect) {
  EXPECT_EQ(metrics_->Started().code(), StatusCode::kUnavailable);
  metrics_->NoteJoined();
  EXPECT_EQ(metrics_->Started(), OkStatus());
  EXPECT_THAT(metrics_->Text(), HasSubstr("lockstep_reconnects_total 0\n"));
  metrics_->NoteJoined();
  EXPECT_THAT(metrics_->Text(), HasSubstr("lockstep_reconnects_total 1\n"));
}

TEST_F(WorkerMetricsTest, TheArenaIsTold) {
  const auto storage = arena_->Allocate(1 << 20);
  ASSERT_TRUE(storage.ok());
  EXPECT_THAT(metrics_->Text(), AllOf(HasSubstr("lockstep_arena_live_bytes 1048576\n"),
                                      HasSubstr("lockstep_arena_blocks 1\n"),
                                      HasSubstr("lockstep_arena_allocations_total 1\n")));
}

}  // namespace
}  // namespace lockstep::worker
