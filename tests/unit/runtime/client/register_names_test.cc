#include "runtime/client/register_names.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::client {
namespace {

class RegisterNamesTest : public testing::Test {
 protected:
  ~RegisterNamesTest() override {
    if (names_ != nullptr) names_->Unref();
  }
  std::vector<RegisterId> TakeKills() {
    std::vector<uint64_t> packed;
    names_->TakeKills(&packed, std::numeric_limits<size_t>::max());
    std::vector<RegisterId> ids;
    for (uint64_t id : packed) ids.push_back(RegisterId::FromPacked(id));
    return ids;
  }

  RegisterNames* names_ = RegisterNames::Create(SessionId(7));
};

TEST_F(RegisterNamesTest, NullDRefNamesNothing) {
  const DRef null;
  EXPECT_TRUE(null.IsNull());
  EXPECT_TRUE(null.id().IsNone());
  EXPECT_EQ(null.session(), SessionId());
}

TEST_F(RegisterNamesTest, ALayoutIsKeptWithItsNameOnly) {
  const auto layout = std::make_shared<const plan::Layout>(*plan::Layout::Make(
      {4}, DType::kInt8, *plan::Mesh::Line({0, 1}), {plan::Placement::Shard(0)}));
  {
    const DRef ref = names_->Acquire(1);
    EXPECT_EQ(names_->LayoutOf(ref), nullptr);
    names_->SetLayout(ref, layout);
    const DRef copy = ref;
    EXPECT_EQ(names_->LayoutOf(copy), layout);
  }
  TakeKills();
  const DRef next = names_->Acquire(2);
  ASSERT_EQ(next.id().index, 0u) << "the same index, under another generation";
  EXPECT_EQ(names_->LayoutOf(next), nullptr);
}

TEST_F(RegisterNamesTest, WhoHasAnythingIsKnownUntilSomethingElseIsThere) {
  const DRef own = names_->Acquire(1, {.holders = std::make_shared<const std::vector<Rank>>(1, 0)});
  EXPECT_EQ(names_->HoldersOf(own)->size(), 1u);
  names_->SetLayout(own, nullptr);
  EXPECT_EQ(names_->HoldersOf(own), nullptr);
}

TEST_F(RegisterNamesTest, WhatTheWorkersKnowIsAskedForOnce) {
  const auto layout = std::make_shared<const plan::Layout>(*plan::Layout::Make(
      {4}, DType::kInt8, *plan::Mesh::Line({0, 1}), {plan::Placement::Shard(0)}));
  {
    const DRef ref = names_->Acquire(1, {.is_told_by_workers = true});
    EXPECT_TRUE(names_->MayHaveForeignLayout(ref));
    names_->SetToldLayout(ref, nullptr);
    EXPECT_FALSE(names_->MayHaveForeignLayout(ref)) << "they know of none";
    names_->SetToldLayout(ref, layout);
    EXPECT_EQ(names_->LayoutOf(ref), nullptr) << "an answer that came too late";
  }
  TakeKills();
  const DRef next = names_->Acquire(2, {.is_told_by_workers = true});
  ASSERT_EQ(next.id().index, 0u) << "the same index, under another generation";
  EXPECT_TRUE(names_->MayHaveForeignLayout(next));
  names_->SetToldLayout(next, layout);
  EXPECT_EQ(names_->LayoutOf(next), layout);
}

// Another thread has written to it while the workers were asked.
TEST_F(RegisterNamesTest, WhatTheWorkersKnewBeforeAWriteDoesNotCount) {
  const auto layout = std::make_shared<const plan::Layout>(*plan::Layout::Make(
      {4}, DType::kInt8, *plan::Mesh::Line({0, 1}), {plan::Placement::Shard(0)}));
  const DRef ref = names_->Acquire(1, {.is_told_by_workers = true});
  names_->SetLayout(ref, nullptr);
  names_->SetToldLayout(ref, layout);
  EXPECT_EQ(names_->LayoutOf(ref), nullptr);
}

// What was moved for one call is there for the next, as long as it is the same.
TEST_F(RegisterNamesTest, ACopyInAnotherLayoutIsKeptUntilItsOriginalChanges) {
  const auto layout = [](int64_t extent) {
    return std::make_shared<const plan::Layout>(*plan::Layout::Make(
        {extent}, DType::kInt8, *plan::Mesh::Line({0, 1}), {plan::Placement::Shard(0)}));
  };
  constexpr Generation kNow{3};
  DRef original = names_->Acquire(1);
  const auto keep = [&](int64_t extent) {
    const DRef copy = names_->Acquire(2);
    names_->SetLayout(copy, layout(extent));
    names_->KeepRelaid(original, copy, kNow, names_->WritesTo(original));
    return copy.id();
  };
  const RegisterId copy = keep(4);
  EXPECT_TRUE(TakeKills().empty());
  EXPECT_EQ(names_->FindRelaid(original, *layout(4), kNow).id(), copy);
  EXPECT_TRUE(names_->FindRelaid(original, *layout(5), kNow).IsNull());
  EXPECT_TRUE(names_->FindRelaid(original, *layout(4), Generation(4)).IsNull()) << "was reset";
  names_->DropRelaid(original);
  EXPECT_EQ(TakeKills(), std::vector<RegisterId>{copy});
  keep(4);
  names_->SetLayout(original, nullptr);
  EXPECT_EQ(TakeKills().size(), 1u) << "it was written to";
  for (int64_t i = 0; i <= static_cast<int64_t>(RegisterNames::kMostRelaid); ++i) keep(i);
  EXPECT_EQ(TakeKills().size(), 1u) << "the oldest";
  EXPECT_TRUE(names_->FindRelaid(original, *layout(0), kNow).IsNull());
  original = DRef();
  EXPECT_EQ(TakeKills().size(), RegisterNames::kMostRelaid + 1);
}

TEST_F(RegisterNamesTest, ACopyThatMayBeOlderThanAWriteIsNotKept) {
  const auto layout = std::make_shared<const plan::Layout>(*plan::Layout::Make(
      {4}, DType::kInt8, *plan::Mesh::Line({0, 1}), {plan::Placement::Shard(0)}));
  constexpr Generation kNow{3};
  const DRef original = names_->Acquire(1);
  const DRef copy = names_->Acquire(2);
  names_->SetLayout(copy, layout);
  const auto keep = [&](WriteCount writes) {
    names_->KeepRelaid(original, copy, kNow, writes);
    return !names_->FindRelaid(original, *layout, kNow).IsNull();
  };
  const WriteCount before = names_->WritesTo(original);
  names_->DropRelaid(original);
  EXPECT_FALSE(keep(before)) << "another thread has written meanwhile";
  EXPECT_TRUE(keep(names_->WritesTo(original)));
  names_->NoteFunctionCall();
  EXPECT_FALSE(names_->FindRelaid(original, *layout, kNow).IsNull()) << "of other registers";
}

// `other` may share the memory of `original`, as what lockstep.identity returns does.
TEST_F(RegisterNamesTest, ACopyOfWhatFunctionsKnowIsGivenUpWhenAnySuchIsWritten) {
  const auto layout = std::make_shared<const plan::Layout>(*plan::Layout::Make(
      {4}, DType::kInt8, *plan::Mesh::Line({0, 1}), {plan::Placement::Shard(0)}));
  constexpr Generation kNow{3};
  const DRef original = names_->Acquire(1);
  const DRef other = names_->Acquire(2);
  const DRef copy = names_->Acquire(3);
  names_->SetLayout(copy, layout);
  names_->NoteKnownToFunctions(original);
  names_->NoteKnownToFunctions(other);
  const auto keep = [&] {
    names_->KeepRelaid(original, copy, kNow, names_->WritesTo(original));
    return !names_->FindRelaid(original, *layout, kNow).IsNull();
  };
  EXPECT_TRUE(keep());
  names_->DropRelaid(other);
  EXPECT_TRUE(names_->FindRelaid(original, *layout, kNow).IsNull());
  EXPECT_TRUE(keep());
  names_->NoteFunctionCall();
  EXPECT_TRUE(names_->FindRelaid(original, *layout, kNow).IsNull());
}

TEST_F(RegisterNamesTest, LiveNamesAreDistinctAndKnowTheirSession) {
  std::vector<DRef> refs;
  std::set<uint64_t> seen;
  for (int i = 0; i < 1000; ++i) {
    refs.push_back(names_->Acquire(1));
    EXPECT_FALSE(refs.back().id().IsNone());
    EXPECT_EQ(refs.back().session(), SessionId(7));
    seen.insert(refs.back().id().Packed());
  }
  EXPECT_EQ(seen.size(), 1000u);
}

TEST_F(RegisterNamesTest, NameIsKilledOnceWithItsLastCopy) {
  DRef first = names_->Acquire(1);
  const RegisterId id = first.id();
  DRef second = first;
  first = DRef();
  EXPECT_TRUE(TakeKills().empty());
  EXPECT_EQ(second.id(), id);
  second = DRef();
  EXPECT_EQ(TakeKills(), std::vector<RegisterId>{id});
  EXPECT_TRUE(TakeKills().empty());
}

TEST_F(RegisterNamesTest, MovingKeepsTheName) {
  DRef from = names_->Acquire(1);
  const RegisterId id = from.id();
  DRef to = std::move(from);
  EXPECT_TRUE(from.IsNull());  // NOLINT(bugprone-use-after-move): this is what the test is about
  EXPECT_EQ(to.id(), id);
  EXPECT_TRUE(TakeKills().empty());
}

TEST_F(RegisterNamesTest, SelfAssignmentKeepsTheName) {
  DRef ref = names_->Acquire(1);
  const RegisterId id = ref.id();
  const DRef& alias = ref;
  ref = alias;
  EXPECT_EQ(ref.id(), id);
  EXPECT_TRUE(TakeKills().empty());
}

// An index is used again only behind its kill: commands are executed in order, so the workers have
// freed the old value by then.
TEST_F(RegisterNamesTest, IndexIsReusedAfterItsKillWasTakenUnderANewGeneration) {
  const RegisterId old = names_->Acquire(1).id();
  const DRef before = names_->Acquire(1);
  EXPECT_NE(before.id().index, old.index);
  EXPECT_EQ(TakeKills(), std::vector<RegisterId>{old});
  const DRef after = names_->Acquire(1);
  EXPECT_EQ(after.id().index, old.index);
  EXPECT_EQ(after.id().generation, old.generation + 1);
}

TEST_F(RegisterNamesTest, FewIndicesServeManyShortLivedNames) {
  uint32_t highest = 0;
  for (int i = 0; i < 10'000; ++i) {
    highest = std::max(highest, names_->Acquire(1).id().index);
    (void)TakeKills();
  }
  EXPECT_EQ(highest, 0u);
}

TEST_F(RegisterNamesTest, DRefsMayOutliveTheSession) {
  DRef ref = names_->Acquire(1);
  DRef copy = ref;
  std::exchange(names_, nullptr)->Unref();
  EXPECT_EQ(ref.session(), SessionId(7));
  ref = DRef();
  EXPECT_FALSE(copy.id().IsNone());
}

// Whoever comes last deletes the names, and what is kept with them.
TEST_F(RegisterNamesTest, ThreadsMayDropNamesWhileTheSessionEnds) {
  std::exchange(names_, nullptr)->Unref();
  for (int round = 0; round < 200; ++round) {
    RegisterNames* const names = RegisterNames::Create(SessionId(7));
    auto layout = std::make_shared<const plan::Layout>(*plan::Layout::Make(
        {4}, DType::kInt8, *plan::Mesh::Line({0, 1}), {plan::Placement::Shard(0)}));
    const std::weak_ptr<const plan::Layout> left = layout;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      DRef ref = names->Acquire(1);
      {
        const DRef copy = names->Acquire(2);
        names->SetLayout(copy, layout);
        names->KeepRelaid(ref, copy, Generation(1), names->WritesTo(ref));
      }
      threads.emplace_back([ref = std::move(ref), other = names->Acquire(1)]() mutable {
        ref = DRef();
        EXPECT_EQ(other.session(), SessionId(7));
      });
    }
    layout.reset();
    names->Unref();
    for (std::thread& thread : threads) thread.join();
    threads.clear();
    EXPECT_TRUE(left.expired());
  }
}

