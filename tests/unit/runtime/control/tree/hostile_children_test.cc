// Workers that send what they like to the relay above them: it is their own loss, not that of the
// relay, of those above it, or of those beside them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/control/tree/packet.h"
#include "tests/unit/runtime/control/tree/tree_network.h"

namespace lockstep::control {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Worker 6 is hostile; it gets its commands from 2, as 7 does, and 2 from 0.
class HostileChildTest : public testing::Test {
 protected:
  static constexpr size_t kHostile = 6;

  void SetUp() override { network_.Join(); }
  // What worker 6 says to the relay above it.
  void SayAs6(const Message& message) {
    network_.at(2).relay->up[network_.at(kHostile).peer].push_back(message);
    network_.Settle();
  }
  Message BundleOf(uint64_t worker, const std::string& text, uint64_t number = 1) {
    BundleWriter writer;
    writer.Add(worker, AnswerKey(), uint64_t{1} << 40, TextMessage(text));
    return writer.Take(1, number, 0);
  }
  bool IsBelowAnother(size_t index) {
    return network_.server().IsBelowAnother(network_.at(index).peer);
  }
  // The relays go on, as do all others below them.
  void ExpectOnly6IsServedDirectly() {
    EXPECT_THAT(network_.server().TakeBroken(), IsEmpty());
    EXPECT_FALSE(IsBelowAnother(kHostile));
    EXPECT_EQ(network_.CountBelowOthers(), 11);
    network_.Broadcast("call");
    for (size_t i = 0; i < network_.size(); ++i) network_.Say(i, "answer");
    network_.Settle();
    for (size_t i = 0; i < network_.size(); ++i) {
      EXPECT_EQ(network_.at(i).heard.back(), "call") << "worker " << i;
      EXPECT_THAT(network_.AnswersOf(i), ElementsAre("answer")) << "worker " << i;
    }
  }

  TreeNetwork network_{14, 2};
};

TEST_F(HostileChildTest, AnswersOfWorkersThatAreNotBelowItGoNoFurther) {
  BundleWriter writer;
  for (uint64_t worker = 1; worker <= network_.size(); ++worker) {
    writer.Add(worker, AnswerKey(), uint64_t{1} << 40, TextMessage("evil"));
  }
  SayAs6(writer.Take(1, 1, 0));
  ExpectOnly6IsServedDirectly();
}

TEST_F(HostileChildTest, ARelayIsNotSpokenForByTheOneBelowIt) {
  SayAs6(BundleOf(network_.OfferOf(2).worker, "evil"));
  ExpectOnly6IsServedDirectly();
}

TEST_F(HostileChildTest, WhatIsNoBundleGoesNoFurther) {
  Message bundle = BundleOf(network_.OfferOf(kHostile).worker, "evil");
  bundle[1] = Frame::Copy("\xff\xff\xff\xff\xff\xff\xff\xff", 8);
  SayAs6(bundle);
  ExpectOnly6IsServedDirectly();
}

// Else it would swallow what others have said that is behind it in the relay's bundle.
TEST_F(HostileChildTest, AnAnswerThatIsSaidToBeLongerThanItsBundleGoesNoFurther) {
  Message bundle = BundleOf(network_.OfferOf(kHostile).worker, "evil");
  bundle[1] = bundle[1].Part(0, bundle[1].size() - 8);
  SayAs6(bundle);
  ExpectOnly6IsServedDirectly();
}

TEST_F(HostileChildTest, ALargeAnswerWithoutItsFramesGoesNoFurther) {
  Message bundle = BundleOf(network_.OfferOf(kHostile).worker, std::string(100'000, 'x'));
  bundle.resize(2);
  SayAs6(bundle);
  ExpectOnly6IsServedDirectly();
}

TEST_F(HostileChildTest, FramesOfNoAnswerGoNoFurther) {
  Message bundle = BundleOf(network_.OfferOf(kHostile).worker, "evil");
  bundle.push_back(Frame::Copy("evil", 4));
  SayAs6(bundle);
  ExpectOnly6IsServedDirectly();
}

// It is heard directly then, where what it makes up counts as its own.
TEST_F(HostileChildTest, WhatItGoesOnToSayToTheRelayIsNotHeard) {
  SayAs6(BundleOf(network_.OfferOf(2).worker, "evil"));
  const std::string place("\6\0\0\0\0\0\0\0", 8);
  SayAs6(MakeNote(TreeWord::kJoin, 1, 0, {place}));
  SayAs6(BundleOf(network_.OfferOf(kHostile).worker, "evil"));
  EXPECT_EQ(network_.at(2).node->children(), 1u);
  ExpectOnly6IsServedDirectly();
}

TEST_F(HostileChildTest, MoreThanABundleHoldsGoesNoFurther) {
  BundleWriter writer;
  const std::string text(kLargestPacked, 'x');
  for (int i = 0; i < 4; ++i) {
    writer.Add(network_.OfferOf(kHostile).worker, AnswerKey(), uint64_t{1} << 40,
               TextMessage(text));
  }
  const Message bundle = writer.Take(1, 1, 0);
  EXPECT_FALSE(CheckBundle(bundle, [](uint64_t) { return true; }).ok());
  SayAs6(bundle);
  ExpectOnly6IsServedDirectly();
}

// However many connections show its key, they get as much as one, and nothing once it is to return.
TEST_F(HostileChildTest, AChildHasOneConnectionWithItsRelay) {
  const std::string place("\6\0\0\0\0\0\0\0", 8);
  FakeListener& relay = *network_.at(2).relay;
  std::vector<std::shared_ptr<FakeLink>> links;
  for (const char* const name : {"one", "two", "three", "four", "five"}) {
    links.push_back(relay.links[name] = std::make_shared<FakeLink>());
    relay.up[name].push_back(MakeNote(TreeWord::kJoin, 1, 0, {place}));
  }
  network_.Settle();
  EXPECT_EQ(network_.at(2).node->children(), 2u);
  EXPECT_TRUE(network_.server().Reparent(network_.at(kHostile).peer));
  network_.Settle();
  EXPECT_EQ(network_.at(2).node->children(), 1u);
  for (const auto& link : links) link->sent_down = 0;
  network_.Broadcast("call");
  network_.Settle();
  for (const auto& link : links) EXPECT_EQ(link->sent_down, 0u);
}

// A turn of the relay ends, whatever comes: else the worker could neither say anything nor end.
TEST_F(HostileChildTest, ARelayGoesOnWhileOneBelowItSpeaksWithoutAnEnd) {
  auto& up = network_.at(2).relay->up[network_.at(kHostile).peer];
  constexpr int kMany = 100'000;
  for (int i = 0; i < kMany; ++i) up.push_back(MakeNote(TreeWord::kTaken, 1, 0));
  network_.Say(2, "answer");
  network_.Go(2);
  EXPECT_GT(network_.at(2).relay->up[network_.at(kHostile).peer].size(), kMany / 2u);
  network_.Go(0);
  network_.TakeAnswers();
  EXPECT_THAT(network_.AnswersOf(2), ElementsAre("answer"));
}

}  // namespace
}  // namespace lockstep::control
