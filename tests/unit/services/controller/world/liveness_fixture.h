// A liveness monitor, and workers that speak to it as the test says.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/random.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "services/controller/world/liveness_monitor.h"
#include "tests/support/patience.h"

namespace lockstep::controller {

class LivenessFixture : public testing::Test {
 protected:
  static constexpr std::chrono::milliseconds kNever = std::chrono::hours(1);
  static constexpr Epoch kEpoch{5};

  // A worker's end of the socket, driven by the test.
  class FakeWorker {
   public:
    // `watches`: what the workers were told in their welcomes, by rank.
    FakeWorker(const std::shared_ptr<control::ZmqContext>& context, const std::string& endpoint,
               const std::map<Rank, WatchId>& watches)
        : channel_(std::move(*control::ZmqConnect(context, endpoint))), watches_(watches) {}

    void SendHeartbeat(Rank rank, uint64_t completed = 0, Epoch epoch = kEpoch) {
      Send(control::EncodeMessage<wire::LivenessMessage>([&](wire::LivenessMessage::Builder m) {
        auto heartbeat = m.initHeartbeat();
        heartbeat.setRank(rank);
        heartbeat.setController(epoch.value);
        const auto watch = watches_.find(rank);
        if (watch != watches_.end()) heartbeat.setWatch(watch->second.value);
        auto activity = heartbeat.initActivity();
        activity.setReceived(completed + 2);
        activity.setLaunched(completed + 1);
        activity.setCompleted(completed);
        activity.setKind(wire::Activity::Kind::COMMAND);
        activity.setSession(3);
        activity.setCommand(17);
        activity.setWhat("sleep");
        activity.setSinceMillis(250);
      }));
    }
    void Send(const control::Frame& frame) { ASSERT_TRUE(channel_->Send({frame}).ok()); }

    // Waits for a message that `wanted` accepts; false if none comes.
    bool WaitFor(const std::function<bool(wire::LivenessMessage::Reader)>& wanted) {
      const Deadline deadline = Deadline::After(support::kLong);
      control::InputWaiter waiter(std::chrono::microseconds(0));
      control::Channel* const channels[] = {channel_.get()};
      while (waiter.Wait(channels, {}, deadline)) {
        control::Message message;
        bool found = false;
        while (!found && channel_->Receive(&message)) {
          EXPECT_TRUE(control::DecodeMessage<wire::LivenessMessage>(
                          message[0],
                          [&](wire::LivenessMessage::Reader reader) {
                            found = wanted(reader);
                            return OkStatus();
                          })
                          .ok());
        }
        if (found) return true;
      }
      return false;
    }
    bool WaitForBeacon() {
      return WaitFor([](wire::LivenessMessage::Reader reader) {
        return reader.isHeartbeat() && reader.getHeartbeat().getRank() == -1 &&
               reader.getHeartbeat().getController() == kEpoch.value;
      });
    }

   private:
    std::unique_ptr<control::ClientChannel> channel_;
    const std::map<Rank, WatchId>& watches_;
  };

  void Start(int workers, std::chrono::milliseconds timeout,
             std::chrono::milliseconds interval = std::chrono::milliseconds(10)) {
    auto channel = std::move(*control::ZmqListen(context_, "inproc://liveness-" + RandomHex(4)));
    endpoint_ = channel->endpoint();
    monitor_ = std::make_unique<LivenessMonitor>(
        std::move(channel), workers,
        LivenessMonitor::Options{kEpoch, interval, joining_timeout_.value_or(timeout), timeout,
                                 "tcp://controller:1"},
        [this](const WorkerLoss& loss) {
          std::lock_guard lock(mutex_);
          lost_.push_back(loss);
          changed_.notify_all();
        },
        [this](const WorkerReport& report) {
          std::lock_guard lock(mutex_);
          reports_.push_back(report);
          changed_.notify_all();
        });
  }
  // A worker that has been welcomed.
  WatchId Watch(Rank rank, const std::string& host_id, int pid) {
    const WatchId watch = monitor_->Watch(rank, host_id, pid);
    monitor_->ExpectHeartbeats(rank);
    watches_[rank] = watch;
    return watch;
  }
  void TearDown() override { monitor_.reset(); }

  FakeWorker Connect() { return FakeWorker(context_, endpoint_, watches_); }
  // The losses, once there are `count`.
  std::vector<WorkerLoss> WaitForLosses(size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, support::kLong, [&] { return lost_.size() >= count; }));
    return lost_;
  }
  size_t losses() {
    std::lock_guard lock(mutex_);
    return lost_.size();
  }

  std::shared_ptr<control::ZmqContext> context_ = control::ZmqContext::Create();
  std::string endpoint_;
  std::unique_ptr<LivenessMonitor> monitor_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<WorkerLoss> lost_;
  std::map<Rank, WatchId> watches_;
  std::vector<WorkerReport> reports_;
  // Until the welcome and the first heartbeat; none: as long as from then on.
  std::optional<std::chrono::milliseconds> joining_timeout_;
};

}  // namespace lockstep::controller
