// A communicator that does nothing, for tests of those who keep communicators.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/collective/communicator.h"

namespace lockstep::worker {

// Counts how many there are, and what is done to them; operations are not what is tested with it.
class FakeCommunicator : public collective::Communicator {
 public:
  struct Log {
    Rank rank = 0;
    int size = 1;
    std::vector<uint64_t> tags;
    std::atomic<int> live{0};
    std::atomic<int> aborts{0};
    std::atomic<int> leaves{0};
    std::atomic<bool> in_split{false};
    std::atomic<int> runs{0};  // operations
    // If set, Split returns when this is, or it was cancelled.
    std::atomic<bool>* let_split = nullptr;
    Status outcome;                 // of every operation
    bool may_still_change = false;  // a peer may go on writing to what was to be received
  };
  explicit FakeCommunicator(Log& log) : log_(log) { ++log_.live; }
  ~FakeCommunicator() override { --log_.live; }

  Rank rank() const override { return log_.rank; }
  int size() const override { return log_.size; }
  absl::Span<const Rank> members() const override { return {}; }
  std::string_view backend() const override { return "fake"; }
  bool RecvMayStillChange() const override { return log_.may_still_change; }
  void ReportAs(std::string) override {}
  void Leave(const Status&) override { ++log_.leaves; }
  void Abort(const Status&) override { ++log_.aborts; }

 protected:
  Status DoRun(const collective::Operation&, Deadline) override {
    ++log_.runs;
    return log_.outcome;
  }
  StatusOr<std::unique_ptr<Communicator>> DoSplit(absl::Span<const Rank>, uint64_t tag,
                                                  Deadline deadline,
                                                  const std::atomic<bool>* cancelled) override {
    log_.tags.push_back(tag);
    log_.in_split = true;
    while (log_.let_split != nullptr && !*log_.let_split) {
      if (cancelled != nullptr && *cancelled) return Aborted("cancelled");
      if (deadline.Expired()) return DeadlineExceeded("no rank came");
      std::this_thread::yield();
    }
    return std::make_unique<FakeCommunicator>(log_);
  }

 private:
  Log& log_;
};

}  // namespace lockstep::worker
