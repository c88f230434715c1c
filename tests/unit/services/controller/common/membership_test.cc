#include "services/controller/common/membership.h"

#include <capnp/message.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/base/version.h"

namespace lockstep::controller {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Candidate MakeCandidate(Rank wanted = -1) {
  Candidate candidate;
  candidate.min_version = kOldestProtocolVersion;
  candidate.max_version = kProtocolVersion;
  candidate.build = "9.9.9";
  candidate.wanted_rank = wanted;
  candidate.host = "node";
  candidate.pid = 100 + wanted;
  return candidate;
}

TEST(MembershipTest, RanksAreGivenAsWantedOrLowestFree) {
  Membership members("c", 4);
  EXPECT_EQ(*members.Admit("a", MakeCandidate(1)), 1);
  EXPECT_EQ(*members.Admit("b", MakeCandidate()), 0);
  EXPECT_EQ(*members.Admit("c", MakeCandidate()), 2);
  EXPECT_FALSE(members.AllPresent());
  EXPECT_EQ(*members.Admit("d", MakeCandidate(3)), 3);
  EXPECT_TRUE(members.AllPresent());
  EXPECT_THAT(members.peers(), IsEmpty()) << "no worker is welcome yet";
  members.WelcomeAll();
  EXPECT_FALSE(members.AllReady());
  EXPECT_THAT(members.peers(), ElementsAre("b", "a", "c", "d"));
  EXPECT_EQ(members.FindPeer("c"), 2);
  EXPECT_EQ(members.FindPeer("nobody"), -1);
}

TEST(MembershipTest, TakenRankIsRefusedAndItsOwnerNamed) {
  Membership members("c", 2);
  ASSERT_TRUE(members.Admit("a", MakeCandidate(1)).ok());
  const Status status = members.Admit("b", MakeCandidate(1)).status();
  EXPECT_EQ(status.code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(Message(status), HasSubstr("rank 1 is taken by node:101"));
  EXPECT_EQ(members.FindPeer("b"), -1);
  EXPECT_EQ(*members.Admit("b", MakeCandidate(0)), 0) << "the refused one may ask for another";
}

TEST(MembershipTest, RankBeyondTheWorldIsRefused) {
  Membership members("c", 2);
  const Status status = members.Admit("a", MakeCandidate(2)).status();
  EXPECT_EQ(status.code(), StatusCode::kOutOfRange);
  EXPECT_THAT(Message(status), HasSubstr("ranks 0 to 1"));
}

TEST(MembershipTest, OneTooManyIsRefused) {
  Membership members("c", 1);
  ASSERT_TRUE(members.Admit("a", MakeCandidate()).ok());
  const Status status = members.Admit("b", MakeCandidate()).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(status), HasSubstr("complete"));
}

TEST(MembershipTest, WhoLeavesTheFirstRanksToOthersTakesNoneOfThem) {
  Membership members("c", 3);
  Candidate candidate = MakeCandidate();
  candidate.first_rank = 1;
  EXPECT_EQ(*members.Admit("a", candidate), 1);
  EXPECT_EQ(*members.Admit("b", candidate), 2);
  const Status status = members.Admit("c", candidate).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(status), HasSubstr("all ranks from 1 on have joined"));
  EXPECT_EQ(members.LowestFree(0), 0);
  candidate.first_rank = 3;
  EXPECT_EQ(members.Check(candidate).code(), StatusCode::kOutOfRange);
}

// One peer with two ranks would get everything twice.
TEST(MembershipTest, PeerJoinsOnce) {
  Membership members("c", 2);
  ASSERT_TRUE(members.Admit("a", MakeCandidate(0)).ok());
  EXPECT_EQ(members.Admit("a", MakeCandidate(1)).status().code(), StatusCode::kAlreadyExists);
  EXPECT_FALSE(members.AllPresent());
}

TEST(MembershipTest, WorkerOfAnotherClusterIsRefused) {
  Membership members("mine", 1);
  Candidate candidate = MakeCandidate();
  candidate.cluster = "theirs";
  const Status status = members.Admit("a", candidate).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(status), HasSubstr("\"mine\""));
  EXPECT_THAT(Message(status), HasSubstr("\"theirs\""));
  candidate.cluster = "mine";
  EXPECT_TRUE(members.Admit("a", candidate).ok());
}

