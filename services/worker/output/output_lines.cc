#include "services/worker/output/output_lines.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "runtime/control/message_codec.h"
#include "schemas/control.capnp.h"

namespace lockstep::worker {
namespace {

// Once lines are dropped, more are until there is room for so much: else every other line would be.
constexpr size_t kRoomToGoOn = OutputLines::kBurstBytes / 4;

}  // namespace

void OutputLines::Begin(SessionId session, Clock::time_point now) {
  const auto [budget, is_new] = budgets_.try_emplace(session, Budget{now});
  budget_ = &budget->second;
  // Sessions are numbered as they come.
  if (budgets_.size() > kMostBudgets) {
    budgets_.erase(budgets_.begin() == budget ? std::next(budget) : budgets_.begin());
  }
}

void OutputLines::Append(OutputStream stream, std::string_view bytes, Clock::time_point now) {
  std::string& partial = Of(stream).partial;
  while (!bytes.empty()) {
    const size_t room = kMaxLineBytes - partial.size();
    const size_t newline = bytes.find('\n');
    const size_t taken = std::min({newline, bytes.size(), room});
    partial.append(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
    const bool ends = !bytes.empty() && bytes.front() == '\n';
    if (ends) bytes.remove_prefix(1);
    const bool is_piece = !ends && partial.size() == kMaxLineBytes && !bytes.empty();
    if (ends || is_piece) AddLine(stream, std::exchange(partial, {}), now);
  }
}

void OutputLines::End(Clock::time_point now) {
  for (const OutputStream stream : kOutputStreams) {
    if (!Of(stream).partial.empty()) AddLine(stream, std::exchange(Of(stream).partial, {}), now);
    TellDropped(stream);
  }
  SendGathered();
}

void OutputLines::AddLine(OutputStream stream, std::string text, Clock::time_point now) {
  const size_t cost = text.size() + kBytesPerLine;
  if (!MayPass(cost, now)) {
    ++Of(stream).dropped;
    return;
  }
  TellDropped(stream);
  gathered_.push_back({stream, std::move(text)});
  gathered_bytes_ += cost;
  if (gathered_bytes_ >= kMessageBytes) SendGathered();
}

void OutputLines::TellDropped(OutputStream stream) {
  if (Of(stream).dropped == 0) return;
  gathered_.push_back({stream, "", std::exchange(Of(stream).dropped, 0)});
  gathered_bytes_ += kBytesPerLine;
}

bool OutputLines::MayPass(size_t cost, Clock::time_point now) {
  const std::chrono::duration<double> elapsed = now - budget_->refilled;
  const auto refill = static_cast<size_t>(
      std::min(std::max(elapsed.count(), 0.0) * double{kBytesPerSecond}, double{kBurstBytes}));
  if (refill > 0) {
    budget_->bytes = std::min(budget_->bytes + refill, kBurstBytes);
    budget_->refilled = now;
  }
  budget_->dropping = budget_->bytes < (budget_->dropping ? kRoomToGoOn : cost);
  if (budget_->dropping) return false;
  budget_->bytes -= cost;
  return true;
}

void OutputLines::SendGathered() {
  if (gathered_.empty()) return;
  uint64_t count = 0;
  control::Frame frame =
      control::EncodeMessage<wire::OutputLines>([&](wire::OutputLines::Builder message) {
        auto lines = message.initLines(static_cast<unsigned>(gathered_.size()));
        for (unsigned i = 0; i < lines.size(); ++i) {
          const Line& line = gathered_[i];
          lines[i].setStream(line.stream == OutputStream::kStdout
                                 ? wire::OutputLine::Stream::STDOUT
                                 : wire::OutputLine::Stream::STDERR);
          lines[i].setText(
              kj::arrayPtr(reinterpret_cast<const kj::byte*>(line.text.data()), line.text.size()));
          lines[i].setDropped(line.dropped);
          count += std::max<uint64_t>(line.dropped, 1);
        }
      });
  gathered_.clear();
  gathered_bytes_ = 0;
  send_(std::move(frame), count);
}

}  // namespace lockstep::worker
