#include "services/worker/join/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/control/message_codec.h"
#include "services/controller/world/exchanges.h"

namespace lockstep::worker {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

const auto kLong = 20s;

// Two ranks and the controller's end of their exchanges, without anything in between.
class RendezvousTest : public testing::Test {
 protected:
  RendezvousTest() {
    for (Rank rank = 0; rank < 2; ++rank) {
      ranks_.push_back(
          std::make_unique<ControllerRendezvous>(ControllerRendezvous::Identity{rank, Epoch(1), 1},
                                                 [this](control::Frame frame) { Post(frame); }));
      ranks_.back()->Enter(Epoch(4));
    }
  }

  ~RendezvousTest() override {
    {
      std::lock_guard lock(mutex_);
      ended_ = true;
      changed_.notify_all();
    }
    carrier_.join();
  }

  StatusOr<std::vector<std::string>> Exchange(Rank rank, Deadline deadline) {
    const std::string name = std::to_string(rank);
    return ranks_[static_cast<size_t>(rank)]->Exchange(5, {0, 1}, {name + ">0", name + ">1"},
                                                       &cancelled_, deadline);
  }

  std::vector<std::unique_ptr<ControllerRendezvous>> ranks_;
  std::atomic<bool> cancelled_{false};
  std::atomic<int> lose_{0};  // this many messages to the controller

 private:
  void Post(const control::Frame& frame) {
    std::lock_guard lock(mutex_);
    if (lose_ > 0) {
      --lose_;
    } else {
      posted_.push_back(frame);
    }
    changed_.notify_all();
  }
  void Carry() {
    while (true) {
      control::Frame frame;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return ended_ || !posted_.empty(); });
        if (ended_) return;
        frame = posted_.front();
        posted_.pop_front();
      }
      (void)control::DecodeMessage<wire::LivenessMessage>(frame, [&](auto offer) {
        for (const auto& answer : exchanges_.Take(controller::ReadOffer(offer.getExchange()))) {
          const control::Message said = controller::ExchangedMessage(answer);
          (void)control::DecodeMessage<wire::LivenessMessage>(said[0], [&](auto message) {
            ranks_[static_cast<size_t>(answer.to)]->Take(
                message.getExchanged(), said.size() > 1 ? said[1] : control::Frame());
            return OkStatus();
          });
        }
        return OkStatus();
      });
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<control::Frame> posted_;
  bool ended_ = false;
  controller::Exchanges exchanges_{2};  // the carrier's
  std::thread carrier_{[this] { Carry(); }};
};

TEST_F(RendezvousTest, EachRankGetsWhatIsForIt) {
  std::thread other(
      [&] { EXPECT_THAT(*Exchange(1, Deadline::After(kLong)), ElementsAre("0>1", "1>1")); });
  EXPECT_THAT(*Exchange(0, Deadline::After(kLong)), ElementsAre("0>0", "1>0"));
  other.join();
}

TEST_F(RendezvousTest, WhatIsLostOnTheWayIsSaidAgain) {
  lose_ = 2;
  std::thread other([&] { EXPECT_TRUE(Exchange(1, Deadline::After(kLong)).ok()); });
  EXPECT_TRUE(Exchange(0, Deadline::After(kLong)).ok());
  other.join();
}

TEST_F(RendezvousTest, WhoDoesNotComeIsNamedAndCanComeLater) {
  const auto missed = Exchange(0, Deadline::After(700ms));
  EXPECT_EQ(missed.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Message(missed.status()), HasSubstr("rank 1 did not come"));
  // Alone, for rank 0 has given up.
  EXPECT_FALSE(Exchange(1, Deadline::After(20ms)).ok());
  std::thread other([&] { EXPECT_TRUE(Exchange(1, Deadline::After(kLong)).ok()); });
  EXPECT_TRUE(Exchange(0, Deadline::After(kLong)).ok());
  other.join();
}

TEST_F(RendezvousTest, CanBeCancelled) {
  std::thread canceller([&] { cancelled_ = true; });
  EXPECT_EQ(Exchange(0, Deadline::After(kLong)).status().code(), StatusCode::kAborted);
  canceller.join();
}

TEST_F(RendezvousTest, EndsWithTheController) {
  std::thread closer([&] { ranks_[0]->Close(); });
  EXPECT_EQ(Exchange(0, Deadline::After(kLong)).status().code(), StatusCode::kUnavailable);
  closer.join();
}

}  // namespace
}  // namespace lockstep::worker