TEST(MembershipTest, WorkerWithoutACommonVersionIsRefused) {
  Membership members("c", 1);
  Candidate candidate = MakeCandidate();
  candidate.min_version = kProtocolVersion + 1;
  candidate.max_version = kProtocolVersion + 5;
  const Status newer = members.Admit("a", candidate).status();
  EXPECT_EQ(newer.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(newer), HasSubstr("9.9.9"));
  EXPECT_THAT(Message(newer), HasSubstr(kBuildVersion));
  candidate.min_version = 0;
  candidate.max_version = kOldestWorkerProtocolVersion - 1;
  EXPECT_EQ(members.Admit("a", candidate).status().code(), StatusCode::kFailedPrecondition);
  // A range that holds ours is fine.
  candidate.max_version = kProtocolVersion + 1;
  EXPECT_TRUE(members.Admit("a", candidate).ok());
}

TEST(MembershipTest, WholeSaysWhoIsMissing) {
  Membership members("c", 3);
  EXPECT_THAT(Message(members.Whole()), HasSubstr("0 of 3 workers are ready; waiting for "
                                                  "ranks 0-2"));
  ASSERT_TRUE(members.Admit("b", MakeCandidate(1)).ok());
  EXPECT_THAT(Message(members.Whole()), HasSubstr("0, 1 (joining), 2"));
  ASSERT_TRUE(members.Admit("a", MakeCandidate(0)).ok());
  ASSERT_TRUE(members.Admit("c", MakeCandidate(2)).ok());
  members.WelcomeAll();
  members.MarkReady(0, "shm");
  members.MarkReady(1, "shm");
  EXPECT_EQ(members.Whole().code(), StatusCode::kUnavailable);
  EXPECT_THAT(Message(members.Whole()), HasSubstr("2 of 3"));
  members.MarkReady(2, "shm");
  EXPECT_TRUE(members.AllReady());
  EXPECT_TRUE(members.Whole().ok());
  EXPECT_EQ(members.member(2).backend, "shm");
}

TEST(MembershipTest, LostWorkerLeavesAHoleThatAnotherFills) {
  Membership members("c", 2);
  ASSERT_TRUE(members.Admit("a", MakeCandidate(0)).ok());
  ASSERT_TRUE(members.Admit("b", MakeCandidate(1)).ok());
  members.WelcomeAll();
  members.MarkReady(0, "shm");
  members.MarkReady(1, "shm");
  members.MarkLost(1, "its process 101 has ended", /*may_live=*/false);
  EXPECT_FALSE(members.AllPresent());
  EXPECT_FALSE(members.AllReady());
  EXPECT_THAT(members.peers(), ElementsAre("a"));
  EXPECT_EQ(members.Whole().code(), StatusCode::kUnavailable);
  EXPECT_THAT(Message(members.Whole()),
              HasSubstr("rank 1 (node:101) is lost: its process 101 has ended"));
  EXPECT_THAT(Message(members.Whole()), Not(HasSubstr("kill")));
  members.MarkLost(1, "nothing was heard of it", /*may_live=*/true);
  EXPECT_THAT(
      Message(members.Whole()),
      HasSubstr("nothing was heard of it; `kill -9 101` on node ends it if it is still there"));
  // Its last words change nothing.
  members.MarkReady(1, "shm");
  EXPECT_EQ(members.member(1).state, Membership::State::kLost);

  EXPECT_EQ(*members.Admit("c", MakeCandidate(-1)), 1);
  EXPECT_EQ(members.FindPeer("b"), -1) << "another has its rank";
  EXPECT_TRUE(members.AllPresent());
  EXPECT_THAT(members.peers(), ElementsAre("a")) << "until it is welcome";
  EXPECT_THAT(members.PeersAndCandidates(), ElementsAre("a", "c"));
  members.WelcomeAll();
  EXPECT_THAT(members.peers(), ElementsAre("a", "c"));
  EXPECT_THAT(Message(members.Whole()), HasSubstr("0 of 2 workers are ready"));
}

