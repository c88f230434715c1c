// Signs of life on standard error while something takes long: only on a terminal, gone when done.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace lockstep::cli {

// True if standard error is a terminal that moving pictures may be drawn on.
bool CanShowProgress();

// A line with a bar: "allreduce ━━━━━━━╸━━━━━━  420/1,000  3.1 s left". Appears once the work has
// taken longer than a blink.
//
// Threads: one caller. The line is erased when destroyed or Erase()d, so that other output may
// follow; the next Advance() draws it again.
class ProgressBar {
 public:
  ProgressBar(uint64_t total, bool visible);
  ~ProgressBar() { Erase(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // `done` of the total is done, and `label` is what comes next.
  void Advance(uint64_t done, const std::string& label);
  void Erase();

 private:
  uint64_t total_;
  bool visible_;
  bool drawn_ = false;
  int64_t started_ms_;
  int64_t last_drawn_ms_ = 0;
};

// A bar for work that blocks the caller between its steps: a thread of its own draws it.
//
// Threads: one caller.
class WatchedProgressBar {
 public:
  WatchedProgressBar(uint64_t total, bool visible);
  // Erases the line.
  ~WatchedProgressBar();
  WatchedProgressBar(const WatchedProgressBar&) = delete;
  WatchedProgressBar& operator=(const WatchedProgressBar&) = delete;

  // As ProgressBar::Advance().
  void Advance(uint64_t done, std::string label);

 private:
  void Watch();

  std::mutex mutex_;
  std::condition_variable stop_changed_;
  ProgressBar bar_;
  uint64_t done_ = 0;
  std::string label_;
  bool stop_ = false;
  std::thread thread_;
};

// A turning wheel beside `label` while the caller waits; a thread of its own turns it.
class Spinner {
 public:
  Spinner(std::string label, bool visible);
  // Erases the line.
  ~Spinner();
  Spinner(const Spinner&) = delete;
  Spinner& operator=(const Spinner&) = delete;

 private:
  void Turn();

  std::string label_;
  std::mutex mutex_;
  std::condition_variable stop_changed_;
  bool stop_ = false;
  std::thread thread_;
};

// The bar's line, for `width` columns; `elapsed_ms` tells how much is left.
std::string RenderProgressBar(uint64_t done, uint64_t total, const std::string& label,
                              int64_t elapsed_ms, int width);

}  // namespace lockstep::cli
