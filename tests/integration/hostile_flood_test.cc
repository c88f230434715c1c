// A client that speaks the wire by hand and sends 10,000 messages that no client sends: each is
// answered or dropped, the services stay up, and their memory does not grow.
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runtime/client/admin.h"
#include "tests/integration/session_fixture.h"
#include "tests/integration/wire_client.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;

constexpr int kMessages = 10'000;
// Before memory is looked at: allocators and caches fill up at first.
constexpr int kWarmUp = 3'000;
// What is sent between two looks at whether all is well.
constexpr int kBurst = 250;
// The messages of the flood have some 100 MiB; of those that are kept, if any, less may show.
constexpr size_t kGrowthBytes = size_t{16} << 20;

size_t ResidentBytes(pid_t pid) {
  std::ifstream statm("/proc/" + std::to_string(pid) + "/statm");
  size_t pages = 0;
  size_t resident = 0;
  statm >> pages >> resident;
  return resident * static_cast<size_t>(getpagesize());
}

class HostileFloodTest : public OwnClusterFixture {
 protected:
  ClusterOptions OwnOptions() override {
    ClusterOptions options;
    options.controller.max_batch_bytes = size_t{1} << 20;
    options.controller.session_lease = 3s;
    return options;
  }
  void TearDown() override {
    SessionFixture::TearDown();
    if (cluster_ == nullptr) return;
    EXPECT_EQ(cluster_->Stop(), OkStatus());
  }

  std::vector<size_t> Memory() {
    std::vector<size_t> bytes = {ResidentBytes(cluster_->controller_pid())};
    for (const pid_t pid : cluster_->worker_pids()) bytes.push_back(ResidentBytes(pid));
    return bytes;
  }
  void ExpectAllIsWell() {
    const DRef sum = Unwrap(session_->AllReduce(FullOfRank({2}), Reduction::kSum));
    EXPECT_EQ(Elements<float>(sum, 3), (std::vector<float>{6, 6}));
    const auto status = GetClusterStatus(cluster_->address(), 20s);
    ASSERT_TRUE(status.ok()) << status.status();
    EXPECT_TRUE(status->IsReady());
  }
  // Only the session that looks on is left: what the flood has opened is closed, or its lease over.
  void AwaitQuiet() {
    const Deadline deadline = Deadline::After(30s);
    while (Unwrap(GetClusterStatus(cluster_->address(), 20s)).sessions.size() > 1) {
      ASSERT_FALSE(deadline.Expired());
    }
    EXPECT_OK(session_->SyncAll());
  }

  size_t Below(size_t limit) { return random_() % limit; }
  std::string Garbage(size_t size) {
    std::string bytes(size, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random_());
    return bytes;
  }
  static control::Frame FrameOf(const std::string& bytes) {
    return control::Frame::Copy(bytes.data(), bytes.size());
  }
  static std::string BytesOf(const control::Frame& frame) {
    return {reinterpret_cast<const char*>(frame.data()), frame.size()};
  }
  static control::Frame Body(int commands) {
    control::BatchWriter writer;
    for (int i = 0; i < commands; ++i) {
      EXPECT_OK(writer.Add([&](wire::Command::Builder command) {
        auto empty = command.initEmpty();
        empty.initShape(1).set(0, 16);
        empty.setResult(RegisterId{static_cast<uint32_t>(i), 1}.Packed());
      }));
    }
    return writer.Take();
  }
  control::Frame BatchHeader(SessionId session, uint64_t first_command, uint32_t count) {
    return control::EncodeMessage<wire::ClientMessage>([&](wire::ClientMessage::Builder message) {
      auto batch = message.initBatch();
      batch.setSession(session.value);
      batch.setFirstCommand(first_command);
      batch.setCommandCount(count);
      batch.setGeneration(static_cast<uint32_t>(Below(3)));
      batch.setRequest(Below(5) == 0 ? random_() : 0);
      batch.setTimeoutMillis(Below(3) == 0 ? ~uint64_t{0} : Below(50));
    });
  }

