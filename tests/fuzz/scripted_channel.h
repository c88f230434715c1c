// Channels whose peers follow a script: what they say is known before.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include "runtime/control/channel.h"
#include "runtime/control/input_waiter.h"

namespace lockstep::fuzz {

// What comes next, over any of the channels that read it: one order for all of them.
//
// Threads: safe.
class Script {
 public:
  struct Line {
    int channel = 0;
    control::PeerName from;
    control::Message message;
  };

  using Prepare = std::function<control::Message(const control::Message&)>;

  // `prepare` makes what a reader gets of a line's message, on the reader's thread.
  explicit Script(Prepare prepare = nullptr) : prepare_(std::move(prepare)) {}

  // Behind, or before, what is still to come.
  void Add(Line line);
  void Insert(Line line);
  // Returns when all has been read and handled, which is when a reader asks for more; or when a
  // channel was closed.
  void WaitUntilDone();

 private:
  friend class ScriptReader;

  const Prepare prepare_;
  std::mutex mutex_;
  std::condition_variable done_changed_;
  std::deque<Line> lines_;
  bool done_ = false;
  bool closed_ = false;
  control::WakeUp wake_up_;
};

// One channel's view of the script.
class ScriptReader {
 public:
  ScriptReader(Script& script, int channel) : script_(script), channel_(channel) {}
  ~ScriptReader();
  ScriptReader(const ScriptReader&) = delete;
  ScriptReader& operator=(const ScriptReader&) = delete;

  bool HasInput();
  bool Receive(control::PeerName* from, control::Message* message);
  int wait_fd() const { return script_.wake_up_.fd(); }

 private:
  Script& script_;
  const int channel_;
};

// The script outlives its channels. `on_send` is called on the sending thread.
class ScriptedServerChannel final : public control::ServerChannel {
 public:
  using OnSend = std::function<void(const control::PeerName& to, const control::Message& message)>;

  ScriptedServerChannel(Script& script, int channel, OnSend on_send)
      : reader_(script, channel), on_send_(std::move(on_send)) {}

  const std::string& endpoint() const override { return endpoint_; }
  Status Send(absl::Span<const control::PeerName> peers, const control::Message& message) override {
    for (const control::PeerName& peer : peers) on_send_(peer, message);
    return OkStatus();
  }
  bool Receive(control::PeerName* from, control::Message* message) override {
    return reader_.Receive(from, message);
  }
  bool HasInput() override { return reader_.HasInput(); }
  int wait_fd() const override { return reader_.wait_fd(); }
  bool drained() const override { return false; }

 private:
  const std::string endpoint_ = "inproc://script";
  ScriptReader reader_;
  const OnSend on_send_;
};

class ScriptedClientChannel final : public control::ClientChannel {
 public:
  using OnSend = std::function<void(const control::Message& message)>;

  ScriptedClientChannel(Script& script, OnSend on_send)
      : reader_(script, 0), on_send_(std::move(on_send)) {}

  Status Send(const control::Message& message) override {
    on_send_(message);
    return OkStatus();
  }
  bool Receive(control::Message* message) override {
    control::PeerName from;
    return reader_.Receive(&from, message);
  }
  bool HasInput() override { return reader_.HasInput(); }
  int wait_fd() const override { return reader_.wait_fd(); }
  bool drained() const override { return false; }

 private:
  ScriptReader reader_;
  const OnSend on_send_;
};

}  // namespace lockstep::fuzz
