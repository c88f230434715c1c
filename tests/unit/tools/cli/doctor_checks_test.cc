#include "tools/cli/doctor_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

namespace lockstep::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

TEST(MachineTest, SharedMemoryMustBeThereAndSuffice) {
  EXPECT_EQ(CheckSharedMemory("/dev/shm", 1).verdict, Verdict::kGood);
  const Finding small = CheckSharedMemory("/dev/shm", uint64_t{1} << 60);
  EXPECT_EQ(small.verdict, Verdict::kDoubtful);
  EXPECT_THAT(small.remedy, HasSubstr("--shm-size"));
  const Finding none = CheckSharedMemory("/no/such/place", 1);
  EXPECT_EQ(none.verdict, Verdict::kBad);
  EXPECT_THAT(none.fact, HasSubstr("No such file"));
  EXPECT_THAT(none.remedy, HasSubstr("mount"));
}

TEST(MachineTest, GpusAreCountedWhereWorkersAskForThem) {
  EXPECT_THAT(CheckGpus({"cpu", "cpu"}, Unavailable("no driver")), testing::IsEmpty());
  const auto none = CheckGpus({"cuda", "cuda"}, Unavailable("there is no NVIDIA driver here"));
  ASSERT_EQ(none.size(), 1u);
  EXPECT_EQ(none[0].verdict, Verdict::kBad);
  EXPECT_THAT(none[0].fact, HasSubstr("2 workers here ask for a GPU each, but there is no NVIDIA"));
  EXPECT_EQ(CheckGpus({"cuda", "cuda"}, 1)[0].verdict, Verdict::kBad);
  EXPECT_EQ(CheckGpus({"cuda:2"}, 2)[0].verdict, Verdict::kBad);
  EXPECT_EQ(CheckGpus({"cuda:1", "cuda"}, 2)[0].verdict, Verdict::kGood);
}

TEST(MachineTest, OpenFilesAreComparedWithWhatWorkersWant) {
  EXPECT_EQ(CheckOpenFiles(1024, 4096, 4).verdict, Verdict::kGood);
  EXPECT_EQ(CheckOpenFiles(kNoLimit, kNoLimit, 1000).verdict, Verdict::kGood);
  const Finding soft = CheckOpenFiles(1024, 1'000'000, 16);
  EXPECT_EQ(soft.verdict, Verdict::kGood) << "services raise it themselves";
  EXPECT_THAT(soft.fact, AllOf(HasSubstr("may open 65,536"), HasSubstr("by itself")));
  const Finding many = CheckOpenFiles(1024, 1'000'000, 1000);
  EXPECT_EQ(many.verdict, Verdict::kDoubtful) << "but not to any number";
  EXPECT_EQ(many.remedy, "ulimit -n 256000");
  EXPECT_EQ(CheckOpenFiles(1024, 1024, 16).verdict, Verdict::kDoubtful);
  EXPECT_THAT(CheckOpenFiles(1024, 1024, 16).remedy, HasSubstr("LimitNOFILE"));
  EXPECT_EQ(CheckOpenFiles(64, 64, 1).verdict, Verdict::kBad);
}

TEST(MachineTest, LittleLockedMemoryIsDoubtfulOnly) {
  EXPECT_EQ(CheckLockedMemory(kNoLimit).verdict, Verdict::kGood);
  EXPECT_EQ(CheckLockedMemory(8 * kMiB).verdict, Verdict::kDoubtful);
  EXPECT_THAT(CheckLockedMemory(8 * kMiB).remedy, HasSubstr("memlock"));
}

TEST(MachineTest, ClockThatNobodyKeepsIsDoubtful) {
  EXPECT_EQ(CheckClock(true, 16'000).verdict, Verdict::kGood);
  EXPECT_THAT(CheckClock(true, 16'000).fact, HasSubstr("16 ms"));
  EXPECT_EQ(CheckClock(false, 0).verdict, Verdict::kDoubtful);
}

TEST(MachineTest, MemoryLimitIsReadFromBothKindsOfControlGroups) {
  const std::filesystem::path root = testing::TempDir() + "/cgroup";
  std::filesystem::create_directories(root / "memory");
  EXPECT_EQ(CheckMemoryLimit(root, kMiB).verdict, Verdict::kGood) << "none";
  std::ofstream(root / "memory/memory.limit_in_bytes") << 9'223'372'036'854'771'712 << "\n";
  EXPECT_THAT(CheckMemoryLimit(root, kMiB).fact, HasSubstr("none"));
  std::ofstream(root / "memory/memory.limit_in_bytes") << 4 * kMiB << "\n";
  EXPECT_EQ(CheckMemoryLimit(root, kMiB).verdict, Verdict::kGood);
  EXPECT_EQ(CheckMemoryLimit(root, 8 * kMiB).verdict, Verdict::kDoubtful);
  std::ofstream(root / "memory.max") << "max\n";
  EXPECT_THAT(CheckMemoryLimit(root, 8 * kMiB).fact, HasSubstr("4 MiB"));
  std::ofstream(root / "memory.max") << 2 * kMiB << "\n";
  EXPECT_THAT(CheckMemoryLimit(root, 8 * kMiB).fact, HasSubstr("2 MiB"));
  std::filesystem::remove_all(root);
}

TEST(MachineTest, WithoutLoopbackNothingWorks) {
  EXPECT_EQ(CheckInterfaces({}).verdict, Verdict::kBad);
  EXPECT_EQ(CheckInterfaces({{"lo", "127.0.0.1", true}}).verdict, Verdict::kDoubtful);
  const Finding good = CheckInterfaces({{"lo", "127.0.0.1", true}, {"eth0", "10.1.2.3", false}});
  EXPECT_EQ(good.verdict, Verdict::kGood);
  EXPECT_EQ(good.fact, "eth0 10.1.2.3");
}

}  // namespace
}  // namespace lockstep::cli
