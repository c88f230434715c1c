// What a collective command checks before it comes to a communicator; the rest is in
// //tests/integration.
#include "services/worker/execute/collective_command.h"

#include <capnp/message.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "runtime/tensor/storage.h"
#include "tests/unit/services/worker/cuda_tensor.h"
#include "tests/unit/services/worker/fake_communicator.h"

namespace lockstep::worker {
namespace {

using testing::HasSubstr;

// Rank 1 of a world of four, in two groups.
class CollectiveCommandTest : public testing::Test {
 protected:
  static constexpr RegisterId kSource{1, 1};
  static constexpr RegisterId kDestination{2, 1};

  // Executes the command that `fill` has finished, an allreduce from kSource to kDestination.
  template <typename Fill>
  Status Run(Fill fill) {
    capnp::MallocMessageBuilder message;
    auto collective = message.initRoot<wire::Command>().initCollective();
    collective.setKind(wire::CollectiveKind::ALL_REDUCE);
    collective.setSource(kSource.Packed());
    collective.setDestination(kDestination.Packed());
    collective.setMakeDestination(true);
    fill(collective);
    const WorldLinks world{&world_};
    const tensor::Processors places{host_.get()};
    const CollectiveContext context{world_rank_,
                                    4,
                                    world,
                                    places,
                                    session_,
                                    activity_,
                                    Deadline::After(std::chrono::seconds(20))};
    return ExecuteCollective(context, collective.asReader());
  }
  Status RunTeam(const std::vector<Rank>& team) {
    return Run([&](wire::Command::Collective::Builder collective) {
      auto ranks = collective.initTeam(static_cast<unsigned>(team.size()));
      for (unsigned i = 0; i < ranks.size(); ++i) ranks.set(i, team[i]);
    });
  }
  void Write(RegisterId id, registers::Value value) {
    ASSERT_TRUE(registers_.Write(id, std::move(value)).ok());
  }
  tensor::Tensor HostTensor(const Shape& shape) {
    return *tensor::Tensor::Empty(*allocator_, DType::kFloat32, shape);
  }

  static control::SessionRecord InTwoGroups() {
    control::SessionRecord record;
    record.id = SessionId(7);
    record.num_groups = 2;
    return record;
  }

  Rank world_rank_ = 1;
  std::shared_ptr<tensor::Allocator> allocator_ = tensor::NewHeapAllocator();
  const std::unique_ptr<tensor::Processor> host_ = tensor::NewHostProcessor(*allocator_);
  registers::RegisterTotals totals_;
  registers::RegisterFile registers_{&totals_};
  FakeCommunicator::Log log_;
  FakeCommunicator world_{log_};
  SessionState session_{InTwoGroups(), &registers_};
  control::ActivityPage activity_;
};

TEST_F(CollectiveCommandTest, TensorsOutsideOfHostMemoryAreRefused) {
  const auto as_it_is = [](wire::Command::Collective::Builder) {};
  Write(kSource, CudaTensor());
  const Status source = Run(as_it_is);
  EXPECT_EQ(source.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(source), HasSubstr("the source is on cuda:3"));
  Write(kSource, HostTensor({4}));
  EXPECT_TRUE(Run(as_it_is).ok());
  Write(kDestination, CudaTensor());
  const Status destination = Run([](auto collective) { collective.setMakeDestination(false); });
  EXPECT_EQ(destination.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(destination), HasSubstr("the destination is on cuda:3"));
}

TEST_F(CollectiveCommandTest, BadTeamsAreRefused) {
  Write(kSource, HostTensor({4}));
  EXPECT_THAT(Message(RunTeam({1, 4})), HasSubstr("rank 4, which does not exist"));
  EXPECT_THAT(Message(RunTeam({-1, 1})), HasSubstr("rank -1, which does not exist"));
  EXPECT_THAT(Message(RunTeam({1, 2, 1})), HasSubstr("rank 1, which it names twice"));
  EXPECT_TRUE(log_.tags.empty());
}

// A rank that did not note the others' teams would keep other communicators than they.
TEST_F(CollectiveCommandTest, TeamsOfOthersCountAndCostNothing) {
  Write(kSource, HostTensor({4}));
  EXPECT_TRUE(RunTeam({1, 2}).ok());
  EXPECT_TRUE(RunTeam({0, 2, 3}).ok());
  EXPECT_TRUE(RunTeam({3, 1}).ok());
  ASSERT_EQ(log_.tags.size(), 2u);
  EXPECT_EQ(log_.tags[1] - log_.tags[0], 2u);
}

TEST_F(CollectiveCommandTest, RootIsOneOfTheTeam) {
  Write(kSource, HostTensor({4}));
  const Status status = Run([](auto collective) {
    collective.setInGroup(true);
    collective.setRoot(2);
  });
  EXPECT_THAT(Message(status), HasSubstr("root 2 is not among the 2 ranks"));
}

// "rank 3 did not come to receive a message in time" said neither who sends, nor what is missing.
TEST_F(CollectiveCommandTest, AMessageWithoutItsOtherHalfNamesThePair) {
  Write(kSource, HostTensor({4}));
  log_.size = 4;
  log_.rank = 1;
  log_.outcome = DeadlineExceeded("rank 3 did not come to receive a message in time");
  const auto half = [&](wire::CollectiveKind kind) {
    return Run([&](auto collective) { collective.setKind(kind); });
  };
  const Status sent = half(wire::CollectiveKind::SEND_TO_NEXT_GROUP);
  EXPECT_EQ(sent.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Message(sent),
            "rank 1 sends to rank 3, which has not come to its receive: rank 3 did not come to "
            "receive a message in time");
  world_rank_ = log_.rank = 2;
  log_.outcome = DeadlineExceeded("rank 0 did not come to send a message in time");
  EXPECT_THAT(Message(half(wire::CollectiveKind::RECEIVE_FROM_PREVIOUS_GROUP)),
              HasSubstr("rank 2 receives from rank 0, which has not come to its send: rank 0"));
}

}  // namespace
}  // namespace lockstep::worker
