#include "runtime/plan/layout_codec.h"

#include <capnp/message.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace lockstep::plan {
namespace {

using ::testing::HasSubstr;

Layout SomeLayout() {
  return *Layout::Make(
      {5, 0, 3}, DType::kBFloat16, *Mesh::Make({{"x", 2}, {"y", 1}, {"z", 2}}, {3, 0, 2, 1}),
      {Placement::Shard(2), Placement::Replicate(), Placement::Partial(Reduction::kMax)});
}
Layout WithGivenExtents() {
  return *SomeLayout().With(
      {Placement::Shard(0, {5, 0}), Placement::Shard(1), Placement::Shard(2, {1, 2})});
}

// What comes back of `written` once `change` has changed it on the wire.
template <typename Change>
StatusOr<Layout> ReadAfter(Change change, int world_size = 4,
                           const Layout& written = SomeLayout()) {
  capnp::MallocMessageBuilder message;
  auto layout = message.initRoot<wire::Layout>();
  WriteLayout(layout, written);
  change(layout);
  return ReadLayout(layout.asReader(), world_size);
}

TEST(LayoutCodecTest, WhatIsWrittenIsRead) {
  const auto as_it_is = [](wire::Layout::Builder) {};
  EXPECT_EQ(*ReadAfter(as_it_is), SomeLayout());
  EXPECT_EQ(*ReadAfter(as_it_is, 4, WithGivenExtents()), WithGivenExtents());
}

TEST(LayoutCodecTest, GivenExtentsThatCannotBeAreRefused) {
  using Builder = wire::Layout::Builder;
  const auto message = [](auto change) {
    const Status status =
        ReadAfter([&](Builder layout) { change(layout.getPlacements()[2].getShardByExtents()); }, 4,
                  WithGivenExtents())
            .status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
    return Message(status);
  };
  using Shard = wire::Placement::ShardByExtents::Builder;
  EXPECT_THAT(message([](Shard s) { s.setDim(3); }), HasSubstr("shards dimension 3"));
  EXPECT_THAT(message([](Shard s) { s.setDim(1u << 31); }), HasSubstr("dimension 2147483648"));
  EXPECT_THAT(message([](Shard s) { s.setDim(0); }), HasSubstr("only do alone"));
  EXPECT_THAT(message([](Shard s) { s.initExtents(0); }), HasSubstr("and 0 extents"));
  EXPECT_THAT(message([](Shard s) { s.initExtents(3).set(0, 3); }), HasSubstr("and 3 extents"));
  EXPECT_THAT(message([](Shard s) { s.initExtents(Mesh::kMaxRanks + 1); }),
              HasSubstr("gives 65537 extents"));
  EXPECT_THAT(message([](Shard s) { s.getExtents().set(1, 1); }), HasSubstr("add up to 2, and"));
  EXPECT_THAT(message([](Shard s) { s.getExtents().set(0, -1); }), HasSubstr("the extent -1"));
  EXPECT_THAT(message([](Shard s) {
                s.getExtents().set(0, std::numeric_limits<int64_t>::max());
                s.getExtents().set(1, std::numeric_limits<int64_t>::max());
              }),
              HasSubstr("add up to more than 3"));
  EXPECT_THAT(message([](Shard s) { s.getExtents().set(0, std::numeric_limits<int64_t>::min()); }),
              HasSubstr("the extent -9223372036854775808"));
}

TEST(LayoutCodecTest, WhatIsNoLayoutIsRefused) {
  const auto message = [](auto change, int world_size = 4) {
    const Status status = ReadAfter(change, world_size).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
    return Message(status);
  };
  using Builder = wire::Layout::Builder;
  EXPECT_THAT(message([](Builder) {}, 3), HasSubstr("the mesh names rank 3, and the cluster has"));
  EXPECT_THAT(message([](Builder b) { b.getMesh().getRanks().set(1, -1); }),
              HasSubstr("the mesh names rank -1"));
  EXPECT_THAT(message([](Builder b) { b.getMesh().getRanks().set(1, 3); }), HasSubstr("twice"));
  EXPECT_THAT(message([](Builder b) { b.getMesh().getAxes()[0].setSize(0xffffffff); }),
              HasSubstr("the size 4294967295"));
  EXPECT_THAT(message([](Builder b) { b.getMesh().initAxes(0); }), HasSubstr("1 to 8 axes"));
  EXPECT_THAT(message([](Builder b) { b.getPlacements()[0].setShard(1u << 31); }),
              HasSubstr("shards dimension 2147483648"));
  EXPECT_THAT(message([](Builder b) { b.getPlacements()[2].setPartial(200); }),
              HasSubstr("unknown reduction 200"));
  EXPECT_THAT(message([](Builder b) { b.initPlacements(2); }), HasSubstr("2 placements"));
  EXPECT_THAT(message([](Builder b) { b.setDtype(static_cast<wire::DType>(99)); }),
              HasSubstr("99"));
  EXPECT_THAT(message([](Builder b) { b.getShape().set(0, -5); }), HasSubstr("[-5, 0, 3]"));
  EXPECT_THAT(message([](Builder b) { b.initShape(33); }), HasSubstr("at most 32 dimensions"));
}

}  // namespace
}  // namespace lockstep::plan
