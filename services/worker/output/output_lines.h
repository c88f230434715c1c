// What functions print, cut into lines and gathered into messages; never more than is bearable.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/control/channel.h"

namespace lockstep::worker {

enum class OutputStream { kStdout, kStderr };
inline constexpr OutputStream kOutputStreams[] = {OutputStream::kStdout, OutputStream::kStderr};

// Threads: one at a time.
class OutputLines {
 public:
  using Clock = Deadline::Clock;
  // Longer lines come in pieces.
  static constexpr size_t kMaxLineBytes = size_t{16} << 10;
  // Besides its text, every line counts for as much.
  static constexpr size_t kBytesPerLine = 32;
  // What is printed faster than this, for longer than such a burst, is dropped and counted.
  static constexpr size_t kBytesPerSecond = size_t{4} << 20;
  static constexpr size_t kBurstBytes = size_t{1} << 20;
  // A message is sent when it has grown to this.
  static constexpr size_t kMessageBytes = size_t{64} << 10;

  // Gets a message whose root is a wire::OutputLines, and how many lines it has or stands for.
  using Send = std::function<void(control::Frame lines, uint64_t count)>;
  explicit OutputLines(Send send, Clock::time_point now = Clock::now()) : send_(std::move(send)) {
    Begin(SessionId(), now);
  }

  // Whose lines are added from here on: each session has a budget of its own.
  void Begin(SessionId session, Clock::time_point now);
  void Append(OutputStream stream, std::string_view bytes, Clock::time_point now);
  // What is not complete is a line all the same; sends everything.
  void End(Clock::time_point now);
  // Sends the lines that are complete.
  void SendGathered();
  bool has_gathered() const { return !gathered_.empty(); }

 private:
  struct Line {
    OutputStream stream;
    std::string text;
    uint64_t dropped = 0;
  };
  struct StreamState {
    std::string partial;
    uint64_t dropped = 0;
  };

  StreamState& Of(OutputStream stream) { return streams_[static_cast<size_t>(stream)]; }
  void AddLine(OutputStream stream, std::string text, Clock::time_point now);
  // Says in its place how many were dropped.
  void TellDropped(OutputStream stream);
  bool MayPass(size_t cost, Clock::time_point now);

  // Budgets that are kept; of more sessions the oldest one begins anew.
  static constexpr size_t kMostBudgets = 64;
  struct Budget {
    Clock::time_point refilled;
    size_t bytes = kBurstBytes;
    bool dropping = false;
  };

  const Send send_;
  std::array<StreamState, 2> streams_;
  std::vector<Line> gathered_;
  size_t gathered_bytes_ = 0;
  std::map<SessionId, Budget> budgets_;
  Budget* budget_;  // the one of the session that prints
};

}  // namespace lockstep::worker
