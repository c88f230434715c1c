// More than 2 GiB in one operation: no count, offset or size is 32 bits wide anywhere.
#include "tests/conformance/conformance_test.h"

namespace lockstep::collective {
namespace {

TEST(LargeTest, OperationsBeyondTwoGiB) {
  constexpr size_t kCount = (size_t{1} << 31) + 4097;
  for (const BackendUnderTest& backend : Backends()) {
    if (backend.processes) continue;  // sizes are computed there as with threads
    backend.run(2, [](RankUnderTest& self) {
      TestBuffer data(&self.allocator, DType::kInt8, 0);
      auto storage = self.allocator.Allocate(kCount);
      ASSERT_TRUE(storage.ok()) << storage.status();
      auto* bytes = static_cast<int8_t*>((*storage)->data());
      const size_t marks[] = {0, 1, (size_t{1} << 31) - 1, size_t{1} << 31, kCount - 1};
      for (size_t i = 0; i < kCount; i += 4096) bytes[i] = static_cast<int8_t>(i % 50);
      for (size_t mark : marks) bytes[mark] = static_cast<int8_t>(10 + self.rank());

      const Buffer buffer{bytes, kCount, DType::kInt8};
      ASSERT_TRUE(self.comm.AllReduce(buffer, buffer, ReduceOp::kSum, Patience()).ok());
      for (size_t mark : marks) EXPECT_EQ(bytes[mark], 21) << mark;

      if (self.rank() == 0) bytes[kCount - 2] = 77;
      ASSERT_TRUE(self.comm
                      .Broadcast(self.rank() == 0 ? ConstBuffer(buffer) : ConstBuffer(), buffer, 0,
                                 Patience())
                      .ok());
      EXPECT_EQ(bytes[kCount - 2], 77);
    });
  }
}

}  // namespace
}  // namespace lockstep::collective
