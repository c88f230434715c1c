#include "runtime/control/shm/sealed_memory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/control/shm/ring_link.h"
#include "tests/support/patience.h"

namespace lockstep::control {
namespace {

constexpr size_t kSizeBytes = 8192;

TEST(SealedMemoryTest, NobodyCutsItOff) {
  const StatusOr<Descriptor> memory = CreateMemory(kSizeBytes);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_NE(ftruncate(memory->get(), 0), 0);
  EXPECT_NE(ftruncate(memory->get(), 2 * kSizeBytes), 0);
}

TEST(SealedMemoryTest, OnceSealedOnlyMappingsThatThereAreWrite) {
  const StatusOr<Descriptor> memory = CreateMemory(kSizeBytes);
  ASSERT_TRUE(memory.ok()) << memory.status();
  const auto writes = MappedMemory::Map(*memory, kSizeBytes, MappedMemory::Access::kReadAndWrite);
  ASSERT_TRUE(writes.ok()) << writes.status();
  ASSERT_TRUE(SealWrites(*memory).ok());
  EXPECT_FALSE(MappedMemory::Map(*memory, kSizeBytes, MappedMemory::Access::kReadAndWrite).ok());
  const auto reads = MappedMemory::Map(*memory, kSizeBytes, MappedMemory::Access::kRead);
  ASSERT_TRUE(reads.ok()) << reads.status();
  writes->data()[17] = std::byte{5};
  EXPECT_EQ(reads->data()[17], std::byte{5});
  // Nor by another descriptor, or after a change of protection.
  EXPECT_NE(mprotect(reads->data(), kSizeBytes, PROT_READ | PROT_WRITE), 0);
  EXPECT_NE(pwrite(memory->get(), "x", 1, 0), 1);
  const std::string path = "/proc/self/fd/" + std::to_string(memory->get());
  const Descriptor again(open(path.c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_EQ(mmap(nullptr, kSizeBytes, PROT_READ | PROT_WRITE, MAP_SHARED, again.get(), 0),
            MAP_FAILED);
}

TEST(SealedMemoryTest, WhatHasAnotherSizeOrIsNotSealedIsNotMapped) {
  const StatusOr<Descriptor> memory = CreateMemory(kSizeBytes);
  ASSERT_TRUE(memory.ok()) << memory.status();
  const auto code = [](const Descriptor& descriptor, size_t size_bytes) {
    return MappedMemory::Map(descriptor, size_bytes, MappedMemory::Access::kRead).status().code();
  };
  EXPECT_EQ(code(*memory, 2 * kSizeBytes), StatusCode::kInvalidArgument);
  const Descriptor loose(memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(loose.get(), kSizeBytes), 0);
  EXPECT_EQ(code(loose, kSizeBytes), StatusCode::kInvalidArgument);
}

class RingLinkTest : public testing::Test {
 protected:
  void SetUp() override {
    StatusOr<RingListener> listener = RingListener::Create();
    ASSERT_TRUE(listener.ok()) << listener.status();
    StatusOr<RingLink> link = RingLink::Connect(listener->address());
    ASSERT_TRUE(link.ok()) << link.status();
    link_.emplace(std::move(*link));
    std::vector<RingLink> accepted = listener->Accept();
    ASSERT_EQ(accepted.size(), 1u);
    accepted_.emplace(std::move(accepted[0]));
  }
  std::optional<RingLink> link_;
  std::optional<RingLink> accepted_;
};

// Its descriptor would stay readable, and whoever waits for it would spin.
TEST(RingListenerTest, WhoConnectsWhereNoDescriptorIsLeftIsTurnedAway) {
  StatusOr<RingListener> listener = RingListener::Create();
  ASSERT_TRUE(listener.ok()) << listener.status();
  StatusOr<RingLink> link = RingLink::Connect(listener->address());
  ASSERT_TRUE(link.ok()) << link.status();
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int lowest_free = dup(0);
  ASSERT_EQ(close(lowest_free), 0);
  const rlimit none_left = {static_cast<rlim_t>(lowest_free), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none_left), 0);
  EXPECT_TRUE(listener->Accept().empty());
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  std::string bytes;
  EXPECT_EQ(link->Receive(&bytes), RingLink::Input::kClosed);
  StatusOr<RingLink> again = RingLink::Connect(listener->address());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(listener->Accept().size(), 1u);
}

TEST_F(RingLinkTest, DescriptorsArriveWithTheirMessage) {
  const StatusOr<Descriptor> memory = CreateMemory(kSizeBytes);
  ASSERT_TRUE(memory.ok()) << memory.status();
  ASSERT_TRUE(accepted_->Send("two", {memory->get(), memory->get()}).ok());
  std::string bytes;
  std::vector<Descriptor> descriptors;
  ASSERT_EQ(link_->Receive(&bytes, &descriptors), RingLink::Input::kMessage);
  EXPECT_EQ(bytes, "two");
  ASSERT_EQ(descriptors.size(), 2u);
  EXPECT_TRUE(MappedMemory::Map(descriptors[1], kSizeBytes, MappedMemory::Access::kRead).ok());
  EXPECT_EQ(link_->Receive(&bytes, &descriptors), RingLink::Input::kNothing);
}

TEST_F(RingLinkTest, AnEndThatClosesIsSeen) {
  link_->Wake();
  EXPECT_TRUE(accepted_->TakeWakes());
  link_.reset();
  EXPECT_FALSE(accepted_->TakeWakes());
  std::string bytes;
  EXPECT_EQ(accepted_->Receive(&bytes), RingLink::Input::kClosed);
  EXPECT_FALSE(accepted_->Send("nobody").ok());
}

TEST_F(RingLinkTest, WakeUpsThatNobodyTakesDoNotBlock) {
  for (int i = 0; i < 10'000; ++i) link_->Wake();
  EXPECT_TRUE(accepted_->TakeWakes());
}

TEST_F(RingLinkTest, ThePeerIsThisProcess) { EXPECT_EQ(accepted_->peer_pid(), getpid()); }

TEST(RingLinkAddressTest, AnAddressThatNobodyListensAtIsUnavailable) {
  EXPECT_EQ(RingLink::Connect("lockstep-nobody").status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace lockstep::control
