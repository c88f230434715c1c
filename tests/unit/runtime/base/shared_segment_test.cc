#include "runtime/base/shared_segment.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace lockstep {
namespace {

constexpr size_t kMegabyte = size_t{1} << 20;

// What no other test, and no other run of this one, uses.
const std::string& ProgramPrefix() {
  static const std::string prefix = SharedSegment::kNamePrefix + std::string("segment-test-") +
                                    std::to_string(std::random_device()());
  return prefix;
}

std::string UniqueName() {
  static int count = 0;
  return ProgramPrefix() + "-" + std::to_string(count++);
}

bool ExistsInFileSystem(const std::string& name) {
  return access(("/dev/shm/" + name).c_str(), F_OK) == 0;
}

TEST(SharedSegmentTest, BothSidesSeeTheSameBytes) {
  const std::string name = UniqueName();
  auto owner = SharedSegment::Create(name, kMegabyte);
  ASSERT_TRUE(owner.ok()) << owner.status();
  ASSERT_TRUE((*owner)->Reserve(kMegabyte).ok());
  auto peer = SharedSegment::Open(name);
  ASSERT_TRUE(peer.ok()) << peer.status();
  EXPECT_EQ((*peer)->capacity_bytes(), kMegabyte);
  EXPECT_NE((*peer)->data(), (*owner)->data());
  std::strcpy(reinterpret_cast<char*>((*owner)->data()), "to the peer");
  EXPECT_STREQ(reinterpret_cast<char*>((*peer)->data()), "to the peer");
}

TEST(SharedSegmentTest, MemoryIsZeroAtFirst) {
  auto segment = SharedSegment::Create(UniqueName(), kMegabyte);
  ASSERT_TRUE(segment.ok()) << segment.status();
  ASSERT_TRUE((*segment)->Reserve(kMegabyte).ok());
  for (size_t i = 0; i < kMegabyte; ++i) ASSERT_EQ((*segment)->data()[i], std::byte{0});
}

TEST(SharedSegmentTest, NameGoesWithTheOwner) {
  const std::string name = UniqueName();
  auto owner = SharedSegment::Create(name, kMegabyte);
  ASSERT_TRUE(owner.ok());
  EXPECT_TRUE(ExistsInFileSystem(name));
  owner->reset();
  EXPECT_FALSE(ExistsInFileSystem(name));
  EXPECT_EQ(SharedSegment::Open(name).status().code(), StatusCode::kNotFound);
}

TEST(SharedSegmentTest, PeersMappingOutlivesTheOwner) {
  const std::string name = UniqueName();
  auto owner = SharedSegment::Create(name, kMegabyte);
  ASSERT_TRUE(owner.ok());
  ASSERT_TRUE((*owner)->Reserve(4096).ok());
  (*owner)->data()[0] = std::byte{42};
  auto peer = SharedSegment::Open(name);
  ASSERT_TRUE(peer.ok());
  owner->reset();
  EXPECT_EQ((*peer)->data()[0], std::byte{42});
}

TEST(SharedSegmentTest, CreatingItTwiceAlreadyExists) {
  const std::string name = UniqueName();
  auto owner = SharedSegment::Create(name, kMegabyte);
  ASSERT_TRUE(owner.ok());
  EXPECT_EQ(SharedSegment::Create(name, kMegabyte).status().code(), StatusCode::kAlreadyExists);
  EXPECT_TRUE(ExistsInFileSystem(name)) << "the refused one must not remove the owner's name";
}

TEST(SharedSegmentTest, BadNamesAndSizesAreInvalid) {
  for (const std::string& name : {std::string("other-thing"), std::string("lockstep-a/../b")}) {
    EXPECT_EQ(SharedSegment::Create(name, kMegabyte).status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(SharedSegment::Open(name).status().code(), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(SharedSegment::Create(UniqueName(), 0).status().code(), StatusCode::kInvalidArgument);
}

TEST(SharedSegmentTest, ReservingPastTheCapacityIsExhausted) {
  auto segment = SharedSegment::Create(UniqueName(), kMegabyte);
  ASSERT_TRUE(segment.ok());
  const Status status = (*segment)->Reserve(kMegabyte + 1);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(Message(status).find("at most 1 MiB"), std::string::npos);
  EXPECT_TRUE((*segment)->Reserve(kMegabyte).ok());
  EXPECT_TRUE((*segment)->Reserve(1).ok()) << "reserving never shrinks";
}

TEST(SharedSegmentTest, ContainsItsOwnAddressesOnly) {
  auto segment = SharedSegment::Create(UniqueName(), kMegabyte);
  ASSERT_TRUE(segment.ok());
  EXPECT_TRUE((*segment)->Contains((*segment)->data()));
  EXPECT_TRUE((*segment)->Contains((*segment)->data() + kMegabyte - 1));
  EXPECT_FALSE((*segment)->Contains((*segment)->data() + kMegabyte));
  int on_the_stack = 0;
  EXPECT_FALSE((*segment)->Contains(&on_the_stack));
}

// What a process that was killed leaves behind: a file that no process holds a lock on.
TEST(SharedSegmentTest, SweepRemovesWhatDeadOwnersLeftAndNothingElse) {
  const std::string prefix = UniqueName();
  const std::string dead = prefix + "-dead";
  auto living = SharedSegment::Create(prefix + "-living", kMegabyte);
  ASSERT_TRUE(living.ok());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto segment = SharedSegment::Create(dead, kMegabyte);
    _exit(segment.ok() ? 0 : 1);  // runs no destructors, like kill -9
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  ASSERT_TRUE(ExistsInFileSystem(dead));

  EXPECT_EQ(SharedSegment::Sweep(prefix), 1);
  EXPECT_FALSE(ExistsInFileSystem(dead));
  EXPECT_TRUE(ExistsInFileSystem(prefix + "-living"));
}

// A process that owns a segment, until it is told to end.
class OwnerProcess {
 public:
  explicit OwnerProcess(const std::string& name) {
    int made[2];
    EXPECT_EQ(pipe(made), 0);
    child_ = fork();
    EXPECT_GE(child_, 0);
    if (child_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      auto segment = SharedSegment::Create(name, kMegabyte);
      const char ok = segment.ok() ? 1 : 0;
      if (write(made[1], &ok, 1) != 1) _exit(1);
      for (;;) pause();
    }
    char ok = 0;
    EXPECT_EQ(read(made[0], &ok, 1), 1);
    EXPECT_EQ(ok, 1);
    close(made[0]);
    close(made[1]);
  }
  ~OwnerProcess() { Kill(); }
  OwnerProcess(const OwnerProcess&) = delete;
  OwnerProcess& operator=(const OwnerProcess&) = delete;

  // Returns when it has ended.
  void Kill() {
    if (child_ <= 0) return;
    kill(child_, SIGKILL);
    EXPECT_EQ(waitpid(child_, nullptr, 0), child_);
    child_ = -1;
  }

 private:
  pid_t child_ = -1;
};

// Whether or not the name is there still: cleaners of temporary files remove it under a live owner.
TEST(SharedSegmentTest, TheOwnerLivesUntilItsProcessEnds) {
  for (const bool nameless : {false, true}) {
    const std::string name = UniqueName();
    OwnerProcess owner(name);
    auto peer = SharedSegment::Open(name);
    ASSERT_TRUE(peer.ok()) << peer.status();
    if (nameless) {
      ASSERT_EQ(unlink(("/dev/shm/" + name).c_str()), 0);
    }
    EXPECT_TRUE((*peer)->OwnerLives()) << "nameless: " << nameless;
    owner.Kill();
    EXPECT_FALSE((*peer)->OwnerLives()) << "nameless: " << nameless;
    SharedSegment::Sweep(name);
  }
}

TEST(SharedSegmentTest, ASegmentThatLostItsNameLeavesItsSuccessorsAlone) {
  const std::string name = UniqueName();
  auto first = SharedSegment::Create(name, kMegabyte);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_EQ(unlink(("/dev/shm/" + name).c_str()), 0);
  auto second = SharedSegment::Create(name, kMegabyte);
  ASSERT_TRUE(second.ok()) << second.status();
  first->reset();
  EXPECT_TRUE(ExistsInFileSystem(name));
}

// Every worker sweeps when it starts, while others create their segments.
TEST(SharedSegmentTest, SweepersDoNotTakeANewSegmentForADeadOwners) {
  std::atomic<bool> stop = false;
  std::vector<std::thread> sweepers;
  for (int i = 0; i < 2; ++i) {
    sweepers.emplace_back([&] {
      while (!stop) SharedSegment::Sweep(ProgramPrefix());
    });
  }
  for (int i = 0; i < 2000; ++i) {
    const std::string name = UniqueName();
    auto owner = SharedSegment::Create(name, kMegabyte);
    EXPECT_TRUE(owner.ok()) << owner.status();
    auto peer = SharedSegment::Open(name);
    EXPECT_TRUE(peer.ok()) << peer.status();
    if (HasFailure()) break;
  }
  stop = true;
  for (std::thread& sweeper : sweepers) sweeper.join();
}

TEST(SharedSegmentTest, SweepNeedsLockstepsPrefix) {
  EXPECT_EQ(SharedSegment::Sweep(""), 0);
  EXPECT_EQ(SharedSegment::Sweep("other-"), 0);
}

}  // namespace
}  // namespace lockstep
