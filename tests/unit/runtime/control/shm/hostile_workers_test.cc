// Workers that say what they like, or ask for what is not theirs; and peers that are killed.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/control/shm/ring_link.h"
#include "tests/unit/runtime/control/shm/ring_channels_fixture.h"
#include "tests/unit/runtime/control/shm/test_rings.h"

namespace lockstep::control {
namespace {

using support::kLong;

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

  enum class Note { kIsSent, kIsNot };
  // kIsNot: what tells the controller to read its ring.
  void Join(Note note = Note::kIsSent) {
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
    if (note == Note::kIsSent) {
      ASSERT_TRUE(raw_->Send({NoteFrame(kNumberMagic, 0)}).ok());
    }
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

TEST_F(HostileWorkerTest, ARingThatItDoesNotTellToReadBreaksItInTime) {
  server_->GiveUp(name_);
  link_.reset();
  Join(Note::kIsNot);
  const std::atomic<uint64_t> taken{0};
  AnswerWriter writer(memory(), taken);
  ASSERT_TRUE(writer.Write(1, Text("x")));
  const auto begin = Deadline::Clock::now();
  ExpectBroken(StatusCode::kUnavailable);
  EXPECT_GE(Deadline::Clock::now() - begin, kLongestGap);
}

// Children are forked before there are threads, so each test that has one makes all else after it.

// Asks as worker "child" does, but as another user, with what it was given. Ends with 0 if it gets
// nothing.
[[noreturn]] void AskAsAnotherUser(int told) {
  constexpr uid_t kNobody = 65534;
  if (setuid(kNobody) != 0) _exit(1);
  char text[512] = {};
  if (read(told, text, sizeof text - 1) <= 0) _exit(2);
  const std::string address(text, std::strcspn(text, " "));
  const std::string nonce(text + address.size() + 1);
  // Our own end finds out; a hostile one would go on.
  if (RingLink::Connect(address).status().code() != StatusCode::kPermissionDenied) _exit(3);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path + 1, address.data(), address.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + address.size());
  const Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&name), size) != 0) _exit(4);
  (void)send(socket.get(), nonce.data(), nonce.size(), MSG_NOSIGNAL);
  char answer[64];
  _exit(recv(socket.get(), answer, sizeof answer, 0) > 0 ? 5 : 0);
}

TEST(AnotherUserTest, GetsNothingForTheNonce) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  int told[2];
  ASSERT_EQ(pipe(told), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    close(told[1]);
    AskAsAnotherUser(told[0]);
  }
  auto sockets = ZmqListen(ZmqContext::Create(), "inproc://another_user_test");
  ASSERT_TRUE(sockets.ok()) << sockets.status();
  auto server =
      RingServerChannel::Create(std::move(*sockets), RingServerChannel::Peers::kWorkers, 2, kLong);
  ASSERT_TRUE(server.ok()) << server.status();
  const std::optional<RingOffer> offer = (*server)->OfferTo("child");
  const std::string text = offer->address + " " + offer->nonce;
  ASSERT_EQ(write(told[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) (void)(*server)->HasInput();
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_FALSE((*server)->IsByRing("child"));
  close(told[0]);
  close(told[1]);
}

// A worker shares the broadcast memory with another; a client has one of its own.
struct Killed {
  RingServerChannel::Peers peers;
  int messages;  // that it has been sent before its end

  bool is_worker() const { return peers == RingServerChannel::Peers::kWorkers; }
  int slots() const { return is_worker() ? 2 : 1; }
  const RingSizes& sizes() const { return is_worker() ? kWorkerRings : kClientRings; }
};
std::string NameOf(const testing::TestParamInfo<Killed>& info) {
  return (info.param.is_worker() ? "WorkerAfter" : "ClientAfter") +
         std::to_string(info.param.messages);
}

class KilledPeerTest : public testing::TestWithParam<Killed> {};

TEST_P(KilledPeerTest, AProcessThatIsKilledAtAnyMomentLeavesTheOthersTheirRing) {
  const RingSizes& sizes = GetParam().sizes();
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
    auto answers = MappedMemory::Map(memory[1], AnswerMemory::SizeBytes(sizes.answers),
                                     MappedMemory::Access::kReadAndWrite);
    const int slots = GetParam().slots();
    auto pages = MappedMemory::Map(memory[0], BroadcastMemory::SizeBytes(slots, sizes.broadcast),
                                   MappedMemory::Access::kRead);
    if (!answers.ok() || !pages.ok() || !link->Send(kRingMapped).ok()) _exit(5);
    const AnswerMemory own(answers->data(), sizes.answers);
    const BroadcastMemory broadcast(pages->data(), slots, sizes.broadcast);
    BroadcastReader reader(broadcast, 0, 0, own.header().read);
    AnswerWriter writer(own, broadcast.taken(0));
    Message message;
    for (uint64_t number = 1;; ++number) {
      if (!reader.Take(&message).ok()) _exit(6);
      (void)writer.Write(number, Numbered(number));
    }
  }
  const std::shared_ptr<ZmqContext> context = ZmqContext::Create();
  auto sockets = ZmqListen(context, "inproc://killed_peer_test");
  ASSERT_TRUE(sockets.ok()) << sockets.status();
  auto made = RingServerChannel::Create(std::move(*sockets), GetParam().peers, 2, kLong);
  ASSERT_TRUE(made.ok()) << made.status();
  RingServerChannel& server = **made;
  const PeerName name = "child";
  const std::optional<RingOffer> offer = server.OfferTo(name);
  const std::string told = offer->address + " " + offer->nonce + " ";
  ASSERT_EQ(write(names[1], told.data(), told.size()), static_cast<ssize_t>(told.size()));
  while (!server.IsByRing(name)) (void)server.HasInput();
  // Messages for the child, and its end at another moment each time.
  const std::string text(1000, 't');
  for (int i = 0; i < GetParam().messages; ++i) {
    ASSERT_TRUE(server.Send({&name, 1}, Text(text)).ok());
  }
  ASSERT_EQ(kill(child, SIGKILL), 0);
  // Twice what the ring holds: it must not wait for the dead.
  for (size_t i = 0; i < 2 * sizes.broadcast * kRingWordBytes / text.size(); ++i) {
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
constexpr auto kWorker = RingServerChannel::Peers::kWorkers;
constexpr auto kClient = RingServerChannel::Peers::kClients;
INSTANTIATE_TEST_SUITE_P(Moments, KilledPeerTest,
                         testing::Values(Killed{kWorker, 0}, Killed{kWorker, 1},
                                         Killed{kWorker, 10}, Killed{kWorker, 100},
                                         Killed{kWorker, 1000}, Killed{kWorker, 5000},
                                         Killed{kClient, 0}, Killed{kClient, 1},
                                         Killed{kClient, 100}, Killed{kClient, 1000}),
                         NameOf);

}  // namespace
}  // namespace lockstep::control
