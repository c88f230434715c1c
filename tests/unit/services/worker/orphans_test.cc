#include "services/worker/orphans.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <utility>
#include <vector>

#include "runtime/tensor/storage.h"
#include "tests/support/child.h"

namespace lockstep::worker {
namespace {

using support::Child;

class OrphansTest : public testing::Test {
 protected:
  // Keeps a tensor for `client`.
  void Keep(const Child& client) {
    std::vector<registers::Value> tensors;
    tensors.emplace_back(*tensor::Tensor::Empty(*allocator_, DType::kUInt8, {10}));
    orphans_.Keep(*WatchedProcess::Watch(client.pid()), std::move(tensors));
  }
  size_t live() const { return allocator_->Stats().live_blocks; }

  std::shared_ptr<tensor::Allocator> allocator_ = tensor::NewHeapAllocator();
  Orphans orphans_;
};

TEST_F(OrphansTest, MemoryIsKeptUntilItsClientEnds) {
  Child first;
  Child second;
  Keep(first);
  Keep(second);
  orphans_.FreeEnded();
  EXPECT_EQ(live(), 2u);
  first.End();
  orphans_.FreeEnded();
  EXPECT_EQ(live(), 1u);
  second.End();
  orphans_.FreeEnded();
  EXPECT_EQ(live(), 0u);
  EXPECT_TRUE(orphans_.empty());
}

TEST_F(OrphansTest, DescriptorsBecomeReadableWhenAClientEnds) {
  EXPECT_TRUE(orphans_.descriptors().empty());
  Child first;
  Child second;
  Keep(first);
  Keep(second);
  ASSERT_EQ(orphans_.descriptors().size(), 2u);
  second.End();
  pollfd entry{orphans_.descriptors()[1], POLLIN, 0};
  EXPECT_EQ(poll(&entry, 1, 20'000), 1);
  orphans_.FreeEnded();
  ASSERT_EQ(orphans_.descriptors().size(), 1u);
  entry.fd = orphans_.descriptors()[0];
  EXPECT_EQ(poll(&entry, 1, 0), 0);
}

}  // namespace
}  // namespace lockstep::worker
