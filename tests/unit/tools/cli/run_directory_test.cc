#include "tools/cli/run_directory.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"
#include "tests/support/files.h"

namespace lockstep::cli {
namespace {

// Records of these tests lie in a directory of their own.
class RunDirectoryTest : public testing::Test {
 protected:
  void SetUp() override { setenv("XDG_RUNTIME_DIR", base_.c_str(), 1); }

  ClusterRecord Record(const std::string& name) {
    ClusterRecord record;
    record.name = name;
    record.controller.endpoint = "ipc://" + DefaultRunDirectory(name) + "/client";
    record.directory = DefaultRunDirectory(name);
    record.workers = 2;
    record.processes.push_back(*RecordProcess("controller", getpid()));
    return record;
  }

  const support::ScratchDirectory directory_;
  const std::string base_ = directory_.path();
};

TEST_F(RunDirectoryTest, RecordsComeBack) {
  ASSERT_TRUE(WriteRecord(Record("a")).ok());
  const auto record = ReadRecord("a");
  ASSERT_TRUE(record.ok()) << record.status();
  ASSERT_TRUE(record->has_value());
  EXPECT_EQ((*record)->name, "a");
  EXPECT_EQ((*record)->controller.endpoint, "ipc://" + DefaultRunDirectory("a") + "/client");
  EXPECT_EQ((*record)->workers, 2);
  ASSERT_EQ((*record)->processes.size(), 1u);
  EXPECT_EQ((*record)->processes[0].pid, getpid());
  EXPECT_TRUE((*record)->IsAlive());
}

TEST_F(RunDirectoryTest, NothingIsThereBeforeTheFirstCluster) {
  const auto record = ReadRecord("a");
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_FALSE(record->has_value());
  const auto records = ListRecords();
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_TRUE(records->clusters.empty());
}

TEST_F(RunDirectoryTest, ListsByNameAndRemoves) {
  ASSERT_TRUE(WriteRecord(Record("b")).ok());
  ASSERT_TRUE(WriteRecord(Record("a")).ok());
  ASSERT_TRUE(MakeDefaultRunDirectory("a").ok());
  std::ofstream(DefaultRunDirectory("a") + "/log") << "x";
  auto records = ListRecords();
  ASSERT_TRUE(records.ok()) << records.status();
  ASSERT_EQ(records->clusters.size(), 2u);
  EXPECT_EQ(records->clusters[0].name, "a");
  ASSERT_TRUE(RemoveCluster(records->clusters[0]).ok());
  EXPECT_FALSE(std::filesystem::exists(DefaultRunDirectory("a")));
  records = ListRecords();
  ASSERT_EQ(records->clusters.size(), 1u);
  EXPECT_EQ(records->clusters[0].name, "b");
}

TEST_F(RunDirectoryTest, AProcessWithAnotherStartTimeIsAnotherProcess) {
  ProcessRecord process = *RecordProcess("x", getpid());
  EXPECT_TRUE(process.IsAlive());
  ++process.start_ticks;
  EXPECT_FALSE(process.IsAlive());
}

TEST_F(RunDirectoryTest, AnEndedProcessIsNotAliveEvenBeforeItIsReaped) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    char byte;
    close(ends[1]);
    _exit(read(ends[0], &byte, 1) == 0 ? 0 : 1);
  }
  close(ends[0]);
  const auto record = RecordProcess("child", child);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_TRUE(record->IsAlive());
  close(ends[1]);
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(record->IsAlive());
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(record->IsAlive());
  EXPECT_EQ(RecordProcess("child", child).status().code(), StatusCode::kNotFound);
}

TEST_F(RunDirectoryTest, DirectoriesThatOthersMayEnterAreRefused) {
  const std::string path = base_ + "/open";
  ASSERT_TRUE(MakePrivateDirectory(path).ok());
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_TRUE(MakePrivateDirectory(path).ok());
  ASSERT_EQ(chmod(path.c_str(), 0750), 0);
  EXPECT_EQ(MakePrivateDirectory(path).code(), StatusCode::kPermissionDenied);
}

TEST_F(RunDirectoryTest, LinksAndFilesAreNoDirectories) {
  ASSERT_EQ(mkdir((base_ + "/real").c_str(), 0700), 0);
  ASSERT_EQ(symlink((base_ + "/real").c_str(), (base_ + "/link").c_str()), 0);
  EXPECT_EQ(MakePrivateDirectory(base_ + "/link").code(), StatusCode::kPermissionDenied);
  std::ofstream(base_ + "/file") << "x";
  EXPECT_EQ(MakePrivateDirectory(base_ + "/file").code(), StatusCode::kPermissionDenied);
}

