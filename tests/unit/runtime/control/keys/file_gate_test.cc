#include "runtime/control/keys/gate.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/control/keys/key_file.h"

namespace lockstep::control {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class FileGateTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(mkdtemp(directory_.data()), nullptr);
    path_ = directory_ + "/allowed_keys";
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  void Write(const std::string& text) { ASSERT_EQ(WriteFileWhole(path_, text, 0644), OkStatus()); }
  // As a user does who writes into the file that is there.
  void WriteInPlace(const std::string& text) { std::ofstream(path_) << text; }
  // So often that a change which stands still has been seen twice.
  static void Look(FileGate& gate) {
    gate.Refresh();
    gate.Refresh();
  }
  std::shared_ptr<AllowListFile> Open() {
    auto file = AllowListFile::Open(path_);
    EXPECT_TRUE(file.ok()) << file.status();
    return *file;
  }

  std::string directory_ = testing::TempDir() + "/gateXXXXXX";
  std::string path_;
  const PublicKey one_ = NewKeyPair().public_key;
  const PublicKey two_ = NewKeyPair().public_key;
};

TEST_F(FileGateTest, LetsInWhoseRoleSuffices) {
  Write("reader " + one_.Text() + " look\nworker " + two_.Text() + " rack1\n");
  const auto file = Open();
  FileGate clients(NewKeyPair(), file, Role::kReader, "clients");
  FileGate workers(NewKeyPair(), file, Role::kWorker, "workers");
  EXPECT_EQ(clients.Admit(one_)->name, "look");
  EXPECT_EQ(workers.Admit(two_)->name, "rack1");
  EXPECT_THAT(Message(clients.Admit(two_).status()),
              HasSubstr("\"rack1\" is a worker, and no such key is let in among the clients"));
  EXPECT_THAT(Message(workers.Admit(one_).status()),
              HasSubstr("\"look\" is a reader, and no such key is let in among the workers"));
  const PublicKey stranger = NewKeyPair().public_key;
  EXPECT_THAT(Message(clients.Admit(stranger).status()),
              AllOf(HasSubstr("lockstep keys allow --file " + path_), HasSubstr(stranger.Text())));
}

TEST_F(FileGateTest, ChangeCountsAtTheNextLooks) {
  Write("client " + one_.Text() + " trainer\n");
  FileGate gate(NewKeyPair(), Open(), Role::kReader, "clients");
  const Identity identity = *gate.Admit(one_);
  const uint64_t version = gate.version();
  gate.Refresh();
  EXPECT_EQ(gate.version(), version) << "nothing has changed";
  Write("client " + two_.Text() + " other\n");
  Look(gate);
  EXPECT_GT(gate.version(), version);
  EXPECT_FALSE(gate.Admit(one_).ok());
  EXPECT_FALSE(gate.Holds(identity));
  EXPECT_TRUE(gate.Admit(two_).ok());
}

TEST_F(FileGateTest, ChangeThatIsNotUnderstoodChangesNothing) {
  Write("client " + one_.Text() + " trainer\n");
  FileGate gate(NewKeyPair(), Open(), Role::kReader, "clients");
  const uint64_t version = gate.version();
  Write("client " + two_.Text() + " other\nclient lpk_damaged x\n");
  Look(gate);
  EXPECT_EQ(gate.version(), version);
  EXPECT_TRUE(gate.Admit(one_).ok());
  EXPECT_FALSE(gate.Admit(two_).ok());
  unlink(path_.c_str());
  Look(gate);
  EXPECT_TRUE(gate.Admit(one_).ok());
  Write("client " + two_.Text() + " other\n");
  Look(gate);
  EXPECT_TRUE(gate.Admit(two_).ok());
}

TEST_F(FileGateTest, ListThatIsBeingWrittenCountsWhenItStandsStill) {
  const std::string first = "client " + one_.Text() + " trainer\n";
  Write(first);
  FileGate gate(NewKeyPair(), Open(), Role::kReader, "clients");
  Look(gate);
  WriteInPlace("");
  gate.Refresh();
  EXPECT_TRUE(gate.Admit(one_).ok()) << "an editor has just begun to write";
  WriteInPlace(first + "client " + two_.Text() + " other\n");
  gate.Refresh();
  EXPECT_TRUE(gate.Admit(one_).ok());
  gate.Refresh();
  EXPECT_TRUE(gate.Admit(one_).ok());
  EXPECT_TRUE(gate.Admit(two_).ok());
}

TEST_F(FileGateTest, ChangeThatCouldNotBeReadIsReadLater) {
  Write("client " + one_.Text() + " trainer\n");
  FileGate gate(NewKeyPair(), Open(), Role::kReader, "clients");
  const Identity identity = *gate.Admit(one_);
  Write("revoked " + one_.Text() + " trainer\n");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  Look(gate);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(gate.Holds(identity)) << "too many files were open";
  Look(gate);
  EXPECT_FALSE(gate.Holds(identity));
  EXPECT_THAT(Message(gate.Admit(one_).status()), HasSubstr("\"trainer\" was revoked"));
}

TEST_F(FileGateTest, WhoWasJustAddedIsNotTurnedAway) {
  Write("client " + one_.Text() + " trainer\n");
  FileGate gate(NewKeyPair(), Open(), Role::kReader, "clients");
  Write("client " + one_.Text() + " trainer\nclient " + two_.Text() + " other\n");
  gate.Refresh();  // as the first of the two looks that it takes where times are coarse
  EXPECT_TRUE(gate.Admit(two_).ok());
}

// Opens all that the process may, until it is destroyed.
class Hoard {
 public:
  Hoard() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few{128, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
    for (int fd; (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) taken_.push_back(fd);
  }
  ~Hoard() {
    for (const int fd : taken_) close(fd);
    setrlimit(RLIMIT_NOFILE, &before_);
  }

 private:
  rlimit before_{};
  std::vector<int> taken_;
};

TEST_F(FileGateTest, KeyIsRevokedAlsoWhileNoDescriptorIsLeft) {
  Write("client " + one_.Text() + " trainer\n");
  FileGate gate(NewKeyPair(), Open(), Role::kReader, "clients");
  for (int i = 0; i < 3; ++i) {
    const Identity identity = *gate.Admit(one_);
    Write("client " + two_.Text() + " other\n");
    {
      const Hoard hoard;
      Look(gate);
      EXPECT_FALSE(gate.Holds(identity));
      EXPECT_FALSE(gate.Admit(one_).ok());
      EXPECT_TRUE(gate.Admit(two_).ok());
    }
    Write("client " + one_.Text() + " trainer\n");
    const Hoard hoard;
    Look(gate);
    EXPECT_TRUE(gate.Admit(one_).ok()) << "the spare descriptors were taken again";
  }
}

TEST_F(FileGateTest, ListThatCannotBeReadIsRefusedAtTheStart) {
  EXPECT_EQ(AllowListFile::Open(path_).status().code(), StatusCode::kNotFound);
  Write("nonsense\n");
  EXPECT_EQ(AllowListFile::Open(path_).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::control