TEST_F(RegisterNamesTest, ThreadsNeverShareALiveName) {
  constexpr int kThreads = 8;
  constexpr int kRounds = 2000;
  std::mutex mutex;
  std::mutex session;  // names are made, and kills taken, under the session's lock
  const auto acquire = [&] {
    std::lock_guard lock(session);
    return names_->Acquire(1);
  };
  const auto take_kills = [&] {
    std::lock_guard lock(session);
    return TakeKills();
  };
  std::set<uint32_t> live;
  std::atomic<bool> shared{false};
  std::atomic<int> running{kThreads};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kRounds; ++i) {
        const DRef ref = acquire();
        {
          std::lock_guard lock(mutex);
          if (!live.insert(ref.id().index).second) shared = true;
        }
        const DRef copy = ref;
        std::lock_guard lock(mutex);
        live.erase(ref.id().index);
      }
      --running;
    });
  }
  size_t kills = 0;
  std::set<uint64_t> killed;
  while (true) {
    const bool last = running == 0;
    for (RegisterId id : take_kills()) {
      ++kills;
      EXPECT_TRUE(killed.insert(id.Packed()).second) << id << " was killed twice";
    }
    if (last) break;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(shared);
  EXPECT_EQ(kills, size_t{kThreads} * kRounds);
}