TEST_F(RunDirectoryTest, ALockHasOneHolder) {
  {
    const auto first = ClusterLock::Acquire("a");
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_EQ(ClusterLock::Acquire("a").status().code(), StatusCode::kFailedPrecondition);
    EXPECT_TRUE(ClusterLock::Acquire("b").ok());
  }
  EXPECT_TRUE(ClusterLock::Acquire("a").ok());
}

TEST_F(RunDirectoryTest, NamesMayEndLikeTheFilesBesideThem) {
  for (const char* name : {"a", "a.json", "a.lock", "a.json.new"}) {
    const auto lock = ClusterLock::Acquire(name);
    ASSERT_TRUE(lock.ok()) << lock.status();
    ASSERT_TRUE(MakeDefaultRunDirectory(name).ok()) << name;
    ASSERT_TRUE(WriteRecord(Record(name)).ok()) << name;
  }
  const auto records = ListRecords();
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_EQ(records->clusters.size(), 4u);
  EXPECT_TRUE(records->unreadable.empty()) << records->unreadable.front();
}

TEST_F(RunDirectoryTest, WhatIsNoRecordDoesNotHideTheOthers) {
  ASSERT_TRUE(WriteRecord(Record("a")).ok());
  ASSERT_TRUE(WriteRecord(Record("z")).ok());
  std::ofstream(RecordDirectory() + "/junk.json") << "{\"name\": 3";
  std::ofstream(RecordDirectory() + "/No Name.json") << "{}";
  std::filesystem::create_directory(RecordDirectory() + "/directory.json");
  std::filesystem::copy(RecordDirectory() + "/a.json", RecordDirectory() + "/copy.json");
  const auto records = ListRecords();
  ASSERT_TRUE(records.ok()) << records.status();
  ASSERT_EQ(records->clusters.size(), 2u);
  EXPECT_EQ(records->clusters[0].name, "a");
  EXPECT_EQ(records->clusters[1].name, "z");
  EXPECT_EQ(records->unreadable.size(), 4u);
  for (const Status& unreadable : records->unreadable) {
    EXPECT_NE(Message(unreadable).find(RecordDirectory() + "/"), std::string::npos) << unreadable;
    EXPECT_NE(Message(unreadable).find("is no record of a cluster"), std::string::npos)
        << unreadable;
  }
}

TEST_F(RunDirectoryTest, ADamagedRecordIsAnErrorThatNamesTheFile) {
  ASSERT_TRUE(WriteRecord(Record("b")).ok());
  std::ofstream(RecordDirectory() + "/a.json") << "{\"name\": 3";
  const auto record = ReadRecord("a");
  EXPECT_NE(Message(record.status()).find("a.json"), std::string::npos);
}

TEST_F(RunDirectoryTest, RecordsThatOthersMayWriteAreNotBelieved) {
  ASSERT_TRUE(WriteRecord(Record("a")).ok());
  ASSERT_EQ(chmod(RecordDirectory().c_str(), 0777), 0);
  EXPECT_EQ(ReadRecord("a").status().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(ListRecords().status().code(), StatusCode::kPermissionDenied);
}

TEST_F(RunDirectoryTest, NamesAreGoodAsFileNames) {
  EXPECT_TRUE(CheckClusterName("demo-1.x_y").ok());
  for (const char* name : {"", ".", "..", "../x", "a/b", "a b", ".hidden", "Ä"}) {
    EXPECT_EQ(CheckClusterName(name).code(), StatusCode::kInvalidArgument) << name;
  }
  EXPECT_FALSE(CheckClusterName(std::string(64, 'a')).ok());
}

// It was made, with what is above it, and nothing said so.
TEST_F(RunDirectoryTest, ARuntimeDirectoryThatDoesNotExistIsNotMade) {
  const std::string missing = base_ + "/none";
  setenv("XDG_RUNTIME_DIR", missing.c_str(), 1);
  const Status status = MakeDefaultRunDirectory("demo");
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(std::string(Message(status)).find("XDG_RUNTIME_DIR is " + missing), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(missing));
  EXPECT_FALSE(ReadRecord("demo")->has_value())
      << "there is no cluster, and nothing to complain of";
}

}  // namespace
}  // namespace lockstep::cli
