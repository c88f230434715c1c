#include "runtime/client/unpaired_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace lockstep::client {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr OperationUse kSend{.kind = OperationKind::kSendToNextGroup};
constexpr OperationUse kReceive{.kind = OperationKind::kReceiveFromPreviousGroup};

OperationUse AllReduceOf(const std::vector<Rank>& team) {
  return {.kind = OperationKind::kAllReduce, .team = team};
}
OperationUse Rooted(OperationKind kind, Rank root) { return {.kind = kind, .root = root}; }

// Six ranks: 0 and 1, 2 and 3, 4 and 5 are groups.
class UnpairedMessagesTest : public testing::Test {
 protected:
  void Issue(const OperationUse& use) {
    ASSERT_EQ(messages_.CheckOperation(use), OkStatus());
    messages_.Add(use, command_++);
  }
  // The ranks for which a wait is refused.
  std::vector<Rank> Refused() const {
    std::vector<Rank> refused;
    for (Rank rank = 0; rank < 6; ++rank) {
      if (!messages_.CheckWait(rank).ok()) refused.push_back(rank);
    }
    return refused;
  }
  bool Refuses(const OperationUse& use) const { return !messages_.CheckOperation(use).ok(); }

  UnpairedMessages messages_{6, 3};
  uint64_t command_ = 17;
};

TEST_F(UnpairedMessagesTest, SendersAreHeldUpUntilTheirReceiveIsIssued) {
  EXPECT_EQ(Refused(), std::vector<Rank>());
  Issue(kSend);
  EXPECT_EQ(Refused(), (std::vector<Rank>{0, 1, 2, 3}));
  EXPECT_EQ(Message(messages_.CheckWait(3)),
            "rank 3 sends to rank 5 (SendToNextGroup, command 17), but nothing receives it there: "
            "issue ReceiveFromPreviousGroup before waiting, or Reset()");
  EXPECT_THAT(Message(messages_.CheckWait(-1)), HasSubstr("ranks 0-3 send to ranks 2-5 (Send"));
  Issue(kReceive);
  EXPECT_TRUE(messages_.IsEmpty());
  EXPECT_EQ(messages_.CheckWait(-1), OkStatus());
}

TEST_F(UnpairedMessagesTest, ReceiversAreHeldUpUntilTheirSendIsIssued) {
  Issue(kReceive);
  EXPECT_EQ(Refused(), (std::vector<Rank>{2, 3, 4, 5}));
  EXPECT_EQ(Message(messages_.CheckWait(2)),
            "rank 2 receives from rank 0 (ReceiveFromPreviousGroup, command 17), but nothing is "
            "sent there: issue SendToNextGroup before waiting, or Reset()");
  EXPECT_EQ(messages_.CheckWait(-1).code(), StatusCode::kFailedPrecondition);
  Issue(kSend);
  EXPECT_TRUE(messages_.IsEmpty());
}

TEST_F(UnpairedMessagesTest, SeveralArePairedInOrder) {
  Issue(kSend);
  Issue(kSend);
  Issue(kSend);
  EXPECT_THAT(Message(messages_.CheckWait(0)), HasSubstr("command 17 and 2 more"));
  Issue(kReceive);
  EXPECT_THAT(Message(messages_.CheckWait(0)), HasSubstr("command 18 and 1 more"));
  EXPECT_EQ(Refused(), (std::vector<Rank>{0, 1, 2, 3}));
  Issue(kReceive);
  Issue(kReceive);
  EXPECT_TRUE(messages_.IsEmpty());
  Issue(kReceive);
  EXPECT_THAT(Message(messages_.CheckWait(4)), HasSubstr("command 23)"));
}

TEST_F(UnpairedMessagesTest, InOneGroupNothingIsSent) {
  UnpairedMessages messages(6, 1);
  messages.Add(kSend, 1);
  messages.Add(kSend, 2);
  messages.Add(kReceive, 3);
  EXPECT_TRUE(messages.IsEmpty());
}

TEST_F(UnpairedMessagesTest, CollectivesThatNeedBothEndsOfAPairAreRefused) {
  const std::vector<Rank> pair = {2, 0};
  const std::vector<Rank> far_pair = {5, 1};
  const std::vector<Rank> no_pair = {1, 2, 4};
  for (const OperationUse& first : {kSend, kReceive}) {
    messages_.Clear();
    EXPECT_FALSE(Refuses({.kind = OperationKind::kBarrier}));
    Issue(first);
    EXPECT_TRUE(Refuses({.kind = OperationKind::kBarrier}));
    EXPECT_FALSE(Refuses({.kind = OperationKind::kBarrier, .in_group = true}));
    EXPECT_TRUE(Refuses(AllReduceOf(pair)));
    EXPECT_TRUE(Refuses(AllReduceOf(far_pair)));
    EXPECT_TRUE(Refuses(AllReduceOf(no_pair))) << "2 and 4";
    EXPECT_TRUE(Refuses({.kind = OperationKind::kTransfer, .root = 3, .peer = 5}));
    EXPECT_FALSE(Refuses({.kind = OperationKind::kTransfer, .root = 3, .peer = 4}));
    EXPECT_FALSE(Refuses(kSend));
    EXPECT_FALSE(Refuses(kReceive));
  }
}

