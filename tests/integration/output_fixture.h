// What tests of output have in common: clients that keep what functions print.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/client/session.h"
#include "tests/integration/cluster.h"
#include "tests/integration/session_fixture.h"

namespace lockstep::testing {

// Threads: safe.
class KeptOutput {
 public:
  using Lines = std::vector<std::string>;

  OutputCallback Callback() {
    return [this](const WorkerOutput& output) {
      std::lock_guard lock(mutex_);
      if (output.dropped > 0) {
        dropped_ += output.dropped;
      } else {
        lines_[{output.rank, output.stream}].push_back(output.text);
      }
      changed_.notify_all();
    };
  }
  Lines Of(Rank rank, WorkerOutput::Stream stream = WorkerOutput::Stream::kStdout) {
    std::lock_guard lock(mutex_);
    return lines_[{rank, stream}];
  }
  bool IsEmpty() {
    std::lock_guard lock(mutex_);
    return lines_.empty() && dropped_ == 0;
  }
  uint64_t dropped() {
    std::lock_guard lock(mutex_);
    return dropped_;
  }
  // False if there are not so many in good time.
  bool AwaitLines(Rank rank, size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), [&] {
      return lines_[{rank, WorkerOutput::Stream::kStdout}].size() >= count;
    });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<Rank, WorkerOutput::Stream>, Lines> lines_;
  uint64_t dropped_ = 0;
};

// A client of a cluster, whose functions print.
class PrintingClient {
 public:
  explicit PrintingClient(Session session) : session_(std::move(session)) { Load(); }

  Session& session() { return session_; }
  void Load() { module_ = Checked(session_.LoadModule("printing_module.so")); }
  template <typename... Args>
  DRef Call(const std::string& name, const Args&... args) {
    return Checked(session_.Call(Checked(session_.GetFunction(module_, name)), args...));
  }
  DRef WorkerRank() {
    return Checked(session_.Call(Checked(session_.GetFunction("lockstep.worker_rank"))));
  }

  static DRef Checked(StatusOr<DRef> ref) {
    EXPECT_TRUE(ref.ok()) << ref.status();
    return ref.ok() ? *std::move(ref) : DRef();
  }

 private:
  Session session_;
  DRef module_;
};

}  // namespace lockstep::testing
