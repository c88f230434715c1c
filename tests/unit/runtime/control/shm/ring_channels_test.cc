// Both channels together, over ZeroMQ's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/control/input_waiter.h"
#include "runtime/control/shm/ring_client_channel.h"
#include "runtime/control/shm/ring_server_channel.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "tests/support/patience.h"
#include "tests/unit/runtime/control/shm/test_rings.h"

namespace lockstep::control {
namespace {

using support::kLong;

// More than a ring takes of one message.
constexpr size_t kLargeBytes = 1 << 20;

Message Text(const std::string& text) { return {Frame::Copy(text.data(), text.size())}; }
std::string TextOf(const Message& message) {
  if (message.empty()) return "";
  return std::string(reinterpret_cast<const char*>(message[0].data()), message[0].size());
}
Message Large(char letter) { return Text(std::string(kLargeBytes, letter)); }

class RingChannelsTest : public testing::Test {
 protected:
  static constexpr auto kPeers = RingServerChannel::Peers::kWorkers;
  static constexpr int kSlots = 3;

  void SetUp() override { Listen(kLong); }
  void Listen(std::chrono::milliseconds longest_gap) {
    auto sockets = ZmqListen(context_, "inproc://ring_channels_test");
    ASSERT_TRUE(sockets.ok()) << sockets.status();
    auto server = RingServerChannel::Create(std::move(*sockets), kPeers, kSlots, longest_gap);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = std::move(*server);
  }

  struct Worker {
    std::unique_ptr<RingClientChannel> channel;
    PeerName name;
  };
  // One that has said hello.
  Worker Connect() {
    auto sockets = ZmqConnect(context_, server_->endpoint());
    EXPECT_TRUE(sockets.ok()) << sockets.status();
    Worker worker{
        std::make_unique<RingClientChannel>(std::move(*sockets), RingClientChannel::AtEnd::kStop),
        ""};
    EXPECT_TRUE(worker.channel->Send(Text("hello")).ok());
    EXPECT_EQ(TakeFromWorkers(&worker.name), "hello");
    return worker;
  }
  // The same, with its ring.
  Worker ConnectByRing() {
    Worker worker = Connect();
    const std::optional<RingOffer> offer = server_->OfferTo(worker.name);
    EXPECT_TRUE(offer.has_value());
    Status attached;
    std::thread asking([&] { attached = worker.channel->Attach(*offer, Deadline::After(kLong)); });
    while (!server_->IsByRing(worker.name)) {
      (void)server_->HasInput();
      std::this_thread::yield();
    }
    asking.join();
    EXPECT_TRUE(attached.ok()) << attached;
    return worker;
  }

  // The next message at either end, waiting for it as services do.
  std::string TakeFromWorkers(PeerName* from) {
    Message message;
    while (!server_->Receive(from, &message)) {
      Channel* const channels[] = {server_.get()};
      if (!waiter_.Wait(channels, {}, Deadline::After(kLong))) return "nothing";
    }
    return TextOf(message);
  }
  std::string Take(Worker& worker) {
    Message message;
    while (!worker.channel->Receive(&message)) {
      Channel* const channels[] = {worker.channel.get()};
      if (!waiter_.Wait(channels, {}, Deadline::After(kLong))) return "nothing";
    }
    return TextOf(message);
  }
  // All that is said before the worker switches has been read by both.
  void Exchange(Worker& worker) {
    ASSERT_TRUE(server_->Send({&worker.name, 1}, Text("ask")).ok());
    ASSERT_EQ(Take(worker), "ask");
    ASSERT_TRUE(worker.channel->by_ring());
    ASSERT_TRUE(worker.channel->Send(Text("answer")).ok());
    PeerName from;
    ASSERT_EQ(TakeFromWorkers(&from), "answer");
    ASSERT_EQ(from, worker.name);
  }

