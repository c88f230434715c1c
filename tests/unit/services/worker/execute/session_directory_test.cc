#include "services/worker/execute/session_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/host_identity.h"
#include "runtime/base/random.h"
#include "runtime/base/shared_segment.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "runtime/tensor/tensor.h"
#include "tests/support/child.h"

namespace lockstep::worker {
namespace {

using support::Child;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Of a worker that is one of two ranks.
class SessionDirectoryTest : public testing::Test {
 protected:
  void SetUp() override {
    auto arena = tensor::Arena::Create(
        {.name = std::string(SharedSegment::kNamePrefix) + "directory-" + RandomHex(8),
         .capacity_bytes = size_t{16} << 20});
    ASSERT_TRUE(arena.ok()) << arena.status();
    arena_ = *std::move(arena);
    auto bulk = control::ZmqListen(context_, "inproc://directory-" + RandomHex(4));
    ASSERT_TRUE(bulk.ok()) << bulk.status();
    bulk_ = std::make_unique<BulkServer>(*std::move(bulk));
    membership_.segments = {arena_->name(), "another"};
    Restart();
  }
  // A worker that knows of nothing.
  void Restart() {
    sessions_ =
        std::make_unique<SessionDirectory>(registers::RegisterFile::Limits(), *arena_, *bulk_);
    sessions_->AdoptWelcome(membership_);
  }

  static control::SessionRecord Record(uint32_t id) {
    control::SessionRecord record;
    record.id = SessionId(id);
    record.token = "token of " + std::to_string(id);
    return record;
  }
  // Of generation 0, from a command on.
  static AbortOrder From(uint64_t command) {
    control::RemoteError cause;
    cause.code = StatusCode::kInternal;
    cause.message = "another rank failed";
    return {Generation(), command, cause};
  }
  std::vector<uint32_t> Ids() {
    std::vector<uint32_t> ids;
    for (const auto& session : sessions_->All()) ids.push_back(session->id().value);
    return ids;
  }
  // Puts a tensor of 1000 bytes into a register, and publishes it.
  RegisterId MakeLocatedTensor(SessionState& session) {
    auto tensor = tensor::Tensor::Empty(*arena_, DType::kUInt8, Shape{1000});
    EXPECT_TRUE(tensor.ok()) << tensor.status();
    const RegisterId id{1, 1};
    EXPECT_TRUE(session.Write(id, *tensor).ok());
    session.Publish(id, *tensor);
    return id;
  }
  size_t live() const { return arena_->Stats().live_blocks; }

