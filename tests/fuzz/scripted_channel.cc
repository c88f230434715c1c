#include "tests/fuzz/scripted_channel.h"

namespace lockstep::fuzz {

void Script::Add(Line line) {
  std::lock_guard lock(mutex_);
  lines_.push_back(std::move(line));
  done_ = false;
  wake_up_.Signal();
}

void Script::Insert(Line line) {
  std::lock_guard lock(mutex_);
  lines_.push_front(std::move(line));
  done_ = false;
  wake_up_.Signal();
}

void Script::WaitUntilDone() {
  std::unique_lock lock(mutex_);
  done_changed_.wait(lock, [this] { return done_ || closed_; });
}

ScriptReader::~ScriptReader() {
  std::lock_guard lock(script_.mutex_);
  script_.closed_ = true;
  script_.done_changed_.notify_all();
}

bool ScriptReader::HasInput() {
  std::lock_guard lock(script_.mutex_);
  return !script_.lines_.empty() && script_.lines_.front().channel == channel_;
}

bool ScriptReader::Receive(control::PeerName* from, control::Message* message) {
  Script::Line line;
  {
    std::lock_guard lock(script_.mutex_);
    if (script_.lines_.empty()) {
      script_.wake_up_.Clear();
      script_.done_ = true;
      script_.done_changed_.notify_all();
      return false;
    }
    if (script_.lines_.front().channel != channel_) return false;
    line = std::move(script_.lines_.front());
    script_.lines_.pop_front();
  }
  *from = std::move(line.from);
  *message = script_.prepare_ == nullptr ? std::move(line.message) : script_.prepare_(line.message);
  return true;
}

}  // namespace lockstep::fuzz