  const std::shared_ptr<ZmqContext> context_ = ZmqContext::Create();
  std::unique_ptr<RingServerChannel> server_;
  InputWaiter waiter_{std::chrono::microseconds(0)};
};

// As where threads of clients turn the loop of a thread that sleeps.
TEST_F(RingChannelsTest, WhoSleepsIsWokenAgainAfterAnotherThreadHasTakenItsWake) {
  Worker worker = ConnectByRing();
  Exchange(worker);
  const auto is_woken = [this] {
    pollfd set = {server_->wait_fd(), POLLIN, 0};
    return poll(&set, 1, 0) == 1;
  };
  while (server_->HasInput() || is_woken()) {
    PeerName from;
    Message message;
    (void)server_->Receive(&from, &message);
  }
  server_->BeginSleep();
  for (const char* text : {"1", "2"}) {
    ASSERT_FALSE(is_woken());
    ASSERT_TRUE(worker.channel->Send(Text(text)).ok());
    ASSERT_TRUE(is_woken());
    std::string taken;
    PeerName from;
    Message message;
    for (int i = 0; i < 100 && is_woken(); ++i) {
      if (server_->Receive(&from, &message)) taken += TextOf(message);
    }
    EXPECT_EQ(taken, text);
  }
  server_->EndSleep();
}

TEST_F(RingChannelsTest, WithAndWithoutARingAllGetTheSameInOneOrder) {
  Worker first = ConnectByRing();
  Worker second = Connect();
  Worker third = ConnectByRing();
  const std::vector<PeerName> all = {first.name, second.name, third.name};
  ASSERT_TRUE(server_->Send(all, Text("1")).ok());
  ASSERT_TRUE(server_->Send(all, Large('2')).ok());
  ASSERT_TRUE(server_->Send({&third.name, 1}, Text("only you")).ok());
  ASSERT_TRUE(server_->Send(all, Text("3")).ok());
  for (Worker* worker : {&first, &second, &third}) {
    EXPECT_EQ(Take(*worker), "1");
    EXPECT_EQ(Take(*worker), std::string(kLargeBytes, '2'));
    if (worker == &third) {
      EXPECT_EQ(Take(*worker), "only you");
    }
    EXPECT_EQ(Take(*worker), "3");
  }
  EXPECT_TRUE(first.channel->by_ring());
  EXPECT_FALSE(second.channel->by_ring());
}

TEST_F(RingChannelsTest, WhatOneWorkerSaysKeepsItsOrderWhicheverWayItGoes) {
  Worker worker = ConnectByRing();
  // The first goes by socket: the worker has not heard of its ring yet.
  ASSERT_TRUE(worker.channel->Send(Text("before")).ok());
  ASSERT_TRUE(server_->Send({&worker.name, 1}, Text("ask")).ok());
  ASSERT_EQ(Take(worker), "ask");
  std::vector<std::string> said = {"before"};
  for (int i = 0; i < 50; ++i) {
    const bool is_large = i % 3 == 1;
    said.push_back(is_large ? std::string(kLargeBytes, static_cast<char>('a' + i % 26))
                            : std::to_string(i));
    ASSERT_TRUE(worker.channel->Send(Text(said.back())).ok());
  }
  PeerName from;
  for (const std::string& text : said) {
    ASSERT_EQ(TakeFromWorkers(&from), text);
    ASSERT_EQ(from, worker.name);
  }
}

TEST_F(RingChannelsTest, AnswersForWhichThereIsNoRoomGoBySocket) {
  Worker worker = ConnectByRing();
  Exchange(worker);
  // Five times what the ring holds.
  const std::string text(10'000, 'x');
  const size_t count = 5 * kWorkerRings.answers * kRingWordBytes / text.size();
  for (size_t i = 0; i < count; ++i) {
    ASSERT_TRUE(worker.channel->Send(Text(std::to_string(i) + text)).ok());
  }
  PeerName from;
  for (size_t i = 0; i < count; ++i) ASSERT_EQ(TakeFromWorkers(&from), std::to_string(i) + text);
}

// Sockets are looked at less often then.
TEST_F(RingChannelsTest, WhereAllHaveRingsSocketsAreStillHeard) {
  std::vector<Worker> all;
  for (int i = 0; i < kSlots; ++i) all.push_back(ConnectByRing());
  for (Worker& worker : all) Exchange(worker);
  for (int round = 0; round < 3; ++round) {
    for (Worker& worker : all) {
      ASSERT_TRUE(worker.channel->Send(Large('a')).ok());
      PeerName from;
      ASSERT_EQ(TakeFromWorkers(&from), TextOf(Large('a')));
      ASSERT_EQ(from, worker.name);
      ASSERT_TRUE(server_->Send({&worker.name, 1}, Large('b')).ok());
      ASSERT_EQ(Take(worker), TextOf(Large('b')));
    }
  }
}

TEST_F(RingChannelsTest, WhatIsSaidToASlowWorkerWaitsAndArrives) {
  Worker slow = ConnectByRing();
  Worker quick = ConnectByRing();
  const std::vector<PeerName> both = {slow.name, quick.name};
  const std::string text(100'000, 'y');
  const size_t count = 3 * kWorkerRings.broadcast * kRingWordBytes / text.size();
  for (size_t i = 0; i < count; ++i) {
    ASSERT_TRUE(server_->Send(both, Text(std::to_string(i) + text)).ok());
  }
  // A worker that comes now is not told what was said before.
  Worker late = Connect();
  std::atomic<bool> quick_has_all{false};
  std::thread reading([&] {
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(Take(quick), std::to_string(i) + text);
    quick_has_all = true;
  });
  size_t read = 0;
  while (read < count || !quick_has_all) {
    Message message;
    // Writes what there is room for.
    (void)server_->HasInput();
    if (read < count && slow.channel->Receive(&message)) {
      EXPECT_EQ(TextOf(message), std::to_string(read++) + text);
    } else {
      std::this_thread::yield();
    }
  }
  reading.join();
  EXPECT_FALSE(late.channel->HasInput());
}

TEST_F(RingChannelsTest, AWorkerThatComesWhileTheRingIsFullMissesNothing) {
  Worker slow = ConnectByRing();
  const std::string text(100'000, 'y');
  const size_t count = kWorkerRings.broadcast * kRingWordBytes / text.size() + 5;
  for (size_t i = 0; i < count; ++i) {
    ASSERT_TRUE(server_->Send({&slow.name, 1}, Text(text)).ok());
  }
  Worker late = Connect();
  const std::optional<RingOffer> offer = server_->OfferTo(late.name);
  ASSERT_TRUE(offer.has_value());
  std::atomic<bool> has_asked{false};
  Status attached;
  std::thread asking([&] {
    attached = late.channel->Attach(*offer, Deadline::After(kLong));
    has_asked = true;
  });
  while (!has_asked) (void)server_->HasInput();
  asking.join();
  ASSERT_TRUE(attached.ok()) << attached;
  for (int i = 0; i < 10; ++i) (void)server_->HasInput();
  ASSERT_FALSE(server_->IsByRing(late.name)) << "it must not hear what was said before it came";
  EXPECT_TRUE(server_->IsHeldBack(slow.name) || slow.channel->HasInput());
  // There is room now, which the next message finds.
  size_t read = 0;
  Message message;
  while (slow.channel->Receive(&message)) ++read;
  ASSERT_GT(read, 5u);
  const std::vector<PeerName> both = {slow.name, late.name};
  for (const char* const said : {"first", "second"}) {
    ASSERT_TRUE(server_->Send(both, Text(said)).ok());
  }
  while (!server_->IsByRing(late.name)) (void)server_->HasInput();
  ASSERT_TRUE(server_->Send(both, Text("third")).ok());
  for (; read < count; ++read) ASSERT_EQ(Take(slow), text);
  for (const char* const said : {"first", "second", "third"}) {
    EXPECT_EQ(Take(slow), said);
    EXPECT_EQ(Take(late), said);
  }
  Exchange(late);
}

TEST_F(RingChannelsTest, AWorkerThatIsGivenUpHoldsNobodyBack) {
  Worker lost = ConnectByRing();
  Worker other = ConnectByRing();
  const std::string text(100'000, 'z');
  const size_t count = 2 * kWorkerRings.broadcast * kRingWordBytes / text.size();
  for (size_t i = 0; i < count; ++i) {
    ASSERT_TRUE(server_->Send({lost.name, other.name}, Text(text)).ok());
  }
  server_->GiveUp(lost.name);
  EXPECT_FALSE(server_->IsByRing(lost.name));
  for (size_t i = 0; i < count; ++i) {
    Message message;
    while (!other.channel->Receive(&message)) (void)server_->HasInput();
    ASSERT_EQ(TextOf(message), text);
  }
  // Its slot is another's now, which begins where that one joined.
  Worker next = ConnectByRing();
  ASSERT_TRUE(server_->Send({other.name, next.name}, Text("on")).ok());
  EXPECT_EQ(Take(other), "on");
  EXPECT_EQ(Take(next), "on");
  Exchange(next);
}

TEST_F(RingChannelsTest, AWorkerThatEndsIsLetGo) {
  Worker ends = ConnectByRing();
  Worker stays = ConnectByRing();
  ends.channel.reset();
  while (server_->IsByRing(ends.name)) {
    (void)server_->HasInput();
    std::this_thread::yield();
  }
  Exchange(stays);
  EXPECT_TRUE(server_->TakeBroken().empty());
}

TEST_F(RingChannelsTest, WhatAWorkerSaysLastArrivesAfterItsEnd) {
  Worker worker = ConnectByRing();
  Exchange(worker);
  ASSERT_TRUE(worker.channel->Send(Text("I end")).ok());
  ASSERT_TRUE(worker.channel->Send(Text("for a reason")).ok());
  worker.channel.reset();
  PeerName from;
  EXPECT_EQ(TakeFromWorkers(&from), "I end");
  EXPECT_EQ(TakeFromWorkers(&from), "for a reason");
  Message message;
  while (server_->IsByRing(worker.name)) ASSERT_FALSE(server_->Receive(&from, &message));
}

TEST_F(RingChannelsTest, WhatTheControllerSaysLastArrivesAfterItsMemoryIsGone) {
  Worker worker = ConnectByRing();
  Exchange(worker);
  ASSERT_TRUE(server_->Send({&worker.name, 1}, Text("by ring")).ok());
  ASSERT_TRUE(server_->Send({&worker.name, 1}, Large('e')).ok());
  server_.reset();
  EXPECT_EQ(Take(worker), "by ring");
  EXPECT_EQ(Take(worker), std::string(kLargeBytes, 'e'));
}

TEST_F(RingChannelsTest, ANonceThatWasNotGivenGetsNothing) {
  Worker worker = Connect();
  std::optional<RingOffer> offer = server_->OfferTo(worker.name);
  ASSERT_TRUE(offer.has_value());
  const auto ask = [&](const std::string& nonce) {
    StatusOr<RingLink> link = RingLink::Connect(offer->address);
    EXPECT_TRUE(link.ok()) << link.status();
    EXPECT_TRUE(link->Send(nonce).ok());
    std::string bytes;
    RingLink::Input input = RingLink::Input::kNothing;
    while (input == RingLink::Input::kNothing) {
      (void)server_->HasInput();
      input = link->Receive(&bytes);
    }
    return input;
  };
  EXPECT_EQ(ask("guessed"), RingLink::Input::kClosed);
  // A given one is good once, and a later offer replaces an earlier one.
  const std::optional<RingOffer> again = server_->OfferTo(worker.name);
  EXPECT_EQ(ask(offer->nonce), RingLink::Input::kClosed);
  EXPECT_EQ(ask(again->nonce), RingLink::Input::kMessage);
  EXPECT_EQ(ask(again->nonce), RingLink::Input::kClosed);
  server_->GiveUp(worker.name);
  EXPECT_FALSE(server_->IsByRing(worker.name));
}

// A worker that says what it likes: its ring is written by hand.
class HostileWorkerTest : public RingChannelsTest {
 protected:
  static constexpr std::chrono::milliseconds kLongestGap{50};

  void SetUp() override {
    Listen(kLongestGap);
    other_ = ConnectByRing();
    Join();
  }

  void Join() {
    auto sockets = ZmqConnect(context_, server_->endpoint());
    ASSERT_TRUE(sockets.ok()) << sockets.status();
    raw_ = std::move(*sockets);
    ASSERT_TRUE(raw_->Send(Text("hello")).ok());
    ASSERT_EQ(TakeFromWorkers(&name_), "hello");
    const std::optional<RingOffer> offer = server_->OfferTo(name_);
    ASSERT_TRUE(offer.has_value());
    auto link = RingLink::Connect(offer->address);
    ASSERT_TRUE(link.ok()) << link.status();
    link_.emplace(std::move(*link));
    ASSERT_TRUE(link_->Send(offer->nonce).ok());
    std::string bytes;
    std::vector<Descriptor> memory;
    while (link_->Receive(&bytes, &memory) == RingLink::Input::kNothing) (void)server_->HasInput();
    ASSERT_EQ(memory.size(), 2u);
    auto pages = MappedMemory::Map(memory[1], AnswerMemory::SizeBytes(kWorkerRings.answers),
                                   MappedMemory::Access::kReadAndWrite);
    ASSERT_TRUE(pages.ok()) << pages.status();
    pages_.emplace(std::move(*pages));
    ASSERT_TRUE(link_->Send(kRingMapped).ok());
    while (!server_->IsByRing(name_)) (void)server_->HasInput();
    ASSERT_TRUE(raw_->Send({NoteFrame(kNumberMagic, 0)}).ok());
  }
  AnswerMemory memory() { return AnswerMemory(pages_->data(), kWorkerRings.answers); }

  // It alone is broken, and once; the other one goes on.
  void ExpectBroken(StatusCode code) {
    std::vector<RingServerChannel::Broken> broken;
    while (broken.empty()) {
      PeerName from;
      Message message;
      ASSERT_FALSE(server_->Receive(&from, &message));
      broken = server_->TakeBroken();
    }
    ASSERT_EQ(broken.size(), 1u);
    EXPECT_EQ(broken[0].peer, name_);
    EXPECT_EQ(broken[0].why.code(), code) << broken[0].why;
    EXPECT_FALSE(server_->IsByRing(name_));
    Exchange(other_);
    EXPECT_TRUE(server_->TakeBroken().empty());
  }

  Worker other_;
  std::unique_ptr<ClientChannel> raw_;
  PeerName name_;
  std::optional<RingLink> link_;
  std::optional<MappedMemory> pages_;
};

TEST_F(HostileWorkerTest, AMessageByATakenNumberBreaksIt) {
  // Message 1 was never sent.
  ASSERT_TRUE(raw_->Send({NoteFrame(kNumberMagic, 2), Text("x")[0]}).ok());
  ExpectBroken(StatusCode::kInvalidArgument);
}

TEST_F(HostileWorkerTest, HavingReadWhatWasNotWrittenBreaksItAsSoonAsThatIsSeen) {
  memory().header().read.store(uint64_t{1} << 40);
  const std::string text(100'000, 'z');
  const std::vector<PeerName> both = {other_.name, name_};
  // Until the writer needs room, for which it looks at how far all have read.
  std::vector<RingServerChannel::Broken> broken;
  for (size_t i = 0; broken.empty(); ++i) {
    ASSERT_LT(i, 2 * kWorkerRings.broadcast * kRingWordBytes / text.size());
    ASSERT_TRUE(server_->Send(both, Text(text)).ok());
    ASSERT_EQ(Take(other_), text);
    broken = server_->TakeBroken();
  }
  ASSERT_EQ(broken.size(), 1u);
  EXPECT_EQ(broken[0].peer, name_);
  EXPECT_EQ(broken[0].why.code(), StatusCode::kInvalidArgument);
  // Its place is another's, which has nothing to do with that.
  link_.reset();
  Join();
  EXPECT_TRUE(server_->IsByRing(name_));
  EXPECT_TRUE(server_->TakeBroken().empty());
  Exchange(other_);
}

TEST_F(HostileWorkerTest, AMessageThatDoesNotComeBySocketBreaksItInTime) {
  const std::atomic<uint64_t> taken{0};
  AnswerWriter writer(memory(), taken);
  // The one before was lost with its connection.
  ASSERT_TRUE(writer.Write(2, Text("x")));
  const auto begin = Deadline::Clock::now();
  ExpectBroken(StatusCode::kUnavailable);
  EXPECT_GE(Deadline::Clock::now() - begin, kLongestGap);
}

// Children are forked before there are threads, so each test that has one makes all else after it.
class KilledWorkerTest : public testing::TestWithParam<int> {};

TEST_P(KilledWorkerTest, AProcessThatIsKilledAtAnyMomentLeavesTheOthersTheirRing) {
  int names[2];
  ASSERT_EQ(pipe(names), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // Reads and answers without end, with messages of all sizes, until it is killed.
    char text[512] = {};
    if (read(names[0], text, sizeof text - 1) <= 0) _exit(1);
    const std::string told = text;
    const size_t first = told.find(' ');
    const size_t second = told.find(' ', first + 1);
    auto link = RingLink::Connect(told.substr(0, first));
    if (!link.ok()) _exit(2);
    // As a worker would, but by hand: no ZeroMQ in a child of a process that may have used it.
    if (!link->Send(told.substr(first + 1, second - first - 1)).ok()) _exit(3);
    std::string bytes;
    std::vector<Descriptor> memory;
    while (link->Receive(&bytes, &memory) == RingLink::Input::kNothing) usleep(100);
    if (memory.size() != 2) _exit(4);
    auto answers = MappedMemory::Map(memory[1], AnswerMemory::SizeBytes(kWorkerRings.answers),
                                     MappedMemory::Access::kReadAndWrite);
    auto pages = MappedMemory::Map(memory[0], BroadcastMemory::SizeBytes(2, kWorkerRings.broadcast),
                                   MappedMemory::Access::kRead);
    if (!answers.ok() || !pages.ok() || !link->Send(kRingMapped).ok()) _exit(5);
    const AnswerMemory own(answers->data(), kWorkerRings.answers);
    const BroadcastMemory broadcast(pages->data(), 2, kWorkerRings.broadcast);
    BroadcastReader reader(broadcast, 0, 0, own.header().read);
    AnswerWriter writer(own, broadcast.taken(0));
    Message message;
    for (uint64_t number = 1;; ++number) {
      if (!reader.Take(&message).ok()) _exit(6);
      (void)writer.Write(number, Numbered(number));
    }
  }
  const std::shared_ptr<ZmqContext> context = ZmqContext::Create();
  auto sockets = ZmqListen(context, "inproc://killed_worker_test");
  ASSERT_TRUE(sockets.ok()) << sockets.status();
  auto made =
      RingServerChannel::Create(std::move(*sockets), RingServerChannel::Peers::kWorkers, 2, kLong);
  ASSERT_TRUE(made.ok()) << made.status();
  RingServerChannel& server = **made;
  const PeerName name = "child";
  const std::optional<RingOffer> offer = server.OfferTo(name);
  const std::string told = offer->address + " " + offer->nonce + " ";
  ASSERT_EQ(write(names[1], told.data(), told.size()), static_cast<ssize_t>(told.size()));
  while (!server.IsByRing(name)) (void)server.HasInput();
  // Messages for the child, and its end at another moment each time.
  const std::string text(1000, 't');
  for (int i = 0; i < GetParam(); ++i) ASSERT_TRUE(server.Send({&name, 1}, Text(text)).ok());
  ASSERT_EQ(kill(child, SIGKILL), 0);
  // Twice what the ring holds: it must not wait for the dead.
  for (size_t i = 0; i < 2 * kWorkerRings.broadcast * kRingWordBytes / text.size(); ++i) {
    (void)server.Send({&name, 1}, Text(text));
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
  while (server.IsByRing(name)) (void)server.HasInput();
  EXPECT_TRUE(server.TakeBroken().empty());
  close(names[0]);
  close(names[1]);
}
INSTANTIATE_TEST_SUITE_P(Moments, KilledWorkerTest, testing::Values(0, 1, 10, 100, 1000, 5000));

}  // namespace
}  // namespace lockstep::control