  std::shared_ptr<control::ZmqContext> context_ = control::ZmqContext::Create();
  std::shared_ptr<tensor::Arena> arena_;
  std::unique_ptr<BulkServer> bulk_;
  Membership membership_;
  std::unique_ptr<SessionDirectory> sessions_;
};

TEST_F(SessionDirectoryTest, HasTheSessionsThatWereOpenedAndNotClosed) {
  EXPECT_EQ(sessions_->Find(SessionId(3)), nullptr);
  sessions_->Open(Record(3));
  sessions_->Open(Record(5));
  ASSERT_NE(sessions_->Find(SessionId(3)), nullptr);
  EXPECT_THAT(Ids(), ElementsAre(3, 5));
  EXPECT_EQ(sessions_->Count(), 2u);
  sessions_->Close(*sessions_->Find(SessionId(3)), /*client_lost=*/false);
  EXPECT_EQ(sessions_->Find(SessionId(3)), nullptr);
  EXPECT_EQ(sessions_->Inventory().size(), 1u);
}

TEST_F(SessionDirectoryTest, SessionWhoseGroupsDoNotDivideTheWorldIsNotThere) {
  control::SessionRecord record = Record(3);
  record.num_groups = 3;
  sessions_->Open(record);
  EXPECT_THAT(Ids(), IsEmpty());
}

TEST_F(SessionDirectoryTest, AbortEndsTheSessionFromItsCommandOn) {
  sessions_->Open(Record(3));
  sessions_->Abort(SessionId(3), From(7));
  const auto session = sessions_->Find(SessionId(3));
  EXPECT_FALSE(session->Skips(6));
  EXPECT_TRUE(session->Skips(7));
}

TEST_F(SessionDirectoryTest, AbortThatOvertakesTheOpeningIsKeptForTheSession) {
  sessions_->Abort(SessionId(4), From(2));
  sessions_->Open(Record(3));
  EXPECT_FALSE(sessions_->Find(SessionId(3))->has_failed());
  sessions_->Open(Record(4));
  EXPECT_TRUE(sessions_->Find(SessionId(4))->Skips(2));
}

TEST_F(SessionDirectoryTest, AbortOfASessionThatIsOverIsForgotten) {
  sessions_->Open(Record(4));
  sessions_->Close(*sessions_->Find(SessionId(4)), /*client_lost=*/false);
  sessions_->Abort(SessionId(4), From(2));
  sessions_->Open(Record(4));
  EXPECT_FALSE(sessions_->Find(SessionId(4))->has_failed());
}

TEST_F(SessionDirectoryTest, AnotherControllersSessionsAreNotEndedByEarlierAborts) {
  sessions_->Abort(SessionId(4), From(2));
  sessions_->SetController(membership_);
  sessions_->Open(Record(4));
  EXPECT_FALSE(sessions_->Find(SessionId(4))->has_failed());
}

// That controller goes on with a generation that the lost one may have reached, and gives it work
// of its own: this rank alone would skip it, and its peers would wait for it in their collectives.
TEST_F(SessionDirectoryTest, AnotherControllersGenerationsAreNotFailedByEarlierAborts) {
  sessions_->Open(Record(3));
  AbortOrder later = From(2);
  later.generation = Generation(1);
  sessions_->Abort(SessionId(3), later);
  sessions_->SetController(membership_);
  membership_.sessions = {Record(3)};
  sessions_->AdoptWelcome(membership_);
  const auto session = sessions_->Find(SessionId(3));
  session->Reset(Generation(1));
  EXPECT_FALSE(session->has_failed());
}

// A new world under the same controller: what it has said before holds.
TEST_F(SessionDirectoryTest, TheSameControllersEarlierAbortsSurviveAWelcome) {
  sessions_->Open(Record(3));
  AbortOrder later = From(2);
  later.generation = Generation(1);
  sessions_->Abort(SessionId(3), later);
  membership_.sessions = {Record(3)};
  sessions_->AdoptWelcome(membership_);
  const auto session = sessions_->Find(SessionId(3));
  session->Reset(Generation(1));
  EXPECT_TRUE(session->Skips(2));
}

TEST_F(SessionDirectoryTest, AbortOfAllReachesEverySessionFromOtherThreads) {
  sessions_->Open(Record(3));
  sessions_->Open(Record(5));
  std::thread other(
      [this] { sessions_->AbortAll(control::ErrorOf(Unavailable("rank 1 is lost"))); });
  other.join();
  for (const auto& session : sessions_->All()) {
    EXPECT_TRUE(session->Skips(1)) << session->id();
    EXPECT_THAT(session->failure().message, HasSubstr("rank 1 is lost"));
  }
}

TEST_F(SessionDirectoryTest, WelcomeSaysWhichSessionsGoOn) {
  sessions_->Open(Record(3));
  sessions_->Open(Record(5));
  // 3 is unknown to the controller; 5 is another session of the same number; 6 is new here.
  control::SessionRecord other = Record(5);
  other.token = "another";
  other.next_command = 8;
  membership_.sessions = {other, Record(6)};
  sessions_->AdoptWelcome(membership_);
  EXPECT_THAT(Ids(), ElementsAre(5, 6));
  EXPECT_EQ(sessions_->Find(SessionId(5))->first_command(), 8u);
}

TEST_F(SessionDirectoryTest, WelcomeKeepsWhatASessionHolds) {
  sessions_->Open(Record(3));
  MakeLocatedTensor(*sessions_->Find(SessionId(3)));
  membership_.sessions = {Record(3)};
  sessions_->AdoptWelcome(membership_);
  EXPECT_THAT(Ids(), ElementsAre(3));
  EXPECT_EQ(live(), 1u);
  membership_.forget = true;
  sessions_->AdoptWelcome(membership_);
  EXPECT_THAT(Ids(), ElementsAre(3));
  EXPECT_EQ(live(), 0u);
}

TEST_F(SessionDirectoryTest, ClosingFreesTensorsAndTheirTickets) {
  sessions_->Open(Record(3));
  const auto session = sessions_->Find(SessionId(3));
  MakeLocatedTensor(*session);
  EXPECT_EQ(live(), 1u);
  sessions_->Close(*session, /*client_lost=*/false);
  EXPECT_EQ(session->num_tickets(), 0u);
  EXPECT_EQ(live(), 0u);
}

TEST_F(SessionDirectoryTest, WhatALostClientThatLivesHasLocatedIsKeptUntilItEnds) {
  Child client;
  control::SessionRecord record = Record(3);
  record.pid = client.pid();
  record.host_id = ThisHost().id;
  sessions_->Open(record);
  const auto session = sessions_->Find(SessionId(3));
  ASSERT_NE(session->client_process(), nullptr);
  MakeLocatedTensor(*session);
  sessions_->Close(*session, /*client_lost=*/true);
  EXPECT_EQ(live(), 1u);
  client.End();
  sessions_->lent_memory().FreeEnded();
  EXPECT_EQ(live(), 0u);
}

TEST_F(SessionDirectoryTest, WithdrawnTicketIsForgotten) {
  sessions_->Open(Record(3));
  const auto session = sessions_->Find(SessionId(3));
  const RegisterId id = MakeLocatedTensor(*session);
  session->WithdrawTicket({id.index + 1, id.generation});
  EXPECT_EQ(session->num_tickets(), 1u);
  session->WithdrawTicket(id);
  EXPECT_EQ(session->num_tickets(), 0u);
}

TEST_F(SessionDirectoryTest, AnotherClientKeepsOnlyRegistersWithNames) {
  sessions_->Open(Record(3));
  const auto session = sessions_->Find(SessionId(3));
  MakeLocatedTensor(*session);
  control::SessionRecord record = Record(3);
  record.client_number = session->client_number() + 1;
  sessions_->Adopt(*session, record);
  EXPECT_EQ(session->num_tickets(), 0u);
  EXPECT_EQ(live(), 0u);
}

TEST_F(SessionDirectoryTest, MemoryUseNamesSessionsAndBytes) {
  sessions_->Open(Record(3));
  MakeLocatedTensor(*sessions_->Find(SessionId(3)));
  sessions_->Open(Record(5));
  EXPECT_EQ(sessions_->DescribeMemoryUse(),
            "session 3 holds 1000 B, here and in host memory, session 5 holds 0 B, here and "
            "in host memory");
}

}  // namespace
}  // namespace lockstep::worker
