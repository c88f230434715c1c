#include "tools/cli/session_text.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tools/text/terminal.h"

namespace lockstep::cli {
namespace {

SessionStatus Some(uint32_t id) {
  SessionStatus session;
  session.session = SessionId(id);
  session.name = "train";
  session.host = "box";
  session.pid = 200;
  session.age = std::chrono::seconds(65);
  session.commands = 1234;
  session.path = "ring";
  session.sent_bytes = 4096;
  session.consumed_bytes = 2048;
  return session;
}

RankRegisters Told(Rank rank, uint64_t registers, uint64_t bytes) {
  RankRegisters told;
  told.rank = rank;
  told.sessions = {{SessionId(7), registers, bytes, {}}};
  return told;
}

TEST(SessionTextTest, StatesTellOfFailureAndOfTheClient) {
  SessionStatus session = Some(7);
  EXPECT_EQ(StateOf(session), "open");
  session.detached = true;
  EXPECT_EQ(StateOf(session), "detached");
  session.client_lost = true;
  EXPECT_EQ(StateOf(session), "orphaned");
  session.error = "rank 2 ...";
  EXPECT_EQ(StateOf(session), "failed, orphaned");
  session.closing = true;
  session.broken = true;
  EXPECT_EQ(StateOf(session), "broken, closing");
}

TEST(SessionTextTest, SessionsShowWhatIsWaiting) {
  std::ostringstream out;
  PrintSessions(out, text::Style(false), {Some(7)});
  EXPECT_EQ(out.str(),
            "SESSION  NAME   CLIENT   GROUPS   SENT  WAITING\n"
            "      7  train  box:200       1  4 KiB    2 KiB\n");
}

TEST(SessionTextTest, SessionsThatAreClosingSaySo) {
  SessionStatus session = Some(7);
  session.closing = true;
  std::ostringstream out;
  PrintSessions(out, text::Style(false), {session});
  EXPECT_EQ(out.str(),
            "SESSION  NAME   CLIENT   STATE    GROUPS   SENT  WAITING\n"
            "      7  train  box:200  closing       1  4 KiB    2 KiB\n");
  EXPECT_EQ(SessionToJson(session)["closing"], true);
}

TEST(SessionTextTest, ShowsWhatEachSendsAndHolds) {
  std::ostringstream out;
  PrintSessionDetails(out, text::Style(false), {Some(7)}, {Told(0, 5, 1024), Told(1, 5, 1024)});
  EXPECT_EQ(
      out.str(),
      "SESSION  NAME   CLIENT   STATE  BY          AGE  RESETS  GROUPS  COMMANDS   SENT  WAITING"
      "  REGISTERS  BYTES\n"
      "      7  train  box:200  open   ring  1 min 5 s       0       1     1,234  4 KiB    2 KiB"
      "          5  2 KiB\n");
}

TEST(SessionTextTest, FailuresAndMissingClientsAreToldBelow) {
  SessionStatus session = Some(7);
  session.error = "rank 2: oops\033[2J";
  session.detached = true;
  session.kept = std::chrono::seconds(30);
  std::ostringstream out;
  RankRegisters busy;
  busy.rank = 1;
  busy.why = "it is busy";
  PrintSessionDetails(out, text::Style(false), {session}, {Told(0, 5, 1024), busy});
  const std::string text = out.str();
  EXPECT_EQ(text.substr(text.find("session 7")),
            "session 7 has failed: rank 2: oops\\x1b[2J\n"
            "session 7 has no client; it is kept for 30.0 s more\n"
            "rank 1 has not told what it holds: it is busy\n");
}

TEST(SessionTextTest, RanksThatHoldDifferentNumbersShowARange) {
  std::ostringstream out;
  PrintSessionDetails(out, text::Style(false), {Some(7)}, {Told(0, 5, 0), Told(1, 1200, 0)});
  EXPECT_NE(out.str().find("5-1,200"), std::string::npos) << out.str();
}

TEST(SessionTextTest, NoSessionIsSaid) {
  std::ostringstream out;
  PrintSessionDetails(out, text::Style(false), {}, {});
  EXPECT_EQ(out.str(), "no session is open\n");
}

TEST(SessionTextTest, JsonHasWhatEachRankHolds) {
  const Json json = SessionDetailsToJson({Some(7)}, {Told(0, 5, 1024)});
  EXPECT_EQ(json[0]["state"], "open");
  EXPECT_EQ(json[0]["under_way_bytes"], 2048);
  EXPECT_TRUE(json[0]["error"].is_null());
  EXPECT_EQ(json[0]["ranks"], (Json::parse(R"([{"rank": 0, "registers": 5, "bytes": 1024}])")));
}

}  // namespace
}  // namespace lockstep::cli
