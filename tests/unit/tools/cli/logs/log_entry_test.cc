#include "tools/cli/logs/log_entry.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include "tools/text/terminal.h"

namespace lockstep::cli {
namespace {

class LogEntryTest : public testing::Test {
 protected:
  LogEntryTest() {
    setenv("TZ", "UTC", 1);
    tzset();
  }

  static std::string Rendered(const std::string& line) {
    LogEntry entry = ParseLogLine(line);
    entry.source = "worker-2";
    return RenderLogEntry(entry, text::Style(false), 10);
  }
};

constexpr char kText[] =
    "2026-03-01T12:00:00.123 W lockstep-worker[4711] rank=2 epoch=17 session=3 failed: rank=9 [x] ";
constexpr char kJson[] =
    R"({"time":"2026-03-01T12:00:00.123Z","level":"warning","service":"lockstep-worker",)"
    R"("pid":4711,"rank":2,"epoch":17,"session":3,"message":"failed: rank=9 [x] "})";

TEST_F(LogEntryTest, BothFormatsSayTheSame) {
  for (const char* line : {kText, kJson}) {
    SCOPED_TRACE(line);
    const LogEntry entry = ParseLogLine(line);
    EXPECT_EQ(entry.time.time_since_epoch(), std::chrono::milliseconds(1772366400123));
    EXPECT_EQ(entry.level, log::Level::kWarning);
    EXPECT_EQ(entry.program, "lockstep-worker");
    EXPECT_EQ(entry.pid, 4711);
    EXPECT_EQ(entry.context.rank, 2);
    EXPECT_EQ(entry.context.epoch, 17u);
    EXPECT_EQ(entry.context.session, 3u);
    EXPECT_EQ(entry.message, "failed: rank=9 [x] ");
    EXPECT_EQ(
        Rendered(line),
        "2026-03-01T12:00:00.123 W worker-2    rank=2 epoch=17 session=3 failed: rank=9 [x] ");
  }
}

TEST_F(LogEntryTest, TextTimesAreLocal) {
  setenv("TZ", "UTC-2", 1);  // two hours ahead
  tzset();
  EXPECT_EQ(ParseLogLine(kText).time.time_since_epoch(),
            std::chrono::milliseconds(1772366400123) - std::chrono::hours(2));
  EXPECT_EQ(ParseLogLine(kJson).time.time_since_epoch(), std::chrono::milliseconds(1772366400123));
}

TEST_F(LogEntryTest, WhatTheLogHasNotWrittenIsKeptAsItIs) {
  for (const char* line :
       {"", "terminate called", "{}", "{\"time\":1}", "2026-03-01T12:00:00.123",
        "2026-03-01T12:00:00.123 W x", "2026-03-01T12:00:00.123 Q lockstep-worker[1] x",
        "2026-03-0xT12:00:00.123 W lockstep-worker[1] x"}) {
    const LogEntry entry = ParseLogLine(line);
    EXPECT_FALSE(entry.level.has_value()) << line;
    EXPECT_EQ(entry.message, line);
  }
  EXPECT_EQ(Rendered("evil \033[2J"), std::string(23, ' ') + "   worker-2    evil \\x1b[2J");
}

TEST_F(LogEntryTest, JsonIsTheSameForBothFormats) {
  EXPECT_EQ(LogEntryToJson(ParseLogLine(kText)), LogEntryToJson(ParseLogLine(kJson)));
  const Json json = LogEntryToJson(ParseLogLine(kText));
  EXPECT_EQ(json["time"], "2026-03-01T12:00:00.123Z");
  EXPECT_EQ(json["level"], "warning");
  EXPECT_EQ(json["session"], 3);
  const Json other = LogEntryToJson(ParseLogLine("terminate called"));
  EXPECT_TRUE(other["level"].is_null());
  EXPECT_EQ(other["message"], "terminate called");
}

}  // namespace
}  // namespace lockstep::cli
