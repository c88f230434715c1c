// What a worker keeps for a session, and for how long: the rows of docs/adr/0022 that a test can
// walk.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/random.h"
#include "runtime/base/shared_segment.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "services/worker/execute/session_directory.h"
#include "services/worker/execute/session_state.h"
#include "tests/support/patience.h"
#include "tests/unit/services/worker/fake_communicator.h"

namespace lockstep::worker {
namespace {

// A worker that is one of two ranks, with one session.
struct OneSession {
  OneSession() {
    membership.segments = {arena->name(), "another"};
    sessions.AdoptWelcome(membership);
    control::SessionRecord record;
    record.id = SessionId(3);
    sessions.Open(record);
    state = sessions.Find(SessionId(3));
  }

  void Reset() { state->Reset(Generation(1)); }
  // A worker was lost, and another one has its rank.
  void Welcome() {
    control::SessionRecord record;
    record.id = SessionId(3);
    record.failure = control::ErrorOf(Unavailable("another rank was lost"));
    membership.sessions = {record};
    sessions.AdoptWelcome(membership);
  }
  void OtherController() {
    control::SessionRecord record;
    record.id = SessionId(3);
    membership.sessions = {record};
    sessions.SetController(membership);
    Welcome();
  }
  void Abort(SessionId session, Generation generation) {
    sessions.Abort(session, {generation, 2, control::ErrorOf(Internal("another rank failed"))});
  }

  std::shared_ptr<control::ZmqContext> context = control::ZmqContext::Create();
  std::shared_ptr<tensor::Arena> arena = *tensor::Arena::Create(
      {.name = std::string(SharedSegment::kNamePrefix) + "lifetimes-" + RandomHex(8),
       .capacity_bytes = size_t{16} << 20});
  BulkServer bulk{*control::ZmqListen(context, "inproc://lifetimes-" + RandomHex(4))};
  FakeCommunicator::Log log;
  FakeCommunicator world{log};
  SessionDirectory sessions{registers::RegisterFile::Limits(), *arena, bulk};
  Membership membership;
  std::shared_ptr<SessionState> state;
};

constexpr RegisterId kRegister{1, 1};

struct Row {
  std::string what;
  std::function<void(OneSession&)> make;
  std::function<bool(OneSession&)> is_there;
  bool after_reset;
  bool after_welcome;
  bool after_other_controller;
};

void WriteTensor(OneSession& s) {
  const auto tensor = tensor::Tensor::Empty(*s.arena, DType::kUInt8, Shape{16});
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  ASSERT_TRUE(s.state->Write(kRegister, *tensor).ok());
  s.state->Publish(kRegister, *tensor);
}

std::vector<Row> Rows() {
  return {
      {"registers", WriteTensor,
       [](OneSession& s) { return s.state->registers().Read(kRegister).ok(); }, true, true, true},
      {"tickets", WriteTensor, [](OneSession& s) { return s.state->num_tickets() == 1; }, true,
       true, true},
      {"names", [](OneSession& s) { s.state->NameRegister("weights", kRegister, 1); },
       [](OneSession& s) { return s.state->names().contains("weights"); }, true, true, true},
      {"next command", [](OneSession& s) { s.state->next_command = 7; },
       [](OneSession& s) { return s.state->next_command == 7; }, true, true, true},
      {"consumed bytes", [](OneSession& s) { s.state->consumed_bytes = 7; },
       [](OneSession& s) { return s.state->consumed_bytes == 7; }, true, false, false},
      {"failure",
       [](OneSession& s) { s.state->Fail(control::ErrorOf(Internal("this rank failed"))); },
       [](OneSession& s) { return s.state->failure().message == "this rank failed"; }, false, true,
       true},
      {"communicators",
       [](OneSession& s) {
         ASSERT_TRUE(
             s.state->CommunicatorsOf({}, {0, 1}, {&s.world}, Deadline::After(support::kLong))
                 .ok());
       },
       [](OneSession& s) { return s.log.live == 2; }, false, false, false},
      {"abort of a generation that is yet to begin",
       [](OneSession& s) { s.Abort(SessionId(3), Generation(2)); },
       [](OneSession& s) {
         s.state->Reset(Generation(2));
         return s.state->has_failed();
       },
       true, true, false},
      {"abort of a session that is yet to be opened",
       [](OneSession& s) { s.Abort(SessionId(9), Generation(0)); },
       [](OneSession& s) {
         control::SessionRecord record;
         record.id = SessionId(9);
         s.sessions.Open(record);
         return s.sessions.Find(SessionId(9))->has_failed();
       },
       true, true, false},
  };
}

TEST(SessionLifetimesTest, EverythingEndsWithWhatItBelongsTo) {
  for (const Row& row : Rows()) {
    const auto check = [&](const char* event, void (OneSession::*happen)(), bool stays) {
      OneSession session;
      row.make(session);
      (session.*happen)();
      EXPECT_EQ(row.is_there(session), stays) << row.what << " after " << event;
    };
    check("a reset", &OneSession::Reset, row.after_reset);
    check("a welcome", &OneSession::Welcome, row.after_welcome);
    check("another controller", &OneSession::OtherController, row.after_other_controller);
  }
}

}  // namespace
}  // namespace lockstep::worker
