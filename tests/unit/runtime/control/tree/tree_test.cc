// Controller's channel and workers' nodes together: what is said arrives everywhere, once and in
// order, whoever is lost on the way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/control/tree/packet.h"
#include "tests/unit/runtime/control/tree/tree_network.h"

namespace lockstep::control {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> Numbered(const std::string& name, int from, int until) {
  std::vector<std::string> texts;
  for (int i = from; i < until; ++i) texts.push_back(name + std::to_string(i));
  return texts;
}
// What a worker has heard, without what joining takes.
std::vector<std::string> CommandsOf(const TreeNetwork::Worker& worker) {
  std::vector<std::string> commands;
  for (const std::string& text : worker.heard) {
    if (!text.starts_with("welcome") && text != "first") commands.push_back(text);
  }
  return commands;
}

TEST(TreeTest, FewAreToldAndAllHear) {
  TreeNetwork network(14, 2);
  network.Join();
  EXPECT_EQ(network.CountBelowOthers(), 12);
  std::vector<size_t> before;
  for (size_t i = 0; i < network.size(); ++i) before.push_back(network.DirectLinkOf(i).sent_down);
  for (const std::string& text : Numbered("call ", 0, 10)) network.Broadcast(text);
  network.Settle();
  for (size_t i = 0; i < network.size(); ++i) {
    EXPECT_EQ(CommandsOf(network.at(i)), Numbered("call ", 0, 10)) << "worker " << i;
    EXPECT_EQ(network.at(i).heard.front(), "welcome 1");
    // All that left together is one packet.
    EXPECT_EQ(network.DirectLinkOf(i).sent_down - before[i], i < 2 ? 1u : 0u) << "worker " << i;
  }
}

TEST(TreeTest, FewWorkersHaveNoTree) {
  TreeNetwork network(4, 4);
  network.Join();
  network.Broadcast("call");
  network.Settle();
  EXPECT_EQ(network.CountBelowOthers(), 0);
  for (size_t i = 0; i < network.size(); ++i) {
    EXPECT_THAT(network.at(i).heard, ElementsAre("welcome 1", "first", "call"));
  }
}

TEST(TreeTest, AWorldWithoutATreeClosesWhatTheOneBeforeHadOpened) {
  TreeNetwork network(6, 2);
  network.Join();
  ASSERT_TRUE(network.at(0).relay->is_open);
  ASSERT_TRUE(network.LinkOf(0, 2).is_open);
  for (const size_t lost : {3u, 4u, 5u}) network.Lose(lost);
  network.Lose(1);
  network.Welcome();
  network.Settle();
  network.Begin();
  network.Say(2, "here");
  network.Settle();
  EXPECT_FALSE(network.at(0).relay->is_open);
  EXPECT_FALSE(network.LinkOf(0, 2).is_open);
  network.Broadcast("call");
  network.Settle();
  EXPECT_EQ(network.at(2).heard.back(), "call");
  EXPECT_THAT(network.AnswersOf(2), ElementsAre("here"));
}

TEST(TreeTest, AnswersComeUpInOrder) {
  TreeNetwork network(14, 2);
  network.Join();
  const std::string large(100'000, 'x');
  for (size_t i = 0; i < network.size(); ++i) {
    for (int n = 0; n < 50; ++n) network.Say(i, std::to_string(n));
    network.Say(i, large);
    network.Say(i, "last");
  }
  network.Settle();
  std::vector<std::string> expected = Numbered("", 0, 50);
  expected.insert(expected.end(), {large, "last"});
  for (size_t i = 0; i < network.size(); ++i) {
    EXPECT_EQ(network.AnswersOf(i), expected) << "worker " << i;
  }
  EXPECT_THAT(network.server().TakeBroken(), IsEmpty());
}

// What a worker has said itself may be read after what it has then said through its parent.
TEST(TreeTest, AnswersKeepTheirOrderWhileWorkersChangeTheWayTheyTake) {
  for (unsigned seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    TreeNetwork network(14, 2, size_t{1} << 20, seed);
    network.Settle();
    network.Begin();
    network.Broadcast("first");
    std::mt19937 random(seed);
    for (int n = 0; n < 30; ++n) {
      for (size_t i = 0; i < network.size(); ++i) {
        network.Say(i, std::to_string(n));
        network.Go(i);
      }
      if (random() % 3 == 0) network.TakeAnswers();
    }
    network.Settle();
    for (size_t i = 0; i < network.size(); ++i) {
      EXPECT_EQ(network.AnswersOf(i), Numbered("", 0, 30)) << "worker " << i;
    }
    EXPECT_EQ(network.CountBelowOthers(), 12);
    EXPECT_THAT(network.server().TakeBroken(), IsEmpty());
  }
}

// Should a worker change its way too early, it is served directly, and says all again.
TEST(TreeTest, AnAnswerThatCameBeforeOneThatIsMissingIsNotLost) {
  TreeNetwork network(14, 2);
  network.Settle();
  network.Begin();
  network.Settle();
  network.Broadcast("first");
  network.Say(2, "one");
  network.Say(2, "two");
  network.at(2).is_stopped = true;  // both are still on their way
  network.Settle();
  BundleWriter writer;
  writer.Add(network.OfferOf(2).worker, network.OfferOf(2).answers, 2, TextMessage("two"));
  ASSERT_TRUE(network.at(0).direct->Send(writer.Take(1, 1, 0)).ok());
  network.TakeAnswers();
  ASSERT_TRUE(network.at(2).direct->Send(MakeNote(TreeWord::kAttached, 1, 1)).ok());
  network.TakeAnswers();
  EXPECT_FALSE(network.server().IsBelowAnother(network.at(2).peer));
  network.at(2).is_stopped = false;
  network.Settle();
  EXPECT_THAT(network.AnswersOf(2), ElementsAre("one", "two"));
  EXPECT_THAT(network.at(2).heard, ElementsAre("welcome 1", "first"));
  EXPECT_THAT(network.server().TakeBroken(), IsEmpty());
}

TEST(TreeTest, LargeCommandsKeepTheirPlace) {
  TreeNetwork network(6, 2);
  network.Join();
  const std::string large(100'000, 'x');
  network.Broadcast("before");
  network.Broadcast(large);
  network.Broadcast("after");
  network.Settle();
  for (size_t i = 0; i < network.size(); ++i) {
    EXPECT_THAT(CommandsOf(network.at(i)), ElementsAre("before", large, "after"));
  }
}

TEST(TreeTest, ALostRelayTakesNothingAlong) {
  TreeNetwork network(14, 2);
  network.Join();
  network.at(0).is_stopped = true;  // what comes is not passed on
  for (const std::string& text : Numbered("call ", 0, 5)) network.Broadcast(text);
  network.Say(2, "answer under way");
  network.Say(6, "answer from further below");
  network.Settle();
  EXPECT_THAT(CommandsOf(network.at(2)), IsEmpty());
  network.Lose(0);
  for (const std::string& text : Numbered("call ", 5, 10)) network.Broadcast(text);
  network.Settle();
  for (size_t i = 1; i < network.size(); ++i) {
    EXPECT_EQ(CommandsOf(network.at(i)), Numbered("call ", 0, 10)) << "worker " << i;
  }
  EXPECT_THAT(network.AnswersOf(2), ElementsAre("answer under way"));
  EXPECT_THAT(network.AnswersOf(6), ElementsAre("answer from further below"));
  EXPECT_EQ(network.CountBelowOthers(), 10) << "those right below it have come back";
  EXPECT_THAT(network.server().TakeBroken(), IsEmpty());
}

TEST(TreeTest, AnotherWorldComesAfterAllThatWasSaidBefore) {
  TreeNetwork network(14, 2);
  network.Join();
  network.at(1).is_stopped = true;
  network.Broadcast("under way");
  network.Welcome();
  network.Settle();
  for (const size_t i : {2, 4, 5, 10}) {
    EXPECT_THAT(network.at(i).heard, ElementsAre("welcome 1", "first", "under way", "welcome 2"))
        << "worker " << i << " waits for no parent";
  }
  network.at(1).is_stopped = false;
  network.Settle();
  network.Begin();
  network.Broadcast("call");
  network.Settle();
  for (size_t i = 0; i < network.size(); ++i) {
    EXPECT_THAT(network.at(i).heard,
                ElementsAre("welcome 1", "first", "under way", "welcome 2", "call"))
        << "worker " << i;
  }
  EXPECT_EQ(network.CountBelowOthers(), 12);
}

// It gets what it misses of one tree when others have begun and ended.
TEST(TreeTest, AWorkerThatIsSlowMissesNothingOfTreesBefore) {
  TreeNetwork network(14, 2);
  network.Join();
  const std::vector<size_t> slow = {4, 10};
  network.at(1).is_stopped = true;
  for (const size_t i : slow) network.at(i).is_stopped = true;
  network.Broadcast("of the first tree");
  network.Welcome();
  network.Settle();
  network.Begin();
  network.Broadcast("of the second");
  network.Welcome();
  network.Settle();
  network.Begin();
  network.Broadcast("of the third");
  network.Settle();
  network.Lose(1);
  for (const size_t i : slow) network.at(i).is_stopped = false;
  network.Settle();
  for (const size_t i : {2, 4, 5, 10, 11}) {
    EXPECT_THAT(network.at(i).heard,
                ElementsAre("welcome 1", "first", "of the first tree", "welcome 2", "of the second",
                            "welcome 3", "of the third"))
        << "worker " << i;
  }
  EXPECT_THAT(network.server().TakeBroken(), IsEmpty());
}

TEST(TreeTest, ARelayThatIsLostBetweenTwoWorldsKeepsNobodyBack) {
  TreeNetwork network(14, 2);
  network.Join();
  network.at(1).is_stopped = true;
  network.Broadcast("under way");
  network.Welcome();
  network.Settle();
  network.Lose(1);
  network.Settle();
  for (size_t i = 2; i < network.size(); ++i) {
    EXPECT_THAT(network.at(i).heard, ElementsAre("welcome 1", "first", "under way", "welcome 2"))
        << "worker " << i;
  }
}

TEST(TreeTest, AWorldWithoutAnyCommandKeepsNobodyFromTheNext) {
  TreeNetwork network(14, 2);
  network.Settle();
  network.Begin();
  network.Settle();
  network.Welcome();
  network.Settle();
  network.Begin();
  network.Broadcast("call");
  network.Settle();
  EXPECT_EQ(network.CountBelowOthers(), 12);
  for (size_t i = 0; i < network.size(); ++i) {
    EXPECT_THAT(network.at(i).heard, ElementsAre("welcome 1", "welcome 2", "call"));
  }
}

TEST(TreeTest, AWorkerThatReplacesAnotherTakesItsPlace) {
  TreeNetwork network(14, 2);
  network.Join();
  network.Lose(0);
  network.Settle();
  network.Replace(0);
  network.Welcome();
  network.Settle();
  network.Begin();
  for (const std::string& text : Numbered("call ", 0, 3)) network.Broadcast(text);
  network.Settle();
  for (size_t i = 0; i < network.size(); ++i) {
    EXPECT_EQ(CommandsOf(network.at(i)), Numbered("call ", 0, 3)) << "worker " << i;
  }
  EXPECT_EQ(network.CountBelowOthers(), 12);
}

TEST(TreeTest, AfterAllOfATreeWereLostOthersHaveOne) {
  TreeNetwork network(6, 2);
  network.Join();
  for (size_t i = 0; i < network.size(); ++i) network.Lose(i);
  for (size_t i = 0; i < network.size(); ++i) network.Replace(i);
  network.Welcome();
  network.Settle();
  network.Begin();
  network.Broadcast("call");
  network.Settle();
  EXPECT_EQ(network.CountBelowOthers(), 4);
  for (size_t i = 0; i < network.size(); ++i) {
    EXPECT_THAT(CommandsOf(network.at(i)), ElementsAre("call")) << "worker " << i;
  }
}

// In between it holds back what it says.
TEST(TreeTest, LastWordsLeaveBeforeAWorkerIsTakenOver) {
  TreeNetwork network(14, 2);
  network.Settle();
  network.Begin();
  network.Settle();
  network.Broadcast("first");
  network.TakeAnswers();
  // The controller reads nothing meanwhile.
  for (int i = 0; i < 3; ++i) {
    network.Go(0);
    network.Go(2);
  }
  network.Say(2, "goodbye");
  network.Go(2);
  network.at(2).node->End();
  network.Go(2);
  network.at(2).node.reset();
  network.TakeAnswers();
  EXPECT_THAT(network.AnswersOf(2), ElementsAre("goodbye"));
}

// It is told that it has something still; if it was dropped meanwhile, that is a loss, and said.
TEST(TreeTest, AGapThatCannotBeClosedIsALoss) {
  TreeNetwork network(6, 2, /*most_replay_bytes=*/8192);
  network.Join();
  network.at(0).is_stopped = true;
  for (int i = 0; i < 100; ++i) {
    network.Broadcast("call");
    network.TakeAnswers();  // each makes a packet
  }
  network.Lose(0);
  network.Settle();
  const auto broken = network.server().TakeBroken();
  ASSERT_EQ(broken.size(), 2u);
  EXPECT_THAT(lockstep::Message(broken[0].why), testing::HasSubstr("are kept no more"));
  EXPECT_THAT(CommandsOf(network.at(2)), IsEmpty()) << "nothing comes after a gap";
}

TEST(TreeTest, PacketsAreForgottenOnceAllHaveThem) {
  TreeNetwork network(14, 2, /*most_replay_bytes=*/size_t{200} << 10);
  network.Join();
  const std::string text(1000, 'x');
  for (int i = 0; i < 1000; ++i) {
    network.Broadcast(text);
    network.Settle();
  }
  // Had all been kept, those that it needs would have been dropped by now.
  network.at(0).is_stopped = true;
  for (int i = 0; i < 100; ++i) {
    network.Broadcast("call");
    network.TakeAnswers();
  }
  network.Lose(0);
  network.Settle();
  EXPECT_THAT(network.server().TakeBroken(), IsEmpty());
  EXPECT_EQ(network.at(2).heard.size(), 2u + 1000 + 100);
}

// One that joins late has told its parent how far those are that had joined it before.
TEST(TreeTest, PacketsAreKeptForThoseBelowAWorkerThatJoinsLate) {
  TreeNetwork network(14, 2);
  network.Settle();
  std::function<void()> pass_late;
  network.DirectLinkOf(0).spoil_up = [&pass_late](const Message& message, const auto& pass) {
    const auto note = ReadTreeNote(message);
    if (!note.has_value() || note->word != TreeWord::kHere) return pass(message);
    pass_late = [message, pass] { pass(message); };
  };
  network.Begin();
  network.Broadcast("first");
  network.Settle();
  EXPECT_FALSE(network.server().IsBelowAnother(network.at(2).peer)) << "it has no parent yet";
  EXPECT_TRUE(network.server().IsBelowAnother(network.at(6).peer));
  network.at(6).is_stopped = true;
  const auto say = [&network](int from, int until) {
    for (const std::string& text : Numbered("call ", from, until)) {
      network.Broadcast(text);
      network.Settle();  // each makes a packet
    }
  };
  say(0, 100);
  pass_late();
  network.Settle();
  EXPECT_TRUE(network.server().IsBelowAnother(network.at(2).peer));
  say(100, 300);
  network.Lose(2);
  network.at(6).is_stopped = false;
  network.Settle();
  EXPECT_EQ(CommandsOf(network.at(6)), Numbered("call ", 0, 300));
  EXPECT_THAT(network.server().TakeBroken(), IsEmpty());
}

// All above it have told before, and tell still, how far they were without it.
TEST(TreeTest, PacketsAreKeptForThoseFurtherBelowAWorkerThatJoinsLate) {
  TreeNetwork network(30, 2);
  network.Settle();
  Message late;
  network.DirectLinkOf(2).spoil_down = [&late](Message message, std::deque<Message>& down) {
    const auto note = ReadTreeNote(message);
    const bool is_of_6 = note.has_value() && note->word == TreeWord::kChild && note->value == 6;
    if (!is_of_6) return down.push_back(std::move(message));
    late = std::move(message);
  };
  network.Begin();
  network.Broadcast("first");
  network.Settle();
  EXPECT_FALSE(network.server().IsBelowAnother(network.at(6).peer)) << "it is not let in yet";
  EXPECT_TRUE(network.server().IsBelowAnother(network.at(14).peer));
  network.at(14).is_stopped = true;
  const auto say = [&network](int from, int until) {
    for (const std::string& text : Numbered("call ", from, until)) {
      network.Broadcast(text);
      network.Say(0, "answer");
      network.Settle();  // each makes a packet
    }
  };
  say(0, 100);
  network.DirectLinkOf(2).down.push_back(late);
  network.Settle();
  EXPECT_TRUE(network.server().IsBelowAnother(network.at(6).peer));
  say(100, 200);
  network.Lose(6);
  network.at(14).is_stopped = false;
  network.Settle();
  EXPECT_EQ(CommandsOf(network.at(14)), Numbered("call ", 0, 200));
  EXPECT_THAT(network.server().TakeBroken(), IsEmpty());
}

// Its relay need not wait for it.
TEST(TreeTest, AWorkerThatIsLostBeforeItIsKnownToBeAttachedIsForgotten) {
  TreeNetwork network(14, 2);
  network.DirectLinkOf(2).spoil_up = [](const Message& message, const auto& pass) {
    const auto note = ReadTreeNote(message);
    if (!note.has_value() || note->word != TreeWord::kAttached) pass(message);
  };
  network.Join();
  EXPECT_EQ(network.at(0).node->children(), 2u);
  network.Lose(2);
  network.Settle();
  EXPECT_EQ(network.at(0).node->children(), 1u);
}

// As after a connection between the two that was made anew.
TEST(TreeTest, AWorkerThatItsParentDoesNotKnowAnyMoreComesBack) {
  TreeNetwork network(14, 2);
  network.Join();
  network.at(0).relay->up[network.at(2).peer].push_back(MakeNote(TreeWord::kLeft, 1, 0));
  network.Settle();
  network.Broadcast("call");
  network.Settle();
  EXPECT_THAT(CommandsOf(network.at(2)), IsEmpty());
  network.Say(2, "answer");
  network.Say(6, "from below");
  network.Settle();
  EXPECT_FALSE(network.server().IsBelowAnother(network.at(2).peer));
  EXPECT_THAT(CommandsOf(network.at(2)), ElementsAre("call"));
  EXPECT_THAT(CommandsOf(network.at(6)), ElementsAre("call"));
  EXPECT_THAT(network.AnswersOf(2), ElementsAre("answer"));
  EXPECT_THAT(network.AnswersOf(6), ElementsAre("from below"));
  EXPECT_THAT(network.server().TakeBroken(), IsEmpty());
}

TEST(TreeTest, AParentThatDoesNotAnswerIsToldOfOnce) {
  using std::chrono::seconds;
  TreeNetwork network(14, 2);
  network.Settle();
  network.Begin();
  network.at(0).is_stopped = true;
  network.Broadcast("first");
  network.Settle();
  const auto asked = Deadline::Clock::now();  // or a moment before
  TreeNode& node = *network.at(2).node;
  const Deadline look = node.LookAtParent(asked);
  EXPECT_LE(look.when(), asked + seconds(5));
  EXPECT_EQ(node.LookAtParent(look.when() - seconds(1)).when(), look.when());
  EXPECT_GT(node.LookAtParent(look.when()).when(), look.when() + seconds(60)) << "it was told";
  EXPECT_GT(node.LookAtParent(look.when() + seconds(1)).when(), look.when() + seconds(60));
  EXPECT_GT(network.at(6).node->LookAtParent(asked).when(), asked + seconds(60)) << "it has joined";
}

// Anybody may be slow, or be lost, at any moment.
void ExpectTheSameInAnyOrder(bool in_many_worlds) {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto below = [&random](size_t end) { return static_cast<size_t>(random() % end); };
    TreeNetwork network(15, 2, size_t{1} << 20, seed);
    network.Settle();
    network.Begin();
    std::vector<std::string> said;
    std::vector<int> answered(network.size(), 0);
    int lost = 0;
    for (int step = 0; step < 600; ++step) {
      switch (below(10)) {
        case 0:
        case 1:
          said.push_back("call " + std::to_string(said.size()));
          network.Broadcast(said.back());
          break;
        case 2:
          network.TakeAnswers();
          break;
        case 3:
          if (const size_t i = below(network.size()); network.at(i).node != nullptr) {
            network.Say(i, std::to_string(answered[i]++));
          }
          break;
        case 4:
          if (const size_t i = below(network.size());
              lost < 4 && step > 300 && network.at(i).node != nullptr) {
            ++lost;
            network.Lose(i);
          }
          break;
        case 5:
          if (in_many_worlds && below(12) == 0) network.Welcome();
          if (in_many_worlds) network.Begin();
          break;
        default:
          network.Go(below(network.size()));
          break;
      }
    }
    network.Settle();
    network.Begin();
    network.Settle();
    for (size_t i = 0; i < network.size(); ++i) {
      if (network.at(i).node == nullptr) continue;
      EXPECT_EQ(CommandsOf(network.at(i)), said) << "worker " << i;
      EXPECT_EQ(network.AnswersOf(i), Numbered("", 0, answered[i])) << "worker " << i;
    }
    EXPECT_THAT(network.server().TakeBroken(), IsEmpty());
  }
}

TEST(TreeTest, AnyOrderOfEventsGivesTheSameOrderOfCommands) {
  ExpectTheSameInAnyOrder(/*in_many_worlds=*/false);
}

TEST(TreeTest, AnyOrderOfEventsInManyWorldsGivesTheSameOrderOfCommands) {
  ExpectTheSameInAnyOrder(/*in_many_worlds=*/true);
}

}  // namespace
}  // namespace lockstep::control
