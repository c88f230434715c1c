#include "services/worker/execute/session_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/patience.h"
#include "tests/unit/services/worker/fake_communicator.h"

namespace lockstep::worker {
namespace {

using namespace std::chrono_literals;

control::RemoteError Error(StatusCode code, Rank rank, uint64_t command = 10) {
  control::RemoteError error;
  error.code = code;
  error.rank = rank;
  error.command = command;
  error.message = "why";
  return error;
}

class SessionStateTest : public testing::Test {
 protected:
  StatusOr<collective::Communicator*> Connect(const std::vector<Rank>& members) {
    return Connect({TeamName::Kind::kTeam, members}, members);
  }
  StatusOr<collective::Communicator*> Connect(const TeamName& name,
                                              const std::vector<Rank>& members) {
    LOCKSTEP_ASSIGN_OR_RETURN(
        const Communicators* const made,
        state_.CommunicatorsOf(name, members, {&world_}, Deadline::After(support::kLong)));
    return made->cpus.get();
  }

  registers::RegisterTotals totals_;
  registers::RegisterFile registers_{&totals_};
  FakeCommunicator::Log log_;
  FakeCommunicator world_{log_};
  SessionState state_{control::SessionRecord{.id = SessionId(7)}, &registers_};
};

TEST_F(SessionStateTest, FirstFailureIsKept) {
  EXPECT_FALSE(state_.has_failed());
  EXPECT_TRUE(state_.Fail(Error(StatusCode::kInternal, 2)));
  EXPECT_FALSE(state_.Fail(Error(StatusCode::kNotFound, 1)));
  EXPECT_TRUE(state_.has_failed());
  EXPECT_EQ(state_.failure().code, StatusCode::kInternal);
  EXPECT_EQ(state_.failure().rank, 2);
}

TEST_F(SessionStateTest, AbortAfterAFailureKeepsTheCause) {
  state_.Fail(Error(StatusCode::kInternal, 2));
  state_.Abort({Generation(0), 0, Error(StatusCode::kUnavailable, 3)});
  EXPECT_EQ(state_.failure().rank, 2);
}

TEST_F(SessionStateTest, FailureAfterAnAbortIsNoNews) {
  state_.Abort({Generation(0), 0, Error(StatusCode::kUnavailable, 3)});
  EXPECT_FALSE(state_.Fail(Error(StatusCode::kAborted, 0)));
  EXPECT_EQ(state_.failure().rank, 3);
}

TEST_F(SessionStateTest, WhatComesBeforeTheFailureIsNotSkipped) {
  state_.Abort({Generation(0), 7, Error(StatusCode::kUnavailable, 3)});
  EXPECT_TRUE(state_.has_failed());
  EXPECT_FALSE(state_.Skips(6));
  EXPECT_TRUE(state_.Skips(7));
  EXPECT_TRUE(state_.Skips(8));
  state_.Abort({Generation(0), 9, Error(StatusCode::kUnavailable, 2)});
  EXPECT_FALSE(state_.Skips(6));
  EXPECT_TRUE(state_.Skips(7)) << "what is given up once is not taken up again";
}

TEST_F(SessionStateTest, AnEarlierFailureIsNews) {
  EXPECT_TRUE(state_.Fail(Error(StatusCode::kInternal, 2, 10)));
  EXPECT_FALSE(state_.Fail(Error(StatusCode::kInternal, 2, 11)));
  EXPECT_TRUE(state_.Fail(Error(StatusCode::kNotFound, 2, 5)));
  EXPECT_TRUE(state_.Skips(5));
  EXPECT_EQ(state_.failure().code, StatusCode::kInternal) << "the first cause wins all the same";
}

TEST_F(SessionStateTest, ACollectiveBeforeTheFailureGoesOn) {
  ASSERT_TRUE(Connect({0, 1}).ok());
  EXPECT_TRUE(state_.BeginCollective(6));
  state_.Abort({Generation(0), 7, Error(StatusCode::kInternal, 2)});
  EXPECT_EQ(log_.aborts, 0) << "its peers have been there";
  ASSERT_TRUE(Connect({0, 2}).ok()) << "a new communicator is no different";
  EXPECT_EQ(log_.aborts, 0);
  state_.Abort({Generation(0), 6, Error(StatusCode::kInternal, 2)});
  EXPECT_EQ(log_.aborts, 2);
  state_.EndCollective();
  EXPECT_FALSE(state_.BeginCollective(6));
}

TEST_F(SessionStateTest, ResetForgetsTheFailureAndTheCommunicators) {
  ASSERT_TRUE(Connect({0, 1}).ok());
  state_.Fail(Error(StatusCode::kInternal, 2));
  state_.Reset(Generation(1));
  EXPECT_FALSE(state_.has_failed());
  EXPECT_EQ(state_.generation(), Generation(1));
  EXPECT_EQ(log_.live, 1) << "only the world is left";
}

TEST_F(SessionStateTest, AbortOfAnOlderGenerationComesTooLate) {
  state_.Reset(Generation(2));
  state_.Abort({Generation(1), 0, Error(StatusCode::kInternal, 2)});
  EXPECT_FALSE(state_.has_failed());
}

// The abort travels on another socket than the reset, and may overtake it. Were it forgotten, this
// rank would go into collectives that its peers skip.
TEST_F(SessionStateTest, AbortOfALaterGenerationIsKeptUntilItsReset) {
  state_.Abort({Generation(1), 0, Error(StatusCode::kInternal, 2)});
  EXPECT_FALSE(state_.has_failed()) << "this generation is not meant";
  state_.Reset(Generation(1));
  EXPECT_TRUE(state_.has_failed());
  EXPECT_EQ(state_.failure().rank, 2);
  state_.Reset(Generation(2));
  EXPECT_FALSE(state_.has_failed());
}

// A rank that is behind by several resets meets each of them in its turn: what its peers have given
// up in one of those generations they do not come back to.
TEST_F(SessionStateTest, AbortsOfSeveralLaterGenerationsAreAllKept) {
  state_.Abort({Generation(1), 5, Error(StatusCode::kInternal, 1)});
  state_.Abort({Generation(3), 0, Error(StatusCode::kInternal, 3)});
  state_.Abort({Generation(1), 4, Error(StatusCode::kInternal, 2)});
  state_.Reset(Generation(1));
  EXPECT_FALSE(state_.Skips(3));
  EXPECT_TRUE(state_.Skips(4));
  EXPECT_EQ(state_.failure().rank, 1) << "the first cause";
  state_.Reset(Generation(2));
  EXPECT_FALSE(state_.has_failed());
  state_.Reset(Generation(3));
  EXPECT_EQ(state_.failure().rank, 3);
}

// Whatever comes first: a rank that was behind may have failed at an earlier command than the one
// that is known already.
TEST_F(SessionStateTest, OfSeveralAbortsOfALaterGenerationTheEarliestCommandWins) {
  std::vector<uint64_t> commands = {5, 7, 9};
  uint32_t generation = 0;
  do {
    ++generation;
    for (const uint64_t command : commands) {
      state_.Abort({Generation(generation), command, Error(StatusCode::kInternal, 1, command)});
    }
    state_.Reset(Generation(generation));
    EXPECT_EQ(state_.SkipsFrom(99), 5u) << testing::PrintToString(commands);
    EXPECT_EQ(state_.failure().command, commands.front()) << "the first cause";
  } while (std::next_permutation(commands.begin(), commands.end()));
}

TEST_F(SessionStateTest, CommunicatorsAreMadeOnceForEachListOfMembers) {
  const auto first = Connect({0, 1});
  const auto again = Connect({0, 1});
  const auto other = Connect({1, 0});
  ASSERT_TRUE(first.ok() && again.ok() && other.ok());
  EXPECT_EQ(*first, *again);
  EXPECT_NE(*first, *other);
  EXPECT_EQ(log_.tags.size(), 2u);
}

TEST_F(SessionStateTest, TagsDifferBetweenSessionsAndGenerations) {
  ASSERT_TRUE(Connect({0}).ok());
  state_.Reset(Generation(1));
  ASSERT_TRUE(Connect({0}).ok());
  SessionState other(control::SessionRecord{.id = SessionId(8)}, &registers_);
  ASSERT_TRUE(other.CommunicatorsOf({}, {0}, {&world_}, Deadline::After(support::kLong)).ok());
  ASSERT_EQ(log_.tags.size(), 3u);
  EXPECT_NE(log_.tags[0], log_.tags[1]);
  EXPECT_NE(log_.tags[0], log_.tags[2]);
  EXPECT_NE(log_.tags[1], log_.tags[2]);
}

// Who is in a team is the same on all ranks, "each rank's group" is not: the two are told apart
// even where they are the same ranks here.
TEST_F(SessionStateTest, GroupsAndTeamsOfTheSameRanksAreTwo) {
  const auto team = Connect({0, 1});
  const auto group = Connect({TeamName::Kind::kGroups}, {0, 1});
  ASSERT_TRUE(team.ok() && group.ok());
  EXPECT_NE(*team, *group);
  EXPECT_NE(log_.tags[0], log_.tags[1]);
}

TEST_F(SessionStateTest, TeamsOfOthersAreNotedAndNotMade) {
  const auto made = Connect({TeamName::Kind::kTeam, {1, 2}}, {});
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(*made, nullptr);
  EXPECT_TRUE(log_.tags.empty());
}

TEST_F(SessionStateTest, TeamsThatComeAgainAndAgainAreKeptWithinBounds) {
  constexpr int kTeams = 3 * CommunicatorCache::kMaxTeamsOfARank;
  for (int round = 0; round < 3; ++round) {
    for (Rank other = 1; other <= kTeams; ++other) {
      ASSERT_TRUE(Connect({0, other}).ok());
      EXPECT_LE(log_.live, 1 + CommunicatorCache::kMaxTeamsOfARank);
    }
  }
  std::sort(log_.tags.begin(), log_.tags.end());
  EXPECT_EQ(std::unique(log_.tags.begin(), log_.tags.end()), log_.tags.end())
      << "a peer may still have the old one";
}

TEST_F(SessionStateTest, AbortReachesAllCommunicatorsOfTheSession) {
  ASSERT_TRUE(Connect({0}).ok());
  ASSERT_TRUE(Connect({0, 1}).ok());
  ASSERT_TRUE(state_.BeginCollective(3));
  state_.Abort({Generation(0), 0, Error(StatusCode::kInternal, 2)});
  EXPECT_EQ(log_.aborts, 2);
}

TEST_F(SessionStateTest, CommunicatorMadeWhileAnAbortComesIsAbortedOrCancelled) {
  std::atomic<bool> let_split{false};
  log_.let_split = &let_split;
  StatusOr<collective::Communicator*> made = nullptr;
  ASSERT_TRUE(state_.BeginCollective(3));
  std::thread executor([&] { made = Connect({0, 1}); });
  while (!log_.in_split) std::this_thread::yield();
  state_.Abort({Generation(0), 0, Error(StatusCode::kInternal, 2)});
  executor.join();
  EXPECT_EQ(made.status().code(), StatusCode::kAborted) << "its peers do not come any more";
}

// Programs that the session keeps count among its bytes, and go with the generation, and with the
// client that has sent them.
TEST_F(SessionStateTest, ProgramsAreKeptForAGenerationOfAClient) {
  const plan::EncodedProgram program{{1, 2}, std::make_shared<const std::vector<uint64_t>>(10, 3)};
  const auto is_known = [&] { return state_.programs().Has(program); };
  EXPECT_EQ(state_.NoteBound(program), OkStatus());
  EXPECT_EQ(state_.NoteBound(program), OkStatus());
  EXPECT_TRUE(is_known());
  EXPECT_EQ(registers_.held_bytes(), 80u);
  state_.Reset(Generation(1));
  EXPECT_FALSE(is_known());
  EXPECT_EQ(registers_.held_bytes(), 0u);
  EXPECT_EQ(state_.NoteBound(program), OkStatus());
  state_.Adopt(control::SessionRecord{.id = SessionId(7), .client_number = 1});
  EXPECT_FALSE(is_known());
  EXPECT_EQ(registers_.held_bytes(), 0u);
}

TEST_F(SessionStateTest, ProgramsBeyondTheSessionsLimitAreRefused) {
  registers::RegisterFile small{&totals_, {.bytes = 100}};
  SessionState state{control::SessionRecord{.id = SessionId(7)}, &small};
  const auto program = [](uint64_t key) {
    return plan::EncodedProgram{{key, 0}, std::make_shared<const std::vector<uint64_t>>(10, key)};
  };
  EXPECT_EQ(state.NoteBound(program(1)), OkStatus());
  EXPECT_EQ(state.NoteBound(program(1)), OkStatus());
  EXPECT_EQ(state.NoteBound(program(2)).code(), StatusCode::kResourceExhausted);
  state.Reset(Generation(1));
  EXPECT_EQ(state.NoteBound(program(2)), OkStatus());
}

TEST_F(SessionStateTest, AbortsRaceWithResets) {
  constexpr uint32_t kGenerations = 2000;
  std::atomic<bool> done{false};
  std::thread aborter([&] {
    for (uint32_t i = 0; !done; i = (i + 1) % kGenerations) {
      state_.Abort({Generation(i), 0, Error(StatusCode::kInternal, 2)});
    }
  });
  for (uint32_t generation = 1; generation < kGenerations; ++generation) {
    state_.Reset(Generation(generation));
    if (!state_.has_failed()) (void)Connect({0});
    if (state_.has_failed()) {
      EXPECT_FALSE(state_.failure().ok());
    }
  }
  done = true;
  aborter.join();
}

}  // namespace
}  // namespace lockstep::worker
