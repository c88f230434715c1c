// A tensor of more than 4 GiB to worker-0 and back over its bulk socket: no count, offset or size
// is 32 bits wide anywhere. About 9 GiB of memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/client/session.h"
#include "services/local/local_cluster.h"
#include "tests/support/shared_memory.h"

namespace lockstep {
namespace {

// Elements of 8 bytes; a number that no power of two divides.
constexpr size_t kCount = (size_t{1} << 29) + 12'345;

// Two elements whose distance may be mistaken for another one differ.
uint64_t ElementAt(size_t i) { return i * 0x9E3779B97F4A7C15u; }

TEST(BulkLargeTest, MoreThanFourGibibytesArriveWhole) {
  if (const std::string reason = LacksSharedMemory(5); !reason.empty()) GTEST_SKIP() << reason;
  local::LocalClusterOptions options;
  options.workers = 1;
  options.mode = local::LocalClusterOptions::Mode::kProcesses;
  options.tcp = true;
  auto cluster = local::LocalCluster::Start(options);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  SessionOptions session_options;
  session_options.map_memory = false;
  auto session = (*cluster)->Connect(session_options);
  ASSERT_TRUE(session.ok()) << session.status();

  std::vector<uint64_t> memory(kCount);
  for (size_t i = 0; i < kCount; ++i) memory[i] = ElementAt(i);
  const auto ref =
      session->CopyToWorker0({static_cast<int64_t>(kCount)}, ViewOf(memory.data(), kCount));
  ASSERT_TRUE(ref.ok()) << ref.status();
  std::fill(memory.begin(), memory.end(), 0);
  ASSERT_EQ(session->CopyFromWorker0(ViewOf(memory.data(), kCount), *ref), OkStatus());
  size_t wrong = 0;
  for (size_t i = 0; i < kCount; ++i) wrong += memory[i] != ElementAt(i) ? 1 : 0;
  EXPECT_EQ(wrong, 0u);
  ASSERT_EQ(session->Close(), OkStatus());
  EXPECT_EQ((*cluster)->Stop(), OkStatus());
}

}  // namespace
}  // namespace lockstep
