#include "services/worker/execute/lent_memory_reclaimer.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <utility>
#include <vector>

#include "runtime/tensor/storage.h"
#include "tests/support/child.h"

namespace lockstep::worker {
namespace {

using support::Child;

class LentMemoryReclaimerTest : public testing::Test {
 protected:
  // Keeps a tensor for `client`.
  void Keep(const Child& client) {
    std::vector<registers::Value> tensors;
    tensors.emplace_back(*tensor::Tensor::Empty(*allocator_, DType::kUInt8, {10}));
    lent_memory_.Keep(*WatchedProcess::Watch(client.pid()), std::move(tensors));
  }
  size_t live() const { return allocator_->Stats().live_blocks; }

  std::shared_ptr<tensor::Allocator> allocator_ = tensor::NewHeapAllocator();
  LentMemoryReclaimer lent_memory_;
};

TEST_F(LentMemoryReclaimerTest, MemoryIsKeptUntilItsClientEnds) {
  Child first;
  Child second;
  Keep(first);
  Keep(second);
  lent_memory_.FreeEnded();
  EXPECT_EQ(live(), 2u);
  first.End();
  lent_memory_.FreeEnded();
  EXPECT_EQ(live(), 1u);
  second.End();
  lent_memory_.FreeEnded();
  EXPECT_EQ(live(), 0u);
  EXPECT_TRUE(lent_memory_.empty());
}

TEST_F(LentMemoryReclaimerTest, DescriptorsBecomeReadableWhenAClientEnds) {
  EXPECT_TRUE(lent_memory_.descriptors().empty());
  Child first;
  Child second;
  Keep(first);
  Keep(second);
  ASSERT_EQ(lent_memory_.descriptors().size(), 2u);
  second.End();
  pollfd entry{lent_memory_.descriptors()[1], POLLIN, 0};
  EXPECT_EQ(poll(&entry, 1, 20'000), 1);
  lent_memory_.FreeEnded();
  ASSERT_EQ(lent_memory_.descriptors().size(), 1u);
  entry.fd = lent_memory_.descriptors()[0];
  EXPECT_EQ(poll(&entry, 1, 0), 0);
}

}  // namespace
}  // namespace lockstep::worker
