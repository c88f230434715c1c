#include "services/worker/report/liveness_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/random.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/value_codec.h"
#include "runtime/control/worker_report_codec.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "schemas/bulk.capnp.h"
#include "schemas/membership.capnp.h"
#include "tests/support/fake_channel.h"
#include "tests/support/patience.h"

namespace lockstep::worker {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr auto kNever = std::chrono::milliseconds(1h);

class LivenessClientTest : public testing::Test {
 protected:
  void SetUp() override {
    server_ = std::move(*control::ZmqListen(context_, "inproc://liveness-" + RandomHex(4)));
  }
  void Start(std::chrono::milliseconds controller_timeout,
             std::chrono::milliseconds interval = 5ms) {
    Start(*control::ZmqConnect(context_, server_->endpoint()), controller_timeout, interval);
  }
  void Start(std::unique_ptr<control::ClientChannel> channel,
             std::chrono::milliseconds controller_timeout, std::chrono::milliseconds interval) {
    client_ = std::make_unique<LivenessClient>(
        std::move(channel),
        LivenessClient::Options{2, Epoch(6), 8, interval, controller_timeout, &arrivals_,
                                &liveness_health_},
        activity_, pthread_self(),
        LivenessClient::Callbacks{[this](SessionId session, const AbortOrder& abort) {
                                    std::lock_guard lock(mutex_);
                                    aborts_.emplace_back(session, abort);
                                    changed_.notify_all();
                                  },
                                  [this](Epoch epoch) {
                                    std::lock_guard lock(mutex_);
                                    broken_ = epoch;
                                    changed_.notify_all();
                                  },
                                  [this](const Status& why) {
                                    std::lock_guard lock(mutex_);
                                    ++times_lost_;
                                    why_lost_ = why;
                                    changed_.notify_all();
                                  },
                                  [this](const Status& why) {
                                    std::lock_guard lock(mutex_);
                                    why_dismissed_ = why;
                                    changed_.notify_all();
                                  }});
  }

  // The next heartbeat; also learns the worker's name.
  struct Beat {
    Rank rank = -2;
    uint64_t epoch = 0;
    uint64_t watch = 0;
    WorkerActivity activity;
    // "SESSION.GENERATION.COMMAND of RANKS from FIRST: NANOS"
    std::vector<std::string> collectives;
  };
  Beat NextHeartbeat() {
    Beat beat;
    control::InputWaiter waiter(0us);
    control::Channel* const channels[] = {server_.get()};
    EXPECT_TRUE(waiter.Wait(channels, {}, Deadline::After(support::kLong)));
    control::Message message;
    if (!server_->Receive(&worker_, &message)) return beat;
    EXPECT_TRUE(control::DecodeMessage<wire::LivenessMessage>(
                    message[0],
                    [&](wire::LivenessMessage::Reader reader) {
                      auto heartbeat = reader.getHeartbeat();
                      beat = {heartbeat.getRank(),
                              heartbeat.getController(),
                              heartbeat.getWatch(),
                              control::ReadActivity(heartbeat.getActivity()),
                              {}};
                      for (auto time : heartbeat.getCollectives()) {
                        std::ostringstream text;
                        text << time.getSession() << '.' << time.getGeneration() << '.'
                             << time.getCommand() << " of " << time.getRanks() << " from "
                             << time.getFirst() << ": " << time.getNanos();
                        beat.collectives.push_back(text.str());
                      }
                      return OkStatus();
                    })
                    .ok());
    return beat;
  }
  void Send(const control::Frame& frame) {
    ASSERT_TRUE(server_->Send({&worker_, 1}, {frame}).ok());
  }
  void SendBeacon(Epoch epoch = Epoch(6)) { Send(Beacon(epoch)); }
  static control::Frame Beacon(Epoch epoch = Epoch(6)) {
    return control::EncodeMessage<wire::LivenessMessage>(
        [&](wire::LivenessMessage::Builder message) {
          auto heartbeat = message.initHeartbeat();
          heartbeat.setRank(-1);
          heartbeat.setController(epoch.value);
        });
  }

  Status Wait(Deadline deadline) {
    return client_->WaitUntilHeard(stop_.fd(), stopping_, deadline);
  }

