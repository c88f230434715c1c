#include "services/worker/execute/program_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/plan/program.h"

namespace lockstep::worker {
namespace {

using testing::HasSubstr;

// Rank 1 of a world of four.
class ProgramCacheTest : public testing::Test {
 protected:
  ProgramCacheTest() { cache_.SetWorld({1, 4, plan::Topology({0, 0, 0, 0})}); }

  // Rows of so many columns become columns.
  static plan::EncodedProgram Columns(int64_t columns, int reshards = 1) {
    const auto on = [&](plan::Placement placement) {
      return *plan::Layout::Make({4, columns}, DType::kFloat32, *plan::Mesh::Line({0, 1, 2, 3}),
                                 {placement});
    };
    plan::ProgramBuilder builder;
    plan::ValueId x = builder.Input("x", on(plan::Placement::Shard(0)));
    for (int i = 0; i < reshards; ++i) {
      const plan::ValueId y = builder.Reshard(x, on(plan::Placement::Shard(i % 2 == 0 ? 1 : 0)));
      builder.Output("y" + std::to_string(i), y);
      x = y;
    }
    return plan::Encode(*builder.Build());
  }
  std::shared_ptr<const PreparedProgram> Prepare(const plan::EncodedProgram& program) {
    auto prepared = cache_.Prepare(program);
    EXPECT_TRUE(prepared.ok()) << prepared.status();
    return prepared.ok() ? *std::move(prepared) : nullptr;
  }

  ProgramCache cache_;
};

TEST_F(ProgramCacheTest, AProgramIsPreparedOnce) {
  const auto first = Prepare(Columns(8));
  EXPECT_EQ(Prepare(Columns(8)), first);
  EXPECT_NE(Prepare(Columns(12)), first);
  EXPECT_EQ(cache_.use().hits, 1u);
  EXPECT_EQ(cache_.use().misses, 2u);
  EXPECT_EQ(cache_.use().entries, 2u);
  EXPECT_GT(cache_.use().bytes, Columns(8).size_bytes() + Columns(12).size_bytes());
}

TEST_F(ProgramCacheTest, ProgramsOfOneKeyAreToldApartByTheirBytes) {
  const plan::EncodedProgram one = Columns(8);
  plan::EncodedProgram other = Columns(12);
  other.key = one.key;
  const auto first = Prepare(one);
  const auto second = Prepare(other);
  ASSERT_NE(first, second);
  EXPECT_EQ(second->lowered.program->value(plan::ValueId{0}).layout.shape(), (Shape{4, 12}));
  EXPECT_EQ(Prepare(one), first);
  EXPECT_EQ(Prepare(other), second);
}

TEST_F(ProgramCacheTest, OfAnotherWorldNothingIsKept) {
  const plan::EncodedProgram program = Columns(8);
  const auto first = Prepare(program);
  cache_.SetWorld({1, 4, plan::Topology({0, 0, 0, 0})});
  EXPECT_EQ(Prepare(program), first) << "it is the same world";
  cache_.SetWorld({2, 4, plan::Topology({0, 0, 0, 0})});
  EXPECT_EQ(cache_.use().entries, 0u);
  EXPECT_EQ(cache_.use().bytes, 0u);
  const auto of_rank_2 = Prepare(program);
  EXPECT_NE(of_rank_2, first);
  EXPECT_EQ(of_rank_2->steps.buffers.size(), first->steps.buffers.size());
  cache_.SetWorld({2, 4, plan::Topology({0, 0, 1, 1})});
  EXPECT_NE(Prepare(program), of_rank_2);
  cache_.SetWorld({2, 3, plan::Topology({0, 0, 1, 1})});
  EXPECT_THAT(Message(cache_.Prepare(program).status()), HasSubstr("the mesh names rank 3"));
  EXPECT_EQ(cache_.use().evictions, 0u) << "not for want of room";
}

TEST_F(ProgramCacheTest, WhatIsGivenUpOrRefusedLeavesNothing) {
  const plan::EncodedProgram program = Columns(8, 6);
  int asked = 0;
  const auto status = cache_.Prepare(program, [&] { return ++asked == 2; }).status();
  EXPECT_EQ(status.code(), StatusCode::kAborted) << status;
  EXPECT_EQ(cache_.use().entries, 0u);
  EXPECT_EQ(cache_.use().bytes, 0u);
  const auto prepared = Prepare(program);
  ASSERT_NE(prepared, nullptr);
  EXPECT_FALSE(prepared->steps.steps.empty());
  const plan::EncodedProgram none = *plan::CopyEncoded(std::vector<std::byte>(16));
  EXPECT_EQ(cache_.Prepare(none).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(cache_.use().entries, 1u);
}

TEST_F(ProgramCacheTest, EntriesAreBounded) {
  const auto oldest = Prepare(Columns(1));
  const auto used = Prepare(Columns(2));
  for (size_t i = 2; i < ProgramCache::kMaxEntries; ++i) {
    Prepare(Columns(static_cast<int64_t>(i) + 1));
  }
  EXPECT_EQ(Prepare(Columns(2)), used);
  Prepare(Columns(1000));
  EXPECT_EQ(cache_.use().entries, ProgramCache::kMaxEntries);
  EXPECT_EQ(cache_.use().evictions, 1u);
  EXPECT_EQ(Prepare(Columns(2)), used);
  EXPECT_NE(Prepare(Columns(1)), oldest);
}

// What is kept of it is what it takes: a long program has many steps and much text.
TEST_F(ProgramCacheTest, LongProgramsTakeMoreBytes) {
  Prepare(Columns(8));
  const size_t one = cache_.use().bytes;
  Prepare(Columns(8, 100));
  EXPECT_GT(cache_.use().bytes, 20 * one);
}

}  // namespace
}  // namespace lockstep::worker