TEST_F(UnpairedMessagesTest, RefusedCollectivesNameThePair) {
  Issue(kSend);
  const Status status = messages_.CheckOperation({.kind = OperationKind::kAllReduce});
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Message(status),
            "allreduce would never end: rank 0 sends to rank 2 (SendToNextGroup, command 17), but "
            "nothing receives it there before; issue ReceiveFromPreviousGroup first, or Reset()");
}

// A root may go on before those that it sends to, and those that send to it before it.
TEST_F(UnpairedMessagesTest, CollectivesWithARootAreRefusedWhereTheRootMatters) {
  Issue(kSend);
  EXPECT_TRUE(Refuses(Rooted(OperationKind::kBroadcast, 0)));
  EXPECT_TRUE(Refuses(Rooted(OperationKind::kScatter, 3)));
  EXPECT_FALSE(Refuses(Rooted(OperationKind::kBroadcast, 5)));
  EXPECT_TRUE(Refuses(Rooted(OperationKind::kReduce, 5)));
  EXPECT_TRUE(Refuses(Rooted(OperationKind::kGather, 2)));
  EXPECT_FALSE(Refuses(Rooted(OperationKind::kReduce, 1)));
  messages_.Clear();
  Issue(kReceive);
  EXPECT_TRUE(Refuses(Rooted(OperationKind::kBroadcast, 5)));
  EXPECT_FALSE(Refuses(Rooted(OperationKind::kBroadcast, 1)));
  EXPECT_TRUE(Refuses(Rooted(OperationKind::kReduce, 0)));
  EXPECT_FALSE(Refuses(Rooted(OperationKind::kReduce, 4)));
}

// A root is counted among the team.
TEST_F(UnpairedMessagesTest, RootsOfTeamsAreMembersOfTheirs) {
  const std::vector<Rank> team = {5, 0, 4};
  Issue(kSend);
  EXPECT_TRUE(Refuses({.kind = OperationKind::kBroadcast, .team = team, .root = 1}));
  EXPECT_FALSE(Refuses({.kind = OperationKind::kBroadcast, .team = team, .root = 0}));
}

TEST_F(UnpairedMessagesTest, RanksThatNeedARankThatIsHeldUpAreSoThemselves) {
  const std::vector<Rank> team = {1, 4};
  Issue(kSend);
  Issue(AllReduceOf(team));
  EXPECT_EQ(Refused(), (std::vector<Rank>{0, 1, 2, 3, 4}));
  EXPECT_THAT(
      Message(messages_.CheckWait(4)),
      AllOf(HasSubstr(
                "rank 4 waits in allreduce (command 18) for rank 1, and rank 1 sends to rank 3"),
            HasSubstr("issue ReceiveFromPreviousGroup")));
  Issue({.kind = OperationKind::kBarrier, .in_group = true});
  EXPECT_EQ(Refused(), (std::vector<Rank>{0, 1, 2, 3, 4, 5}));
  EXPECT_THAT(Message(messages_.CheckWait(5)), HasSubstr("barrier (command 19) for rank 1"));
  // Rank 1 has sent what came before the allreduce.
  Issue(kSend);
  Issue(kReceive);
  EXPECT_EQ(Refused(), (std::vector<Rank>{0, 1, 2, 3}));
}

TEST_F(UnpairedMessagesTest, OneThatOnlyGivesToARootDoesNotWait) {
  const std::vector<Rank> team = {4, 1};
  Issue(kSend);
  Issue({.kind = OperationKind::kGather, .team = team, .root = 1});
  EXPECT_EQ(Refused(), (std::vector<Rank>{0, 1, 2, 3}));
  Issue({.kind = OperationKind::kBroadcast, .team = team, .root = 0});
  EXPECT_EQ(Refused(), (std::vector<Rank>{0, 1, 2, 3}));
  Issue({.kind = OperationKind::kGather, .team = team, .root = 0});
  EXPECT_EQ(Refused(), (std::vector<Rank>{0, 1, 2, 3, 4}));
}

TEST_F(UnpairedMessagesTest, ANewGenerationHasNothingUnpaired) {
  Issue(kSend);
  EXPECT_FALSE(messages_.CheckEnd().ok());
  messages_.Clear();
  EXPECT_EQ(messages_.CheckEnd(), OkStatus());
  Issue(kReceive);
  EXPECT_EQ(Refused(), (std::vector<Rank>{2, 3, 4, 5}));
}

// Another thread may be about to issue the other half; what ends the session ends it for all.
TEST_F(UnpairedMessagesTest, OnlyTheThreadThatIssuedAllIsRefused) {
  Issue(kSend);
  std::thread([&] {
    EXPECT_EQ(messages_.CheckWait(0), OkStatus());
    EXPECT_FALSE(messages_.CheckEnd().ok());
    EXPECT_TRUE(Refuses({.kind = OperationKind::kBarrier})) << "it would come between the halves";
    messages_.Add(kSend, 18);
  }).join();
  EXPECT_EQ(messages_.CheckWait(0), OkStatus());
}

}  // namespace
}  // namespace lockstep::client
