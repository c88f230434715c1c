#include "tools/cli/logs/log_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "tests/support/files.h"

namespace lockstep::cli {
namespace {

class LogFileTest : public testing::Test {
 protected:
  std::string Path() const { return directory_.File("worker-0.log"); }
  void Append(const std::string& text) { std::ofstream(Path(), std::ios::app) << text; }
  static std::string Line(int second, char level, const std::string& message) {
    return "2026-03-01T12:00:0" + std::to_string(second) + ".000 " + level +
           " lockstep-worker[1] " + message + "\n";
  }
  static std::vector<std::string> Messages(const StatusOr<std::vector<LogEntry>>& entries) {
    EXPECT_TRUE(entries.ok()) << entries.status();
    std::vector<std::string> messages;
    if (!entries.ok()) return messages;
    for (const LogEntry& entry : *entries) messages.push_back(entry.message);
    return messages;
  }
  using Lines = std::vector<std::string>;

  const support::ScratchDirectory directory_;
  LogFile file_{"worker-0", Path()};
};

TEST_F(LogFileTest, WhatGrowsIsReadOnceAndInWholeLines) {
  EXPECT_EQ(Messages(file_.Read({}, 10, false)), Lines()) << "it does not exist yet";
  Append(Line(1, 'I', "one") + "half");
  EXPECT_EQ(Messages(file_.Read({}, 10, false)), Lines({"one"}));
  Append(" a line\nrest");
  EXPECT_EQ(Messages(file_.Read({}, 10, false)), Lines({"half a line"}));
  EXPECT_EQ(Messages(file_.Read({}, 10, true)), Lines({"rest"}));
  EXPECT_EQ(Messages(file_.Read({}, 10, true)), Lines());
}

TEST_F(LogFileTest, TheLastThatAreWantedAreKept) {
  Append(Line(1, 'E', "one") + Line(2, 'I', "two") + Line(3, 'W', "three") + "terminate called\n" +
         Line(4, 'I', "four"));
  EXPECT_EQ(Messages(file_.Read({log::Level::kWarning}, 2, true)),
            Lines({"three", "terminate called"}))
      << "what a crash says has no level, and is wanted";
}

TEST_F(LogFileTest, OnlyTheEndIsReadWhereThatIsEnough) {
  std::string long_line(100'000, 'x');
  Append(Line(1, 'I', "one") + Line(2, 'I', long_line) + Line(3, 'I', "three"));
  ASSERT_TRUE(file_.SkipToLast(1).ok());
  EXPECT_EQ(Messages(file_.Read({}, 10, true)), Lines({"three"}));
  LogFile two("worker-0", Path());
  ASSERT_TRUE(two.SkipToLast(2).ok());
  EXPECT_EQ(Messages(two.Read({}, 10, true)).size(), 2u);
  LogFile all("worker-0", Path());
  ASSERT_TRUE(all.SkipToLast(7).ok());
  EXPECT_EQ(Messages(all.Read({}, 10, true)).size(), 3u);
  LogFile none("worker-0", Path());
  ASSERT_TRUE(none.SkipToLast(0).ok());
  EXPECT_EQ(Messages(none.Read({}, 10, true)), Lines());
}

TEST_F(LogFileTest, AnEndlessLineIsCut) {
  Append(std::string(LogFile::kMaxLineBytes + 5, 'x') + "\nnext\n");
  const Lines lines = Messages(file_.Read({}, 10, true));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].size(), LogFile::kMaxLineBytes);
  EXPECT_EQ(lines[1], "next");
}

TEST_F(LogFileTest, ARemovedFileIsReadToItsEnd) {
  Append("one\n");
  EXPECT_EQ(Messages(file_.Read({}, 10, false)), Lines({"one"}));
  Append("two\n");
  std::filesystem::remove(Path());
  EXPECT_EQ(Messages(file_.Read({}, 10, false)), Lines({"two"}));
}

TEST_F(LogFileTest, ACutFileIsReadFromItsBeginning) {
  Append("a long line\n");
  EXPECT_EQ(Messages(file_.Read({}, 10, false)), Lines({"a long line"}));
  std::filesystem::resize_file(Path(), 0);
  Append("new\n");
  EXPECT_EQ(Messages(file_.Read({}, 10, false)), Lines({"new"}));
}

TEST_F(LogFileTest, FilesAreMergedByTimeAndEachKeepsItsOrder) {
  Append(Line(3, 'I', "b3") + "b3 goes on\n" + Line(1, 'I', "b1 by a clock that was put back"));
  std::ofstream(directory_.File("controller.log")) << "early\n"
                                                   << Line(2, 'I', "a2") << Line(4, 'I', "a4");
  LogFile controller("controller", directory_.File("controller.log"));
  std::vector<std::vector<LogEntry>> files = {*controller.Read({}, 10, true),
                                              *file_.Read({}, 10, true)};
  EXPECT_EQ(Messages(MergeByTime(std::move(files))),
            Lines({"early", "a2", "b3", "b3 goes on", "b1 by a clock that was put back", "a4"}));
}

TEST_F(LogFileTest, WhatSaysNoTimeHasThatOfWhatFollowsOrOfTheFile) {
  Append(Line(1, 'I', "one") + "printed\n" + Line(5, 'I', "five") + "last words\n");
  const auto entries = file_.Read({}, 10, true);
  ASSERT_TRUE(entries.ok()) << entries.status();
  ASSERT_EQ(entries->size(), 4u);
  EXPECT_EQ((*entries)[1].time, (*entries)[2].time);
  // The file was written today.
  EXPECT_GT((*entries)[3].time, (*entries)[2].time);
}

TEST_F(LogFileTest, WhatIsAddedWhileItIsReadComesWithTheNextCall) {
  Append("one\n");
  EXPECT_EQ(Messages(file_.Read({}, 10, false)), Lines({"one"}));
  Append(std::string(200'000, 'x') + "\n");
  EXPECT_EQ(Messages(file_.Read({}, 10, false)).size(), 1u);
  EXPECT_EQ(Messages(file_.Read({}, 10, false)), Lines());
}

}  // namespace
}  // namespace lockstep::cli
