#include "runtime/client/output_listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace lockstep::client {
namespace {

using testing::ElementsAre;

class OutputListenerTest : public testing::Test {
 protected:
  std::unique_ptr<OutputListener> Listen(OutputCallback callback) {
    OutputListener::Source source;
    source.wait_fd = nothing_arrives_.fd();
    source.look = [] { return true; };
    source.begin_sleep = [] {};
    source.end_sleep = [] {};
    source.taken = [this](uint64_t position) { taken_ = position; };
    return std::make_unique<OutputListener>(std::move(callback), std::move(source));
  }
  OutputCallback Keep() {
    return [this](const WorkerOutput& line) { lines_.push_back(line.text); };
  }
  static std::vector<WorkerOutput> Lines(const std::vector<std::string>& texts) {
    std::vector<WorkerOutput> lines;
    for (const std::string& text : texts) lines.push_back({.text = text});
    return lines;
  }

  control::WakeUp nothing_arrives_;
  std::vector<std::string> lines_;  // the callback's, until it has been waited for
  std::atomic<uint64_t> taken_{0};
};

TEST_F(OutputListenerTest, HandsLinesOverInOrderBeforeAnyoneGoesOn) {
  const auto listener = Listen(Keep());
  listener->Push(Lines({"a", "b"}), 10);
  listener->Push(Lines({"c"}), 20);
  listener->AwaitHandedOver();
  EXPECT_THAT(lines_, ElementsAre("a", "b", "c"));
}

TEST_F(OutputListenerTest, TellsTheControllerNowAndThen) {
  const auto listener = Listen(Keep());
  listener->Push(Lines({"a"}), 1000);
  listener->AwaitHandedOver();
  EXPECT_EQ(taken_, 0u);
  listener->Push(Lines({"b"}), 1 << 20);
  listener->AwaitHandedOver();
  EXPECT_EQ(taken_, uint64_t{1} << 20);
}

TEST_F(OutputListenerTest, StopHandsOverWhatHasCome) {
  const auto listener = Listen(Keep());
  listener->Push(Lines({"a"}), 1);
  listener->Stop();
  EXPECT_THAT(lines_, ElementsAre("a"));
}

TEST_F(OutputListenerTest, StuckCallbackIsWaitedForOnce) {
  std::promise<void> gate;
  std::shared_future<void> opened = gate.get_future().share();
  const auto listener = Listen([opened](const WorkerOutput&) { opened.wait(); });
  for (int i = 0; i < 100; ++i) {
    listener->Push(Lines({"a"}), 1);
    listener->AwaitHandedOver();  // a hundred seconds, if each waited
  }
  gate.set_value();
  listener->Stop();
}

TEST_F(OutputListenerTest, CallbackDoesNotWaitForItself) {
  OutputListener* self = nullptr;
  const auto listener = Listen([&](const WorkerOutput& line) {
    self->AwaitHandedOver();
    lines_.push_back(line.text);
  });
  self = listener.get();
  listener->Push(Lines({"a"}), 1);
  listener->AwaitHandedOver();
  EXPECT_THAT(lines_, ElementsAre("a"));
}

}  // namespace
}  // namespace lockstep::client
