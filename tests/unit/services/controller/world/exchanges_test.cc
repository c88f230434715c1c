#include "services/controller/world/exchanges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep::controller {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint64_t kKey = 7;

// What `rank` offers is "FROM>TO".
Exchanges::Offer OfferOf(Rank rank, uint64_t number, const std::vector<Rank>& members,
                         uint64_t key = kKey, Epoch epoch = Epoch(1)) {
  Exchanges::Offer offer{rank, epoch, number, key, members, {}};
  for (const Rank to : members) {
    offer.offered.push_back(std::to_string(rank) + ">" + std::to_string(to));
  }
  return offer;
}

TEST(ExchangesTest, TheLastToComeAnswersAllMembers) {
  Exchanges exchanges(3);
  EXPECT_THAT(exchanges.Take(OfferOf(2, 1, {2, 0})), IsEmpty());
  const auto answers = exchanges.Take(OfferOf(0, 5, {2, 0}));
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0].to, 2);
  EXPECT_EQ(answers[0].number, 1u);
  EXPECT_THAT(answers[0].offered->texts, ElementsAre("2>2", "0>2"));
  EXPECT_EQ(answers[1].to, 0);
  EXPECT_EQ(answers[1].number, 5u);
  EXPECT_THAT(answers[1].offered->texts, ElementsAre("2>0", "0>0"));
  EXPECT_THAT(answers[1].missing, IsEmpty());
}

TEST(ExchangesTest, OneOfferCanBeForAll) {
  Exchanges exchanges(2);
  exchanges.Take({0, Epoch(1), 1, kKey, {0, 1}, {"to all"}});
  const auto answers = exchanges.Take(OfferOf(1, 1, {0, 1}));
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_THAT(answers[0].offered->texts, ElementsAre("to all", "1>0"));
  EXPECT_THAT(answers[1].offered->texts, ElementsAre("to all", "1>1"));
}

TEST(ExchangesTest, WhoSaysItAgainHearsHowItStands) {
  Exchanges exchanges(3);
  exchanges.Take(OfferOf(0, 1, {0, 1, 2}));
  exchanges.Take(OfferOf(1, 1, {0, 1, 2}));
  const auto waiting = exchanges.Take(OfferOf(0, 1, {0, 1, 2}));
  ASSERT_EQ(waiting.size(), 1u);
  EXPECT_THAT(waiting[0].missing, ElementsAre(2));
  exchanges.Take(OfferOf(2, 1, {0, 1, 2}));
  // The answer was lost on the way.
  const auto again = exchanges.Take(OfferOf(0, 1, {0, 1, 2}));
  ASSERT_EQ(again.size(), 1u);
  EXPECT_THAT(again[0].missing, IsEmpty());
  EXPECT_THAT(again[0].offered->texts, ElementsAre("0>0", "1>0", "2>0"));
}

TEST(ExchangesTest, AKeyCanBeUsedAgain) {
  Exchanges exchanges(2);
  for (uint64_t number = 1; number <= 3; ++number) {
    EXPECT_THAT(exchanges.Take(OfferOf(0, number, {0, 1})), IsEmpty());
    EXPECT_EQ(exchanges.Take(OfferOf(1, number, {0, 1})).size(), 2u);
  }
}

TEST(ExchangesTest, DifferentKeysOrMembersDoNotMeet) {
  Exchanges exchanges(3);
  EXPECT_THAT(exchanges.Take(OfferOf(0, 1, {0, 1}, 1)), IsEmpty());
  EXPECT_THAT(exchanges.Take(OfferOf(1, 1, {0, 1}, 2)), IsEmpty());
  EXPECT_THAT(exchanges.Take(OfferOf(1, 2, {1, 0}, 1)), IsEmpty());
  EXPECT_EQ(exchanges.Take(OfferOf(1, 3, {0, 1}, 1)).size(), 2u);
}

TEST(ExchangesTest, WhoGaveUpIsNotMet) {
  Exchanges exchanges(2);
  exchanges.Take(OfferOf(0, 1, {0, 1}));
  exchanges.Take({0, Epoch(1), 2, 0, {}, {}});
  EXPECT_THAT(exchanges.Take(OfferOf(1, 1, {0, 1})), IsEmpty());
  // Overtaken by what came later.
  EXPECT_THAT(exchanges.Take(OfferOf(0, 1, {0, 1})), IsEmpty());
  EXPECT_EQ(exchanges.Take(OfferOf(0, 3, {0, 1})).size(), 2u);
}

TEST(ExchangesTest, ALaterWorldEndsWhatBegan) {
  Exchanges exchanges(2);
  exchanges.Take(OfferOf(0, 9, {0, 1}));
  EXPECT_THAT(exchanges.Take(OfferOf(1, 1, {0, 1}, kKey, Epoch(2))), IsEmpty());
  EXPECT_THAT(exchanges.Take(OfferOf(0, 10, {0, 1})), IsEmpty());
  EXPECT_EQ(exchanges.Take(OfferOf(0, 11, {0, 1}, kKey, Epoch(2))).size(), 2u);
}

TEST(ExchangesTest, ANewWorkerOfARankBeginsAnew) {
  Exchanges exchanges(2);
  exchanges.Take(OfferOf(0, 9, {0, 1}));
  exchanges.Forget(0);
  EXPECT_THAT(exchanges.Take(OfferOf(1, 1, {0, 1})), IsEmpty());
  EXPECT_EQ(exchanges.Take(OfferOf(0, 1, {0, 1})).size(), 2u);
}

TEST(ExchangesTest, NonsenseIsDropped) {
  Exchanges exchanges(2);
  EXPECT_THAT(exchanges.Take(OfferOf(0, 1, {1})), IsEmpty());     // is not a member
  EXPECT_THAT(exchanges.Take(OfferOf(0, 1, {0, 0})), IsEmpty());  // a member twice
  EXPECT_THAT(exchanges.Take(OfferOf(0, 1, {0, 2})), IsEmpty());  // no such rank
  EXPECT_THAT(exchanges.Take(OfferOf(2, 1, {0, 2})), IsEmpty());  // is no rank itself
  EXPECT_THAT(exchanges.Take(OfferOf(-1, 1, {-1})), IsEmpty());
  EXPECT_THAT(exchanges.Take({0, Epoch(1), 1, kKey, {0, 1}, {}}), IsEmpty());
  // None of it counted.
  EXPECT_EQ(exchanges.Take(OfferOf(0, 1, {0})).size(), 1u);
}

// It would be remembered under every key, and forgotten under one.
TEST(ExchangesTest, OfferSaidAgainUnderAnotherKeyIsDropped) {
  Exchanges exchanges(2);
  EXPECT_THAT(exchanges.Take(OfferOf(0, 1, {0, 1})), IsEmpty());
  EXPECT_THAT(exchanges.Take(OfferOf(0, 1, {0, 1}, kKey + 1)), IsEmpty());
  EXPECT_THAT(exchanges.Take(OfferOf(1, 1, {0, 1}, kKey + 1)), IsEmpty()) << "0 is not there";
  EXPECT_EQ(exchanges.Take(OfferOf(1, 2, {0, 1})).size(), 2u);
}

}  // namespace
}  // namespace lockstep::controller