  // One message that no client sends.
  void SendOne(WireClient& client) {
    const SessionId own = client.session();
    switch (Below(12)) {
      case 0:  // garbage
        return client.SendFrames({FrameOf(Garbage(1 + Below(2000)))});
      case 1:  // too many frames
        return client.SendFrames(control::Message(2 + Below(20), FrameOf(Garbage(Below(50)))));
      case 2: {  // truncated
        const std::string whole = BytesOf(BatchHeader(own, 1, 1));
        return client.SendFrames({FrameOf(whole.substr(0, Below(whole.size()))), Body(1)});
      }
      case 3: {  // damaged
        std::string header = BytesOf(BatchHeader(own, 1, 1));
        header[Below(header.size())] ^= static_cast<char>(1 << Below(8));
        return client.SendFrames({FrameOf(header), Body(1)});
      }
      case 4: {  // a good header with a body that is none
        const std::string body = BytesOf(Body(4));
        return client.SendFrames(
            {BatchHeader(own, 1, 4), FrameOf(body.substr(0, Below(body.size())) + Garbage(64))});
      }
      case 5:  // replayed, again and again
        return client.SendFrames({BatchHeader(own, 1, 2), Body(2)});
      case 6:  // out of order
        return client.SendFrames({BatchHeader(own, random_(), 1 + Below(100)), Body(1)});
      case 7:  // another session's, or of none
        return client.SendFrames(
            {BatchHeader(SessionId(static_cast<uint32_t>(Below(1000))), 1, 1), Body(1)});
      case 8:  // too large a header
        return client.SendFrames({FrameOf(Garbage((size_t{64} << 10) + 8 * Below(100)))});
      case 9:  // of another version
        return client.Send([&](wire::ClientMessage::Builder message) {
          auto open = message.initOpenSession();
          open.setMinVersion(kProtocolVersion + 1 + static_cast<uint32_t>(Below(100)));
          open.setMaxVersion(~uint32_t{0});
          open.setName(Garbage(20));
        });
      case 10:  // about sessions that are not there, with a token that is a guess
        return client.Send([&](wire::ClientMessage::Builder message) {
          auto resume = message.initResumeSession();
          resume.setMaxVersion(kProtocolVersion);
          resume.setSession(static_cast<uint32_t>(Below(1000)));
          resume.setToken(std::string(32, '0'));
          resume.setNextCommand(random_());
        });
      default:  // resets, closes and the like without sense
        return client.Send([&](wire::ClientMessage::Builder message) {
          switch (Below(4)) {
            case 0: {
              auto reset = message.initResetSession();
              reset.setSession(own.value);
              reset.setGeneration(static_cast<uint32_t>(random_()));
              reset.setSentBytes(~uint64_t{0});
              return;
            }
            case 1: {
              auto name = message.initNameRegister();
              name.setSession(own.value);
              name.initName().setName(std::string(Below(400), 'n'));
              name.getName().setRegister(random_());
              return;
            }
            case 2: {
              auto keep_alive = message.initKeepAlive();
              keep_alive.setSession(own.value);
              keep_alive.setSent(random_());
              keep_alive.setTellAgain(true);
              return;
            }
            default:
              message.initAwaitWorkers().setSession(static_cast<uint32_t>(Below(1000)));
          }
        });
    }
  }

  void Flood(int messages) {
    for (int sent = 0; sent < messages; sent += kBurst) {
      WireClient client(cluster_->address());
      ASSERT_EQ(client.Open(), OkStatus());
      for (int i = 0; i < kBurst; ++i) SendOne(client);
      // One that is too large ends the connection; what was sent before has arrived or is lost.
      if (Below(4) == 0)
        client.SendFrames({FrameOf("x"), FrameOf(std::string(size_t{3} << 20, 'x'))});
      // What is asked after all that is answered, by connection or by another.
      WireClient other(cluster_->address());
      other.Send([](wire::ClientMessage::Builder message) { message.setStatus(1); });
      EXPECT_TRUE(other.WaitFor(
          [](wire::ControllerMessage::Reader reader) { return reader.isClusterStatus(); }));
      ExpectAllIsWell();
    }
    AwaitQuiet();
  }

  std::mt19937_64 random_{20'260'101};
};
INSTANTIATE_TEST_SUITE_P(Clusters, HostileFloodTest, ::testing::Values(ClusterKind::kTcpProcesses),
                         NameOf);

TEST_P(HostileFloodTest, ServicesStayUpAndTheirMemoryDoesNotGrow) {
  Flood(kWarmUp);
  const std::vector<size_t> before = Memory();
  Flood(kMessages);
  const std::vector<size_t> after = Memory();
  ASSERT_EQ(before.size(), after.size());
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_LT(after[i], before[i] + kGrowthBytes) << (i == 0 ? "the controller" : "a worker");
  }
}

}  // namespace
}  // namespace lockstep::testing
