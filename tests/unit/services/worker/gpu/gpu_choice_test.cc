#include "services/worker/gpu/gpu_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const GpuOffer kNone = {"a", {}};

TEST(GpuChoiceTest, WorkersOfAHostTakeDifferentOnes) {
  const GpuOffer two = {"a", {"0", "1"}};
  EXPECT_THAT(*ChooseGpus({two, two}), ElementsAre(0, 1));
}

TEST(GpuChoiceTest, HostsCountEachForItself) {
  const GpuOffer a = {"a", {"0", "1"}};
  const GpuOffer b = {"b", {"0", "1"}};
  EXPECT_THAT(*ChooseGpus({a, b, a, b}), ElementsAre(0, 0, 1, 1));
}

TEST(GpuChoiceTest, RanksWithoutOneTakeNone) {
  EXPECT_THAT(*ChooseGpus({kNone, {"a", {"0"}}, kNone}), ElementsAre(-1, 0, -1));
}

// Containers of one host see different ones, or see them in another order.
TEST(GpuChoiceTest, ContainersSeeWhatTheySee) {
  EXPECT_THAT(*ChooseGpus({{"a", {"3"}}, {"a", {"5"}}, {"a", {"3", "5", "7"}}}),
              ElementsAre(0, 0, 2));
}

TEST(GpuChoiceTest, WhoCanUseAnotherMakesRoomForWhoCannot) {
  const GpuOffer any = {"a", {"0", "1", "2"}};
  EXPECT_THAT(*ChooseGpus({any, {"a", {"0"}}}), ElementsAre(1, 0));
  EXPECT_THAT(*ChooseGpus({any, any, {"a", {"1"}}, {"b", {"1"}}}), ElementsAre(0, 2, 0, 0));
  EXPECT_THAT(*ChooseGpus({{"a", {"0", "1"}}, {"a", {"1", "2"}}, {"a", {"0"}}, {"a", {"3", "1"}}}),
              ElementsAre(1, 1, 0, 0));
  EXPECT_EQ(ChooseGpus({any, {"a", {"0"}}, {"a", {"0"}}}).status().code(),
            StatusCode::kFailedPrecondition);
}

TEST(GpuChoiceTest, TooManyWorkersForAHostAreRefused) {
  const GpuOffer one = {"a", {"0"}};
  const Status status = ChooseGpus({one, kNone, one}).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(status), HasSubstr("rank 2 finds no GPU of its own"));
}

}  // namespace
}  // namespace lockstep::worker
