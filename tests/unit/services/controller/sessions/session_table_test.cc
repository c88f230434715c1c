#include "services/controller/sessions/session_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace lockstep::controller {
namespace {

using testing::HasSubstr;

constexpr TimePoint kNow;

TEST(SessionTableTest, IdsGrowAndAreNeverUsedAgain) {
  SessionTable table(2);
  const SessionId first = table.Open("a", kNow).id;
  const SessionId second = table.Open("b", kNow).id;
  EXPECT_NE(first, SessionId()) << "0 is no session";
  EXPECT_GT(second, first);
  table.Close(second);
  table.Close(first);
  EXPECT_GT(table.Open("a", kNow).id, second);
  EXPECT_EQ(table.all().size(), 1u);
}

TEST(SessionTableTest, OneClientMayHaveSeveralSessions) {
  SessionTable table(2);
  const SessionId first = table.Open("a", kNow).id;
  const SessionId second = table.Open("a", kNow).id;
  EXPECT_TRUE(table.FindOwned(first, "a").ok());
  EXPECT_TRUE(table.FindOwned(second, "a").ok());
}

TEST(SessionTableTest, SessionOfAnotherClientIsRefused) {
  SessionTable table(2);
  const SessionId id = table.Open("a", kNow).id;
  EXPECT_EQ((*table.FindOwned(id, "a"))->id, id);
  EXPECT_EQ(table.FindOwned(id, "b").status().code(), StatusCode::kPermissionDenied);
}

TEST(SessionTableTest, ClosedSessionIsNotFound) {
  SessionTable table(2);
  const SessionId id = table.Open("a", kNow).id;
  table.Close(id);
  EXPECT_EQ(table.Find(id), nullptr);
  const Status status = table.FindOwned(id, "a").status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(Message(status), HasSubstr("lease"));
  table.Close(id);  // again: nothing happens
}

TEST(SessionTableTest, TokensCannotBeGuessed) {
  SessionTable table(1);
  std::set<std::string> tokens;
  for (int i = 0; i < 50; ++i) tokens.insert(table.Open("a", kNow).token);
  EXPECT_EQ(tokens.size(), 50u);
}

TEST(SessionTableTest, SessionsMayBeClosedWhileTheirIdsAreGoneThrough) {
  SessionTable table(1);
  for (int i = 0; i < 3; ++i) table.Open("a", kNow);
  for (const SessionId id : table.Ids()) table.Close(id);
  EXPECT_TRUE(table.all().empty());
}

// One key's owner leaves room for others, and all of them for a worker that joins.
TEST(SessionTableTest, NamesTakeUpNoMoreThanCanBeHandedOver) {
  SessionTable table(2);
  const auto open = [&](const std::string& owner) -> SessionEntry& {
    SessionEntry& session = table.Open(owner, kNow);
    session.owner = control::Identity{control::Role::kClient, owner, {}};
    return session;
  };
  // Until no more fit into the sessions of this owner; 4096 names a session, as clients may have.
  const auto fill = [&](const std::string& owner) {
    Status status;
    for (int i = 0; status.ok() && i < 100; ++i) {
      SessionEntry& session = open(owner);
      for (int j = 0; status.ok() && j < 4096; ++j) {
        const std::string name = std::to_string(j) + std::string(240, 'n');
        status = table.CheckRoomForName(session, name);
        if (status.ok()) session.Name(name, {{1, 1}, 1});
      }
    }
    return status;
  };
  EXPECT_THAT(Message(fill("greedy")), HasSubstr("\"greedy\" would take up"));
  SessionEntry& other = open("modest");
  EXPECT_EQ(table.CheckRoomForName(other, "weights"), OkStatus());
  for (const char* owner : {"b", "c", "d"}) EXPECT_FALSE(fill(owner).ok());
  EXPECT_THAT(Message(fill("e")), HasSubstr("all sessions"));
  // A name that is taken back makes room; one that another register gets takes no more.
  SessionEntry& greedy = *table.Find(SessionId(1));
  const std::string first = greedy.names.begin()->first;
  const size_t before = greedy.name_bytes();
  greedy.Name(first, {{2, 2}, 2});
  EXPECT_EQ(greedy.name_bytes(), before);
  greedy.Unname(first);
  greedy.Unname(first);
  EXPECT_LT(greedy.name_bytes(), before);
  EXPECT_EQ(table.CheckRoomForName(greedy, first), OkStatus());
  SessionTable restarted(2);
  EXPECT_EQ(restarted.Restore(greedy.Record(), kNow).name_bytes(), greedy.name_bytes());
}

}  // namespace
}  // namespace lockstep::controller
