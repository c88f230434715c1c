#include "tools/cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>
#include "runtime/base/quantity.h"
#include "tools/text/format.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {
namespace {

using std::chrono::milliseconds;

// Shorter work shows nothing: a flash is no help.
constexpr milliseconds kBlink{300};
constexpr milliseconds kFrame{80};
constexpr char kEraseLine[] = "\r\033[K";

int64_t NowMillis() {
  return std::chrono::duration_cast<milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

bool CanShowProgress() {
  const char* terminal = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && terminal != nullptr && std::string_view(terminal) != "dumb";
}

std::string RenderProgressBar(uint64_t done, uint64_t total, const std::string& label,
                              int64_t elapsed_ms, int width) {
  total = std::max<uint64_t>(total, 1);
  done = std::min(done, total);
  std::string right = "  " + text::FormatCount(done) + "/" + text::FormatCount(total);
  if (done > 0 && done < total) {
    const double left = static_cast<double>(elapsed_ms) * static_cast<double>(total - done) /
                        static_cast<double>(done);
    right += "  " + RoundedDuration(milliseconds(static_cast<int64_t>(left))) + " left";
  }
  const int bar_width = std::clamp(width / 3, 10, 40);
  const int label_width = std::max(8, width - 3 - bar_width - text::DisplayWidth(right));
  const auto filled = static_cast<int>(done * static_cast<uint64_t>(bar_width) / total);
  std::string bar;
  for (int i = 0; i < bar_width; ++i) bar += i < filled ? "█" : "░";
  return bar + right + "  " + text::Shorten(label, label_width);
}

ProgressBar::ProgressBar(uint64_t total, bool visible)
    : total_(total), visible_(visible), started_ms_(NowMillis()) {}

void ProgressBar::Advance(uint64_t done, const std::string& label) {
  if (!visible_) return;
  const int64_t now = NowMillis();
  if (now - started_ms_ < kBlink.count() || now - last_drawn_ms_ < kFrame.count()) return;
  last_drawn_ms_ = now;
  drawn_ = true;
  const std::string line = RenderProgressBar(done, total_, label, now - started_ms_,
                                             text::TerminalWidth(STDERR_FILENO) - 1);
  std::fprintf(stderr, "%s%s", kEraseLine, line.c_str());
  std::fflush(stderr);
}

void ProgressBar::Erase() {
  if (!drawn_) return;
  drawn_ = false;
  last_drawn_ms_ = 0;
  std::fprintf(stderr, "%s", kEraseLine);
  std::fflush(stderr);
}

WatchedProgressBar::WatchedProgressBar(uint64_t total, bool visible) : bar_(total, visible) {
  if (visible) thread_ = std::thread([this] { Watch(); });
}

WatchedProgressBar::~WatchedProgressBar() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  stop_changed_.notify_one();
  thread_.join();
}

void WatchedProgressBar::Advance(uint64_t done, std::string label) {
  std::lock_guard<std::mutex> lock(mutex_);
  done_ = done;
  label_ = std::move(label);
}

void WatchedProgressBar::Watch() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_changed_.wait_for(lock, kFrame, [this] { return stop_; })) {
    bar_.Advance(done_, label_);
  }
  bar_.Erase();
}

Spinner::Spinner(std::string label, bool visible) : label_(std::move(label)) {
  if (visible) thread_ = std::thread([this] { Turn(); });
}

Spinner::~Spinner() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  stop_changed_.notify_one();
  thread_.join();
}

void Spinner::Turn() {
  constexpr std::array<const char*, 10> kWheel = {"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"};
  std::unique_lock<std::mutex> lock(mutex_);
  const auto stopped = [this] { return stop_; };
  if (stop_changed_.wait_for(lock, kBlink, stopped)) return;
  for (size_t frame = 0;; ++frame) {
    std::fprintf(stderr, "%s%s %s", kEraseLine, kWheel[frame % kWheel.size()], label_.c_str());
    std::fflush(stderr);
    if (stop_changed_.wait_for(lock, kFrame, stopped)) break;
  }
  std::fprintf(stderr, "%s", kEraseLine);
  std::fflush(stderr);
}

}  // namespace lockstep::cli