TEST_F(RegisterNamesTest, CopiesOfOneNameMayBeDroppedByManyThreads) {
  for (int round = 0; round < 200; ++round) {
    DRef ref = names_->Acquire(1);
    const RegisterId id = ref.id();
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([copy = ref]() mutable { copy = DRef(); });
    }
    ref = DRef();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(TakeKills(), std::vector<RegisterId>{id});
  }
}

// Another client has used the session before: its names stay, and no new name equals one.
TEST(ContinuedNamesTest, NewNamesAreAboveTheOldOnes) {
  RegisterNames* const names = RegisterNames::Continue(SessionId(3), 9);
  {
    const RegisterId old{2, 4};
    const DRef adopted = names->Adopt(old, 4);
    EXPECT_EQ(adopted.id(), old);
    std::set<uint32_t> indices = {old.index};
    std::vector<DRef> fresh;
    for (int i = 0; i < 5; ++i) {
      fresh.push_back(names->Acquire(1));
      EXPECT_TRUE(indices.insert(fresh.back().id().index).second) << "each index once";
      EXPECT_EQ(fresh.back().id().generation, 10u);
    }
    EXPECT_EQ(*indices.rbegin(), 5u) << "the lowest that are free";
    EXPECT_EQ(names->generations(), 10u);
  }
  std::vector<uint64_t> kills;
  names->TakeKills(&kills, 100);
  EXPECT_EQ(kills.size(), 6u);
  for (int i = 0; i < 6; ++i) EXPECT_GE(names->Acquire(1).id().generation, 10u);
  names->Unref();
}

TEST_F(RegisterNamesTest, OnlyAnotherClientsRegisterMayHaveALayoutThatIsNotKnownHere) {
  const DRef found = names_->Adopt({3, 1}, 5);
  const DRef own = names_->Acquire(6);
  EXPECT_TRUE(names_->MayHaveForeignLayout(found));
  EXPECT_FALSE(names_->MayHaveForeignLayout(own));
  names_->SetLayout(found, nullptr);
  EXPECT_FALSE(names_->MayHaveForeignLayout(found)) << "this client has written to it";
}

}  // namespace
}  // namespace lockstep::client