TEST(MembershipTest, RankOfALossIsLostAgainIfItsReplacementLeaves) {
  Membership members("c", 1);
  ASSERT_TRUE(members.Admit("a", MakeCandidate(0)).ok());
  members.WelcomeAll();
  members.MarkLost(0, "the first reason", /*may_live=*/true);
  Candidate replacement = MakeCandidate(0);
  replacement.pid = 777;
  ASSERT_TRUE(members.Admit("b", replacement).ok());
  members.Free(0, "the second reason");
  EXPECT_FALSE(members.AllPresent());
  EXPECT_EQ(members.member(0).state, Membership::State::kLost);
  EXPECT_THAT(Message(members.Whole()),
              AllOf(HasSubstr("the first reason"), HasSubstr(":777) is gone, too: the second"),
                    HasSubstr("`kill -9 " + std::to_string(MakeCandidate(0).pid) + "` on node")))
      << "the one that was lost first may be there still";
  EXPECT_EQ(*members.Admit("c", MakeCandidate(0)), 0);
  members.WelcomeAll();
  EXPECT_EQ(members.member(0).lost_because, "");
}

TEST(MembershipTest, FreedRankIsAsIfNobodyHadAsked) {
  Membership members("c", 2);
  ASSERT_TRUE(members.Admit("a", MakeCandidate(0)).ok());
  ASSERT_TRUE(members.Admit("b", MakeCandidate(1)).ok());
  members.Free(0, "it left");
  EXPECT_FALSE(members.AllPresent());
  EXPECT_EQ(members.FindPeer("a"), -1);
  EXPECT_EQ(members.member(0).state, Membership::State::kMissing);
  EXPECT_EQ(members.member(0).facts.pid, 0);
  EXPECT_THAT(members.PeersAndCandidates(), ElementsAre("b"));
  EXPECT_THAT(Message(members.Whole()), HasSubstr("waiting for ranks 0, 1 (joining)"));
  EXPECT_EQ(*members.Admit("c", MakeCandidate(-1)), 0);
  members.Free(0, "it left");
  EXPECT_EQ(*members.Admit("a", MakeCandidate(0)), 0) << "the same peer may come again";
}

TEST(MembershipTest, CandidateIsReadFromItsHelloAndShownAsAPeer) {
  capnp::MallocMessageBuilder message;
  auto hello = message.initRoot<wire::Hello>();
  hello.setMinVersion(1);
  hello.setMaxVersion(3);
  hello.setCluster("c");
  hello.setRank(1);
  hello.initHost().setName("node");
  hello.getHost().setId("boot/7");
  hello.setPid(42);
  hello.setDevice("cpu:0");
  hello.setSegment("lockstep-x");
  hello.setBulkEndpoint("tcp://127.0.0.1:1");
  hello.setMetricsEndpoint("http://127.0.0.1:2");
  const Candidate candidate = ReadCandidate(hello.asReader());
  EXPECT_EQ(candidate.min_version, 1u);
  EXPECT_EQ(candidate.max_version, 3u);
  EXPECT_EQ(candidate.wanted_rank, 1);
  EXPECT_EQ(candidate.first_rank, 0);

  Membership members("c", 2);
  ASSERT_TRUE(members.Admit("a", candidate).ok());
  capnp::MallocMessageBuilder other;
  auto peer = other.initRoot<wire::Peer>();
  WritePeer(peer, 1, members.member(1));
  EXPECT_EQ(peer.getRank(), 1);
  EXPECT_EQ(std::string(peer.getHost().getName().cStr()), "node");
  EXPECT_EQ(std::string(peer.getHost().getId().cStr()), "boot/7");
  EXPECT_EQ(peer.getPid(), 42);
  EXPECT_EQ(std::string(peer.getDevice().cStr()), "cpu:0");
  EXPECT_EQ(std::string(peer.getSegment().cStr()), "lockstep-x");
  EXPECT_EQ(std::string(peer.getBulkEndpoint().cStr()), "tcp://127.0.0.1:1");
  EXPECT_EQ(std::string(peer.getMetricsEndpoint().cStr()), "http://127.0.0.1:2");

  hello.setRank(-1 - 2);
  EXPECT_EQ(ReadCandidate(hello.asReader()).wanted_rank, -1);
  EXPECT_EQ(ReadCandidate(hello.asReader()).first_rank, 2);
}

}  // namespace
}  // namespace lockstep::controller