  control::WakeUp stop_;
  std::atomic<bool> stopping_{false};
  std::shared_ptr<control::ZmqContext> context_ = control::ZmqContext::Create();
  std::unique_ptr<control::ServerChannel> server_;
  control::PeerName worker_;
  control::ActivityPage activity_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<SessionId, AbortOrder>> aborts_;
  int times_lost_ = 0;
  Status why_lost_;
  Status why_dismissed_;
  Epoch broken_;
  ArrivalLog arrivals_;
  LivenessHealth liveness_health_;
  std::unique_ptr<LivenessClient> client_;
};

TEST_F(LivenessClientTest, HeartbeatsSayWhoAndHowFar) {
  activity_.Receive(7);
  for (uint64_t command : {1, 2, 3}) {
    if (command > 1) activity_.Complete();
    activity_.Launch(SessionId(4), command);
  }
  activity_.Name("allreduce", WorkerActivity::Kind::kCollective);
  Start(kNever);
  for (int i = 0; i < 3; ++i) {
    const Beat beat = NextHeartbeat();
    EXPECT_EQ(beat.rank, 2);
    EXPECT_EQ(beat.epoch, 6u);
    EXPECT_EQ(beat.watch, 8u);
    EXPECT_EQ(beat.activity.received, 7u);
    EXPECT_EQ(beat.activity.launched, 3u);
    EXPECT_EQ(beat.activity.completed, 2u);
    EXPECT_EQ(beat.activity.kind, WorkerActivity::Kind::kCollective);
    EXPECT_THAT(beat.activity.Describe(), HasSubstr("command 3 (allreduce) of session 4"));
  }
}

// One waking for both, instead of two.
TEST_F(LivenessClientTest, AHeartbeatComesWithTheControllers) {
  constexpr auto kInterval = 100ms;
  Start(kNever, kInterval);
  bool came_along = false;
  for (int i = 0; i < 20 && !came_along; ++i) {  // this thread may come late
    (void)NextHeartbeat();
    const auto begin = Deadline::Clock::now();
    SendBeacon();  // too soon after the last one
    std::this_thread::sleep_for(kInterval / 2 + 5ms);
    const bool came_too_soon = server_->HasInput();
    SendBeacon();
    (void)NextHeartbeat();
    came_along = !came_too_soon && Deadline::Clock::now() - begin < kInterval * 3 / 4;
  }
  EXPECT_TRUE(came_along);
}

TEST_F(LivenessClientTest, HeartbeatsTellOfCollectivesOnce) {
  CollectiveTime time;
  time.session = SessionId(4);
  time.generation = Generation(1);
  time.command = 17;
  time.ranks = 3;
  time.first = 1;
  time.spent = 5ms;
  Start(kNever);
  NextHeartbeat();
  arrivals_.Note(time);
  std::vector<std::string> told;
  // One heartbeat may have been on its way.
  for (int i = 0; i < 3; ++i) {
    const Beat beat = NextHeartbeat();
    told.insert(told.end(), beat.collectives.begin(), beat.collectives.end());
  }
  EXPECT_THAT(told, ElementsAre("4.1.17 of 3 from 1: 5000000"));
  EXPECT_THAT(NextHeartbeat().collectives, IsEmpty());
}

// Another controller may count its sessions from 1 again: times of both would be compared.
TEST_F(LivenessClientTest, CollectivesUnderAnEarlierControllerAreNotTold) {
  CollectiveTime time;
  time.session = SessionId(4);
  time.ranks = 3;
  arrivals_.Note(time);
  Start(kNever);
  for (int i = 0; i < 3; ++i) EXPECT_THAT(NextHeartbeat().collectives, IsEmpty());
}

TEST_F(LivenessClientTest, ItsThreadsPulseIsFelt) {
  Start(kNever);
  NextHeartbeat();
  EXPECT_GT(liveness_health_.SinceRound(), 0s);
  EXPECT_EQ(liveness_health_.interval(), 5ms);
  client_.reset();
  EXPECT_EQ(liveness_health_.SinceRound(), 0s) << "it rests";
}

// Its port may be another process's by now.
TEST_F(LivenessClientTest, OnlyAControllersWordsAreASignOfLife) {
  Start(50ms);
  const Deadline deadline = Deadline::After(support::kLong);
  const auto is_lost = [&] {
    std::lock_guard lock(mutex_);
    return times_lost_ > 0;
  };
  while (!is_lost() && !deadline.Expired()) {
    NextHeartbeat();
    Send(control::EncodeMessage<wire::BulkReply>(
        [](wire::BulkReply::Builder reply) { reply.setTicket(73); }));
  }
  EXPECT_TRUE(is_lost());
  EXPECT_EQ(Wait(Deadline::After(0s)).code(), StatusCode::kDeadlineExceeded);
}

// The test's own thread is the one that executes: it is in this function meanwhile.
TEST_F(LivenessClientTest, ProbesAreAnsweredWithTheStack) {
  activity_.Launch(SessionId(4), 7);
  activity_.Name("sleep", WorkerActivity::Kind::kCommand);
  Start(kNever, kNever);
  NextHeartbeat();
  Send(control::EncodeMessage<wire::LivenessMessage>(
      [](wire::LivenessMessage::Builder message) { message.setProbe(42); }));
  control::InputWaiter waiter(0us);
  control::Channel* const channels[] = {server_.get()};
  ASSERT_TRUE(waiter.Wait(channels, {}, Deadline::After(support::kLong)));
  control::Message message;
  ASSERT_TRUE(server_->Receive(&worker_, &message));
  std::string stack;
  ASSERT_TRUE(control::DecodeMessage<wire::LivenessMessage>(
                  message[0],
                  [&](wire::LivenessMessage::Reader reader) {
                    EXPECT_TRUE(reader.isReport());
                    auto report = reader.getReport();
                    EXPECT_EQ(report.getProbe(), 42u);
                    EXPECT_EQ(report.getRank(), 2);
                    EXPECT_EQ(report.getController(), 6u);
                    EXPECT_EQ(control::ToString(report.getNoStack()), "");
                    EXPECT_THAT(control::ReadActivity(report.getActivity()).Describe(),
                                HasSubstr("command 7 (sleep) of session 4"));
                    for (auto frame : report.getStack()) stack += control::ToString(frame) + "\n";
                    return OkStatus();
                  })
                  .ok());
  EXPECT_THAT(stack, HasSubstr("ProbesAreAnsweredWithTheStack"));
}

TEST_F(LivenessClientTest, WorkersThatAreGivenUpAreToldWhy) {
  Start(kNever);
  NextHeartbeat();
  Send(control::EncodeMessage<wire::LivenessMessage>(
      [](wire::LivenessMessage::Builder message) { message.setDismissed("too late"); }));
  std::unique_lock lock(mutex_);
  ASSERT_TRUE(changed_.wait_for(lock, support::kLong, [&] { return !why_dismissed_.ok(); }));
  EXPECT_EQ(why_dismissed_.code(), StatusCode::kAborted);
  EXPECT_THAT(Message(why_dismissed_), HasSubstr("too late"));
  EXPECT_EQ(times_lost_, 0);
}

TEST_F(LivenessClientTest, WaitsForTheFirstSignOfTheController) {
  Start(kNever);
  EXPECT_EQ(Wait(Deadline::After(10ms)).code(), StatusCode::kDeadlineExceeded);
  NextHeartbeat();
  SendBeacon();
  EXPECT_TRUE(Wait(Deadline::After(support::kLong)).ok());
  EXPECT_TRUE(Wait(Deadline::After(support::kLong)).ok()) << "once heard, always heard";
}

TEST_F(LivenessClientTest, WaitForTheControllerEndsWithAStop) {
  Start(kNever);
  std::thread stopper([&] {
    NextHeartbeat();
    stopping_ = true;
    stop_.Signal();
  });
  EXPECT_EQ(Wait(Deadline::After(support::kLong)).code(), StatusCode::kAborted);
  stopper.join();
}

TEST_F(LivenessClientTest, AbortsAreHandedOn) {
  Start(kNever, kNever);
  NextHeartbeat();
  Send(control::EncodeMessage<wire::LivenessMessage>([](wire::LivenessMessage::Builder message) {
    auto abort = message.initAbort();
    abort.setSession(8);
    abort.setGeneration(2);
    abort.setFromCommand(17);
    control::WriteError(abort.initCause(), control::ErrorOf(Internal("rank 1 broke")));
  }));
  std::unique_lock lock(mutex_);
  ASSERT_TRUE(changed_.wait_for(lock, support::kLong, [&] { return !aborts_.empty(); }));
  EXPECT_EQ(aborts_[0].first, SessionId(8));
  EXPECT_EQ(aborts_[0].second.generation, Generation(2));
  EXPECT_EQ(aborts_[0].second.from_command, 17u);
  EXPECT_EQ(aborts_[0].second.cause.code, StatusCode::kInternal);
  EXPECT_EQ(aborts_[0].second.cause.message, "rank 1 broke");
}

TEST_F(LivenessClientTest, SilentControllerIsReportedOnce) {
  Start(40ms);
  std::unique_lock lock(mutex_);
  ASSERT_TRUE(changed_.wait_for(lock, support::kLong, [&] { return times_lost_ > 0; }));
  lock.unlock();
  for (int i = 0; i < 5; ++i) NextHeartbeat();  // it goes on all the same
  lock.lock();
  EXPECT_EQ(times_lost_, 1);
  EXPECT_THAT(Message(why_lost_), HasSubstr("silent"));
}

// A cluster that is paused as a whole (docker pause, a machine that is suspended): all workers lost
// their registers, although the controller was there as soon as they were.
TEST_F(LivenessClientTest, TimeInWhichTheWorkerWasStoppedIsNotTheControllersSilence) {
  constexpr auto kTimeout = 60ms;
  auto made = std::make_unique<support::FakeChannel>();
  support::FakeChannel& channel = *made;
  int heartbeats = 0;
  bool is_over = false;
  channel.on_sent = [&](const control::Message&) {
    switch (++heartbeats) {
      case 2:  // the thread is stopped here, for longer than a silent controller is given
        for (const Deadline stopped = Deadline::After(2 * kTimeout); !stopped.Expired();) {
          std::this_thread::yield();
        }
        break;
      case 4:  // the controller comes to speak later
        channel.Arrive({Beacon()});
        break;
      case 6: {
        std::lock_guard lock(mutex_);
        is_over = true;
        changed_.notify_all();
        break;
      }
    }
  };
  Start(std::move(made), kTimeout, 5ms);
  std::unique_lock lock(mutex_);
  EXPECT_TRUE(changed_.wait_for(lock, support::kLong, [&] { return is_over || times_lost_ > 0; }));
  EXPECT_EQ(times_lost_, 0) << why_lost_;
  // From here on it is silent.
  EXPECT_TRUE(changed_.wait_for(lock, support::kLong, [&] { return times_lost_ > 0; }));
  lock.unlock();
  client_.reset();
}

TEST_F(LivenessClientTest, BeaconOfAnotherEpochMeansThatTheControllerWasReplaced) {
  Start(kNever);
  NextHeartbeat();
  SendBeacon();
  ASSERT_TRUE(Wait(Deadline::After(support::kLong)).ok());
  {
    std::lock_guard lock(mutex_);
    EXPECT_EQ(times_lost_, 0);
  }
  SendBeacon(Epoch(7));
  SendBeacon(Epoch(7));
  std::unique_lock lock(mutex_);
  ASSERT_TRUE(changed_.wait_for(lock, support::kLong, [&] { return times_lost_ > 0; }));
  EXPECT_EQ(why_lost_.code(), StatusCode::kUnavailable);
  EXPECT_THAT(Message(why_lost_),
              AllOf(HasSubstr("restarted"), HasSubstr("epoch 7"), HasSubstr("epoch 6")));
}

TEST_F(LivenessClientTest, BrokenWorldsOfAnotherControllerAreNotTold) {
  Start(kNever);
  NextHeartbeat();
  const auto tell = [&](uint64_t controller, uint64_t broken) {
    Send(control::EncodeMessage<wire::LivenessMessage>([&](wire::LivenessMessage::Builder message) {
      auto beacon = message.initHeartbeat();
      beacon.setRank(-1);
      beacon.setController(controller);
      beacon.setBroken(broken);
    }));
  };
  tell(7, 99);
  tell(6, 66);
  std::unique_lock lock(mutex_);
  ASSERT_TRUE(changed_.wait_for(lock, support::kLong, [&] { return broken_ != Epoch(); }));
  EXPECT_EQ(broken_, Epoch(66));
}

TEST_F(LivenessClientTest, BrokenWorldsAreTold) {
  Start(kNever);
  NextHeartbeat();
  Send(control::EncodeMessage<wire::LivenessMessage>(
      [](wire::LivenessMessage::Builder message) { message.setBroken(77); }));
  std::unique_lock lock(mutex_);
  EXPECT_TRUE(changed_.wait_for(lock, support::kLong, [&] { return broken_ == Epoch(77); }));
}

TEST_F(LivenessClientTest, NonsenseIsDropped) {
  Start(kNever, kNever);
  NextHeartbeat();
  const std::vector<uint64_t> words(8, ~uint64_t{0});
  Send(control::Frame::Copy(words.data(), 64));
  Send(control::Frame::Copy("cut", 3));
  Send(control::EncodeMessage<wire::LivenessMessage>(
      [](wire::LivenessMessage::Builder message) { message.initAbort().setSession(1); }));
  std::unique_lock lock(mutex_);
  ASSERT_TRUE(changed_.wait_for(lock, support::kLong, [&] { return !aborts_.empty(); }));
  EXPECT_EQ(aborts_.size(), 1u);
  // An abort without a cause is one all the same.
  EXPECT_FALSE(aborts_[0].second.cause.ok());
}

TEST_F(LivenessClientTest, EndsAtOnceWhileItWaits) {
  Start(kNever, kNever);
  const auto begin = Deadline::Clock::now();
  client_.reset();
  EXPECT_LT(Deadline::Clock::now() - begin, support::kLong);
}

}  // namespace
}  // namespace lockstep::worker
