// Connections that break, and come back, lose what was under way by them. What workers have said
// arrives all the same, once and in order, and nobody is given up for it. A worker notices when it
// has missed a command.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/runtime/control/tree/tree_network.h"

namespace lockstep::control {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class LostMessagesTest : public testing::Test {
 protected:
  void SetUp() override { network_.Join(); }
  // The connection loses the next bundle that has answers.
  static void LoseOneOf(FakeLink& link) {
    link.spoil_up = [is_lost = false](const Message& message, const auto& pass) mutable {
      const auto note = ReadTreeNote(message);
      const bool is_bundle = note.has_value() && note->word == TreeWord::kBundle;
      const bool is_next = is_bundle && message[1].size() > 0 && !is_lost;
      if (!is_next) return pass(message);
      is_lost = true;
    };
  }
  void Say(size_t worker, const std::string& text) {
    network_.Say(worker, text);
    network_.Settle();
  }
  void ExpectNobodyIsGivenUp() { EXPECT_THAT(network_.server().TakeBroken(), IsEmpty()); }

  TreeNetwork network_{14, 2};
};

TEST_F(LostMessagesTest, WhatALinkOfTheTreeHasLostIsSaidAgain) {
  LoseOneOf(network_.LinkOf(0, 2));
  Say(6, "a");
  EXPECT_THAT(network_.AnswersOf(6), IsEmpty());
  // Enough for them to be told to have arrived.
  for (int i = 0; i < 40; ++i) Say(2, "x");
  EXPECT_THAT(network_.AnswersOf(6), ElementsAre("a"));
  EXPECT_EQ(network_.AnswersOf(2).size(), 40u);
  Say(6, "b");
  Say(6, "c");
  EXPECT_THAT(network_.AnswersOf(6), ElementsAre("a", "b", "c"));
  ExpectNobodyIsGivenUp();
}

TEST_F(LostMessagesTest, TheFirstThatALinkHasLostIsNoticed) {
  LoseOneOf(network_.LinkOf(2, 6));
  Say(6, "a");
  Say(6, "b");
  EXPECT_THAT(network_.AnswersOf(6), ElementsAre("a", "b"));
  ExpectNobodyIsGivenUp();
}

TEST_F(LostMessagesTest, TheLastThatALinkHasLostIsSaidAgainWhenItIsKnownToHaveEnded) {
  LoseOneOf(network_.LinkOf(0, 2));
  Say(6, "a");
  EXPECT_THAT(network_.AnswersOf(6), IsEmpty());
  network_.LinkOf(0, 2).interruptions = 1;
  network_.Settle();
  EXPECT_THAT(network_.AnswersOf(6), ElementsAre("a"));
  EXPECT_FALSE(network_.server().IsBelowAnother(network_.at(2).peer));
  ExpectNobodyIsGivenUp();
}

TEST_F(LostMessagesTest, WhatAConnectionWithTheControllerHasLostIsSaidAgain) {
  LoseOneOf(network_.DirectLinkOf(0));
  Say(6, "a");
  EXPECT_THAT(network_.AnswersOf(6), IsEmpty());
  for (int i = 0; i < 40; ++i) Say(0, "x");
  EXPECT_THAT(network_.AnswersOf(6), ElementsAre("a"));
  EXPECT_EQ(network_.AnswersOf(0).size(), 40u);
  EXPECT_EQ(network_.CountBelowOthers(), 12) << "that costs no worker its place";
  ExpectNobodyIsGivenUp();
}

TEST_F(LostMessagesTest, WhoeverHasLostSomethingDirectlyDoesNotAttachBeforeItIsSaidAgain) {
  network_.Welcome();
  network_.Settle();
  network_.Begin();
  LoseOneOf(network_.DirectLinkOf(2));
  network_.Say(2, "a");
  network_.Go(2);
  network_.Say(2, "b");
  network_.Broadcast("call");
  network_.Settle();
  Say(2, "c");
  EXPECT_THAT(network_.AnswersOf(2), ElementsAre("a", "b", "c"));
  ExpectNobodyIsGivenUp();
}

// The worker itself is lost then, by the numbers of its batches. Those below it miss nothing.
TEST_F(LostMessagesTest, ACommandThatAConnectionWithTheControllerHasLostIsMissedWithTheNext) {
  network_.DirectLinkOf(0).spoil_down = [is_lost = false](const Message& message,
                                                          std::deque<Message>& down) mutable {
    const auto note = ReadTreeNote(message);
    const bool is_packet = note.has_value() && note->word == TreeWord::kPacket;
    if (is_packet && !std::exchange(is_lost, true)) return;
    down.push_back(message);
  };
  for (const std::string text : {"one", "two", "three"}) {
    network_.Broadcast(text);
    network_.Settle();
  }
  const auto last_of = [this](size_t worker, size_t count) {
    const std::vector<std::string>& heard = network_.at(worker).heard;
    if (heard.size() < count) return heard;
    return std::vector<std::string>(heard.end() - static_cast<long>(count), heard.end());
  };
  EXPECT_THAT(last_of(0, 3), ElementsAre("first", "two", "three"));
  for (const size_t below : {2u, 3u, 6u}) {
    EXPECT_THAT(last_of(below, 4), ElementsAre("first", "one", "two", "three"));
  }
  ExpectNobodyIsGivenUp();
}

}  // namespace
}  // namespace lockstep::control
