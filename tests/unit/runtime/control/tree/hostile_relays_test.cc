// Relays that do not pass on what they are given: nothing that they make up is taken for the
// controller's or for another worker's, and who is below them goes on without them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "runtime/control/tree/packet.h"
#include "tests/unit/runtime/control/tree/tree_network.h"

namespace lockstep::control {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

bool IsPacket(const Message& message) {
  const auto note = ReadTreeNote(message);
  return note.has_value() && note->word == TreeWord::kPacket;
}

// Worker 0 is hostile; workers 2 and 3 get their commands from it, 6 and 7 from 2.
class HostileRelayTest : public testing::Test {
 protected:
  using Spoil = std::function<void(Message, std::deque<Message>&)>;

  void SetUp() override { network_.Join(); }
  // `spoil` is what worker 0 does to packets for worker 2.
  void Spoil2(const Spoil& spoil) {
    network_.LinkOf(0, 2).spoil_down = [spoil](Message message, std::deque<Message>& down) {
      if (!IsPacket(message)) return down.push_back(std::move(message));
      spoil(std::move(message), down);
    };
  }
  // Commands one by one, each in a packet of its own.
  void Say(int count) {
    for (int i = 0; i < count; ++i) {
      said_.push_back("call " + std::to_string(said_.size()));
      network_.Broadcast(said_.back());
      network_.Settle();
    }
  }
  void ExpectAllHaveHeard() {
    std::vector<std::string> all = {"welcome 1", "first"};
    all.insert(all.end(), said_.begin(), said_.end());
    for (size_t i = 0; i < network_.size(); ++i) {
      EXPECT_EQ(network_.at(i).heard, all) << "worker " << i;
    }
    EXPECT_THAT(network_.server().TakeBroken(), IsEmpty());
  }
  bool IsBelowAnother(size_t index) {
    return network_.server().IsBelowAnother(network_.at(index).peer);
  }
  void ExpectItWasLeft() {
    EXPECT_FALSE(IsBelowAnother(2));
    EXPECT_TRUE(IsBelowAnother(3)) << "it was given the truth";
    EXPECT_TRUE(IsBelowAnother(6)) << "its parent goes on";
  }

