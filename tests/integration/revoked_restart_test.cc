// Keys that are taken back while the controller is down: a client that is let in no more does not
// keep, by a restart, what the workers hold for it.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/client/admin.h"
#include "runtime/control/keys/allow_list.h"
#include "runtime/control/keys/key_file.h"
#include "tests/integration/recovery_fixture.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;

// Of 127.0.0.1; no other process takes it as soon as that.
int FreePort() {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  close(listener);
  return ntohs(address.sin_port);
}

class RevokedRestartTest : public RecoveryFixture {
 protected:
  void SetUp() override {
    RecoveryFixture::SetUp();
    clients_ = "tcp://127.0.0.1:" + std::to_string(FreePort());
    controller_key_ = MakeKey("controller").Text();
    for (const char* name : {"leaver", "stayer", "watcher"}) {
      list_ += (name == std::string("watcher") ? "reader " : "client ") + MakeKey(name).Text() +
               " " + name + "\n";
    }
    WriteList();
    StartControllerProcess();
    StartWorkers();
  }

  // One that can be killed.
  void StartControllerProcess() {
    first_.push_back(StartProcess(
        "controller",
        {"workers=" + std::to_string(kWorkers), "client_endpoint=" + clients_,
         "worker_endpoint=" + IpcEndpoint("workers"),
         "liveness_endpoint=" + IpcEndpoint("liveness"), "key=" + Path("controller.key"),
         "allowed_keys=" + Path("allowed_keys"), "worker_timeout=3s", "session_lease=2s"}));
  }

  std::string Path(const std::string& name) const { return directory_->path() + "/" + name; }
  control::PublicKey MakeKey(const std::string& name) {
    const control::KeyPair pair = control::NewKeyPair();
    EXPECT_EQ(control::ReplaceKeyFile(Path(name + ".key"), pair, name), OkStatus());
    return pair.public_key;
  }
  void WriteList() {
    EXPECT_EQ(control::WriteFileWhole(Path("allowed_keys"), list_, 0600), OkStatus());
  }
  void Revoke(const std::string& name) {
    const std::string key = control::ReadKeyFile(Path(name + ".key"))->public_key.Text();
    list_.replace(list_.find("client " + key), 6, "revoked");
    WriteList();
  }
  void KillController() {
    first_.back().Signal(SIGKILL);
    ASSERT_TRUE(first_.back().Wait(Deadline::After(kLong)).ok());
  }
  void Restart() {
    controller::ControllerOptions options = Options();
    options.client_endpoint = clients_;
    options.key = Path("controller.key");
    options.allowed_keys = Path("allowed_keys");
    options.session_lease = 2s;
    StartController(options);
  }
  Session Connect(const std::string& name) {
    SessionOptions options = Patient();
    options.keep_for = 10min;  // longer than any test waits: it does not end by itself
    options.Reach({clients_, Path(name + ".key"), controller_key_});
    options.name = name;
    return Unwrapped(Session::Connect(options, context_));
  }
  // The names of the sessions that are open, once all workers are there.
  std::vector<std::string> OpenSessions() {
    const auto status = GetClusterStatus({clients_, Path("watcher.key"), controller_key_}, kLong);
    std::vector<std::string> names;
    if (!status.ok() || !status->IsReady()) return {"not ready"};
    for (const SessionStatus& session : status->sessions) names.push_back(session.name);
    return names;
  }
  bool Await(const std::vector<std::string>& sessions) {
    const Deadline deadline = Deadline::After(kLong);
    while (OpenSessions() != sessions) {
      if (deadline.Expired()) return false;
      std::this_thread::sleep_for(20ms);
    }
    return true;
  }

  std::string clients_;
  std::string controller_key_;
  std::string list_;
  std::vector<ChildProcess> first_;  // the controller that is killed
};

TEST_F(RevokedRestartTest, RevokedWhileTheControllerWasDown) {
  Session leaver = Connect("leaver");
  Session stayer = Connect("stayer");
  const DRef ranks = FullOfRank(stayer);
  ASSERT_EQ(leaver.SyncAll(), OkStatus());
  ASSERT_EQ(stayer.SyncAll(), OkStatus());
  KillController();
  Revoke("leaver");
  Restart();
  EXPECT_TRUE(Await({"stayer"})) << ::testing::PrintToString(OpenSessions());
  Recover(stayer);
  EXPECT_THAT(Elements(stayer, ranks, 1), ::testing::Each(1.0f));
}

TEST_F(RevokedRestartTest, RevokedAfterItsSessionWasRestored) {
  {
    Session leaver = Connect("leaver");
    Session stayer = Connect("stayer");
    ASSERT_EQ(leaver.Detach(), OkStatus());
    ASSERT_EQ(stayer.Detach(), OkStatus());
  }
  KillController();
  Restart();
  ASSERT_TRUE(Await({"leaver", "stayer"})) << ::testing::PrintToString(OpenSessions());
  Revoke("leaver");
  EXPECT_TRUE(Await({"stayer"})) << ::testing::PrintToString(OpenSessions());
}

// Its records at the workers are of the key that it showed last.
TEST_F(RevokedRestartTest, AKeyThatWasRotatedKeepsItsSessions) {
  Session session = Connect("stayer");
  const DRef ranks = FullOfRank(session);
  ASSERT_EQ(session.SyncAll(), OkStatus());
  const std::string old_key = control::ReadKeyFile(Path("stayer.key"))->public_key.Text();
  list_.replace(list_.find(old_key), old_key.size(), MakeKey("stayer").Text());
  WriteList();
  KillController();
  StartControllerProcess();
  Recover(session);  // it shows the new key, for the old one is not let in
  ASSERT_EQ(session.SyncAll(), OkStatus());
  list_ += "revoked " + old_key + " stayer\n";
  WriteList();
  KillController();
  Restart();
  Recover(session);
  EXPECT_EQ(session.SyncAll(), OkStatus());
  EXPECT_THAT(Elements(session, ranks, 2), ::testing::Each(2.0f));
  EXPECT_EQ(OpenSessions(), std::vector<std::string>{"stayer"});
}

}  // namespace
}  // namespace lockstep::testing
