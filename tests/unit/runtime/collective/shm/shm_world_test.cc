#include "runtime/collective/shm/shm_world.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::collective::shm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::string UniqueName() {
  std::random_device random;
  return SharedSegment::kNamePrefix + std::string("world-test-") + std::to_string(random()) + "-" +
         std::to_string(random());
}

std::shared_ptr<tensor::Arena> NewArena(const std::string& name) {
  auto arena = tensor::Arena::Create({.name = name, .capacity_bytes = size_t{16} << 20});
  EXPECT_TRUE(arena.ok()) << arena.status();
  return *std::move(arena);
}

Deadline Patience() { return Deadline::After(seconds(60)); }

// A rank in a process of its own, which does nothing but have an arena.
class RankProcess {
 public:
  explicit RankProcess(const std::string& arena_name) : arena_name_(arena_name) {
    child_ = fork();
    EXPECT_GE(child_, 0);
    if (child_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const auto home = LocalArena::Of(NewArena(arena_name));
    for (;;) pause();
  }
  ~RankProcess() { Kill(); }
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  // Returns when it has ended.
  void Kill() {
    if (child_ <= 0) return;
    kill(child_, SIGKILL);
    EXPECT_EQ(waitpid(child_, nullptr, 0), child_);
    child_ = -1;
    SharedSegment::Sweep(arena_name_);
  }

 private:
  const std::string arena_name_;
  pid_t child_ = -1;
};

TEST(HomeTest, ThereIsOneForEachArena) {
  const auto arena = NewArena(UniqueName());
  EXPECT_EQ(LocalArena::Find(arena->name()), nullptr);
  auto home = LocalArena::Of(arena);
  EXPECT_EQ(LocalArena::Of(arena), home);
  EXPECT_EQ(LocalArena::Find(arena->name()), home);
  EXPECT_TRUE(home->directory().IsReady());
  home.reset();
  EXPECT_EQ(LocalArena::Find(arena->name()), nullptr);
  // What was in the control area stays for the next one.
  EXPECT_TRUE(LocalArena::Of(arena)->directory().IsReady());
}

TEST(PeerTest, RanksOfThisProcessAreReachedWhereTheyAre) {
  const auto home = LocalArena::Of(NewArena(UniqueName()));
  const auto peer = Peer::Map(home->arena().name(), true, nullptr, Patience());
  ASSERT_TRUE(peer.ok()) << peer.status();
  EXPECT_EQ(peer->base(), home->arena().base());
  EXPECT_TRUE(peer->IsAlive());
}

// systemd-logind with RemoveIPC, and cleaners of temporary files, remove names of what is in use.
TEST(PeerTest, ARankLivesUntilItsProcessEndsWhateverBecomesOfTheName) {
  for (const bool nameless : {false, true}) {
    const std::string name = UniqueName();
    RankProcess rank(name);
    const auto peer = Peer::Map(name, false, nullptr, Patience());
    ASSERT_TRUE(peer.ok()) << peer.status();
    if (nameless) {
      ASSERT_EQ(unlink(("/dev/shm/" + name).c_str()), 0);
    }
    EXPECT_TRUE(peer->IsAlive()) << "nameless: " << nameless;
    rank.Kill();
    EXPECT_FALSE(peer->IsAlive()) << "nameless: " << nameless;
  }
}

Options OptionsOf(Rank rank, std::shared_ptr<tensor::Arena> arena,
                  std::vector<std::string> arena_names) {
  Options options;
  options.rank = rank;
  options.arena = std::move(arena);
  options.arena_names = std::move(arena_names);
  return options;
}

TEST(WorldTest, ThoseThatDoNotComeAreAllNamed) {
  const auto arena = NewArena(UniqueName());
  const auto world =
      ShmWorld::Connect(OptionsOf(1, arena, {UniqueName(), arena->name(), UniqueName()}), nullptr,
                        Deadline::After(milliseconds(20)));
  ASSERT_EQ(world.status().code(), StatusCode::kDeadlineExceeded) << world.status();
  EXPECT_NE(Message(world.status()).find("ranks 0, 2"), std::string::npos) << world.status();
}

TEST(WorldTest, HasEverybodysArenaInRankOrder) {
  const std::string other_name = UniqueName();
  RankProcess other(other_name);
  const auto arena = NewArena(UniqueName());
  const auto world =
      ShmWorld::Connect(OptionsOf(1, arena, {other_name, arena->name()}), nullptr, Patience());
  ASSERT_TRUE(world.ok()) << world.status();
  EXPECT_EQ((*world)->size(), 2);
  EXPECT_EQ((*world)->peer(1).base(), arena->base());
  EXPECT_NE((*world)->peer(0).base(), arena->base());
  EXPECT_TRUE((*world)->peer(0).directory().IsReady());
  EXPECT_NE((*world)->peer(0).directory().process(), (*world)->peer(1).directory().process());
}

}  // namespace
}  // namespace lockstep::collective::shm