  TreeNetwork network_{14, 2};
  std::vector<std::string> said_;
};

TEST_F(HostileRelayTest, AnAlteredPacketIsNotTaken) {
  Spoil2([](Message message, std::deque<Message>& down) {
    std::string bytes(reinterpret_cast<const char*>(message[1].data()), message[1].size());
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    message[1] = Frame::Copy(bytes.data(), bytes.size());
    down.push_back(std::move(message));
  });
  Say(3);
  ExpectItWasLeft();
  ExpectAllHaveHeard();
}

TEST_F(HostileRelayTest, AMadeUpPacketIsNotTaken) {
  const StreamSigner own;
  Spoil2([&own](const Message& message, std::deque<Message>& down) {
    PacketWriter writer;
    writer.Add(TextMessage("evil"));
    const TreeNote note = *ReadTreeNote(message);
    down.push_back(writer.Seal(note.world, note.value, own));
  });
  Say(3);
  ExpectItWasLeft();
  ExpectAllHaveHeard();
}

// A signature that is good, for another place in the order.
TEST_F(HostileRelayTest, APacketWithAnotherNumberIsNotTaken) {
  Spoil2([](Message message, std::deque<Message>& down) {
    std::string header(reinterpret_cast<const char*>(message[0].data()), message[0].size());
    TreeNote note;
    std::memcpy(&note, header.data(), sizeof note);
    down.push_back(message);
    ++note.value;
    std::memcpy(header.data(), &note, sizeof note);
    message[0] = Frame::Copy(header.data(), header.size());
    down.push_back(std::move(message));
  });
  Say(3);
  ExpectItWasLeft();
  ExpectAllHaveHeard();
}

TEST_F(HostileRelayTest, APacketThatIsLeftOutIsNoticedWithTheNext) {
  Spoil2([n = 0](Message message, std::deque<Message>& down) mutable {
    if (n++ != 1) down.push_back(std::move(message));
  });
  Say(3);
  ExpectItWasLeft();
  ExpectAllHaveHeard();
}

// Nothing that comes tells; the controller sees that a worker which waits has not got what was
// sent.
TEST_F(HostileRelayTest, AWorkerThatGetsNothingMoreGetsItDirectly) {
  Spoil2([](const Message&, std::deque<Message>&) {});
  Say(3);
  EXPECT_THAT(network_.at(2).heard, ElementsAre("welcome 1", "first"));
  EXPECT_TRUE(network_.server().Reparent(network_.at(2).peer));
  EXPECT_FALSE(network_.server().Reparent(network_.at(2).peer)) << "that is under way";
  network_.Settle();
  ExpectItWasLeft();
  ExpectAllHaveHeard();
}

TEST_F(HostileRelayTest, PacketsInAnotherOrderAreNotTaken) {
  Spoil2([kept = Message()](Message message, std::deque<Message>& down) mutable {
    if (kept.empty()) {
      kept = std::move(message);
      return;
    }
    down.push_back(std::move(message));
    down.push_back(std::move(kept));
    kept.clear();
  });
  Say(4);
  ExpectItWasLeft();
  ExpectAllHaveHeard();
}

TEST_F(HostileRelayTest, APacketThatComesAgainIsTakenOnce) {
  Spoil2([](const Message& message, std::deque<Message>& down) {
    for (int i = 0; i < 3; ++i) down.push_back(message);
  });
  Say(3);
  ExpectItWasLeft();
  ExpectAllHaveHeard();
}

TEST_F(HostileRelayTest, WordsThatAreNoRelaysAreNotTaken) {
  network_.LinkOf(0, 2).down.push_back(MakeNote(TreeWord::kLeave, 1, 1));
  network_.LinkOf(0, 3).down.push_back(TextMessage("evil"));
  network_.Settle();
  Say(2);
  EXPECT_FALSE(IsBelowAnother(2));
  EXPECT_FALSE(IsBelowAnother(3));
  ExpectAllHaveHeard();
}

// --- Answers.

Message WithAlteredAnswers(const Message& bundle) {
  Message altered = bundle;
  std::string bytes(reinterpret_cast<const char*>(bundle[1].data()), bundle[1].size());
  if (!bytes.empty()) bytes.back() = static_cast<char>(bytes.back() ^ 1);
  altered[1] = Frame::Copy(bytes.data(), bytes.size());
  return altered;
}

TEST_F(HostileRelayTest, AnAlteredAnswerIsNotTakenAndTheTrueOneIs) {
  network_.DirectLinkOf(0).spoil_up = [](const Message& message, const auto& pass) {
    const auto note = ReadTreeNote(message);
    const bool is_bundle = note.has_value() && note->word == TreeWord::kBundle;
    pass(is_bundle ? WithAlteredAnswers(message) : message);
  };
  network_.Say(2, "answer..");
  network_.Settle();
  EXPECT_THAT(network_.AnswersOf(2), ElementsAre("answer.."));
  EXPECT_FALSE(IsBelowAnother(2));
  EXPECT_THAT(network_.server().TakeBroken(), IsEmpty());
}

TEST_F(HostileRelayTest, AnAnswerThatIsLeftOutComesDirectly) {
  network_.DirectLinkOf(0).spoil_up = [n = 0](const Message& message, const auto& pass) mutable {
    const auto note = ReadTreeNote(message);
    const bool is_bundle = note.has_value() && note->word == TreeWord::kBundle;
    if (!is_bundle || n++ != 0) pass(message);
  };
  network_.Say(2, "one");
  network_.Settle();
  network_.Say(2, "two");
  network_.Settle();
  EXPECT_THAT(network_.AnswersOf(2), ElementsAre("one", "two"));
  EXPECT_THAT(network_.server().TakeBroken(), IsEmpty());
}

// It tells the worker that it has passed on what it has not: that is lost, and the controller says
// so.
TEST_F(HostileRelayTest, AnAnswerThatIsLostForGoodIsALoss) {
  network_.DirectLinkOf(0).spoil_up = [n = 0](Message message, const auto& pass) mutable {
    const auto note = ReadTreeNote(message);
    const bool is_bundle = note.has_value() && note->word == TreeWord::kBundle;
    if (is_bundle && message[1].size() > 0 && n++ == 0) {
      // As if a worker had said it that there is none of.
      std::string bytes(reinterpret_cast<const char*>(message[1].data()), message[1].size());
      bytes[4] = '\1';
      message[1] = Frame::Copy(bytes.data(), bytes.size());
    }
    pass(message);
  };
  network_.Say(2, "one");
  network_.Settle();
  network_.LinkOf(0, 2).down.push_back(MakeNote(TreeWord::kTaken, 1, 1000));
  network_.Settle();
  network_.Say(2, "two");
  network_.Settle();
  EXPECT_THAT(network_.AnswersOf(2), IsEmpty());
  network_.Say(2, "three");
  network_.Settle();
  const auto broken = network_.server().TakeBroken();
  ASSERT_FALSE(broken.empty());
  EXPECT_EQ(broken[0].peer, network_.at(2).peer);
  EXPECT_THAT(lockstep::Message(broken[0].why), HasSubstr("were lost"));
}

TEST_F(HostileRelayTest, AWorkerCannotSpeakForAnother) {
  BundleWriter writer;
  AnswerKey key;
  for (uint64_t worker = 1; worker <= network_.size(); ++worker) {
    writer.Add(worker, key, 1, TextMessage("evil"));
  }
  ASSERT_TRUE(network_.at(1).direct->Send(writer.Take(1, 1, 0)).ok());
  network_.Settle();
  for (size_t i = 0; i < network_.size(); ++i) EXPECT_THAT(network_.AnswersOf(i), IsEmpty());
  const auto broken = network_.server().TakeBroken();
  ASSERT_EQ(broken.size(), 1u) << "who says it is known";
  EXPECT_EQ(broken[0].peer, network_.at(1).peer);
  for (const size_t i : {2, 3, 6, 7, 8, 9}) {
    EXPECT_TRUE(IsBelowAnother(i)) << "worker " << i << " is not below that one";
  }
}

// Whatever it does to whatever passes through it, or comes from it.
TEST(HostileTreeTest, AnythingThatARelayAltersHarmsAtMostThoseBelowIt) {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto spoiled = [&random](Message message) {
      Frame& frame = message[random() % message.size()];
      if (frame.size() == 0 || random() % 2 == 0) return message;
      std::string bytes(reinterpret_cast<const char*>(frame.data()), frame.size());
      for (unsigned i = random() % 4; i > 0; --i) {
        bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
      }
      if (random() % 4 == 0) bytes.resize(random() % (bytes.size() + 1));
      frame = Frame::Copy(bytes.data(), bytes.size());
      return message;
    };
    TreeNetwork network(14, 2);
    network.Join();
    network.DirectLinkOf(0).spoil_up = [&](const Message& message, const auto& pass) {
      pass(spoiled(message));
    };
    for (const size_t child : {2, 3}) {
      network.LinkOf(0, child).spoil_down = [&](Message message, std::deque<Message>& down) {
        down.push_back(spoiled(std::move(message)));
      };
    }
    std::vector<std::string> said = {"welcome 1", "first"};
    for (int i = 0; i < 40; ++i) {
      said.push_back("call " + std::to_string(i));
      network.Broadcast(said.back());
      for (size_t worker = 0; worker < network.size(); ++worker) {
        network.Say(worker, std::to_string(i));
      }
      network.Settle();
    }
    for (size_t i = 1; i < network.size(); ++i) {
      const bool is_below = i == 2 || i == 3 || i == 6 || i == 7;
      const std::vector<std::string>& heard = network.at(i).heard;
      const std::vector<std::string> answers = network.AnswersOf(i);
      if (!is_below) {
        EXPECT_EQ(heard, said) << "worker " << i;
        EXPECT_EQ(answers.size(), 40u) << "worker " << i;
      }
      // Nothing else, and nothing in another order.
      ASSERT_LE(heard.size(), said.size());
      EXPECT_TRUE(std::equal(heard.begin(), heard.end(), said.begin())) << "worker " << i;
      for (size_t n = 0; n < answers.size(); ++n) EXPECT_EQ(answers[n], std::to_string(n));
    }
  }
}

TEST_F(HostileRelayTest, NonsenseOfAWorkerIsItsLossAlone) {
  const auto say = [&](size_t worker, const Message& message) {
    ASSERT_TRUE(network_.at(worker).direct->Send(message).ok());
    network_.Settle();
  };
  say(1, MakeNote(TreeWord::kReturned, 1, uint64_t{1} << 60));
  say(3, MakeNote(TreeWord::kBundle, 1, 1));
  say(4, {MakeNote(TreeWord::kPacket, 1, 2)[0], Frame::Copy("evil", 4)});
  say(5, MakeNote(TreeWord::kAttached, 1, uint64_t{1} << 60));
  say(6, MakeNote(TreeWord::kHere, 1, 0, {std::string(100'000, 'x'), "y", "z"}));
  std::vector<PeerName> broken;
  for (const auto& worker : network_.server().TakeBroken()) broken.push_back(worker.peer);
  EXPECT_THAT(broken, ElementsAre(network_.at(1).peer, network_.at(3).peer));
  Say(3);
  ExpectAllHaveHeard();
}

}  // namespace
}  // namespace lockstep::control
