// What a worker's GPU still has to do, command by command.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/collective/device.h"
#include "runtime/control/worker_report.h"
#include "runtime/tensor/storage.h"
#include "runtime/tensor/tensor.h"

namespace lockstep::worker {

// Where tensors lie, in the GPU's memory or the host's; some of it may be freed since.
using TensorMemory = std::vector<collective::MemoryRange>;
bool MeetsAny(const TensorMemory& memory, const collective::MemoryRange& range);

// What steps of a plan are called, for errors: made when it is wanted.
class StepNames {
 public:
  virtual ~StepNames() = default;
  // "train.cc:12, step 3 of the plan (copy)", or of those from `first` to `last`; empty: they have
  // no name.
  virtual std::string NameOf(size_t first, size_t last) const = 0;
  // "train.cc:12", the same of the lines alone.
  virtual std::string PlaceOf(size_t first, size_t last) const = 0;
};

// Some steps of a plan, one after the other.
struct StepRange {
  std::shared_ptr<const StepNames> names = nullptr;  // null: no steps of a plan
  size_t first = 0;
  size_t last = 0;

  std::string Name() const { return names == nullptr ? "" : names->NameOf(first, last); }
  std::string Place() const { return names == nullptr ? "" : names->PlaceOf(first, last); }
};

// One command's part on the GPU.
struct GpuWork {
  SessionId session;
  Generation generation;
  uint64_t command = 0;
  std::string what;      // the function's name, or the collective's
  StepRange steps = {};  // of a plan: those that it is
  WorkerActivity::Kind kind = WorkerActivity::Kind::kCommand;
  Rank first = 0;  // of a collective
  Rank last = 0;
  // How long it may take from when it is the oldest; 0: any time.
  std::chrono::milliseconds time_limit{0};
  // What it works on, where that may not go back before.
  std::vector<tensor::Tensor> held = {};
  // The tensors that it reads, and those that it writes, and may read.
  TensorMemory reads = {};
  TensorMemory writes = {};
  // Of a collective: that by which it goes; of a graph: those of its collectives.
  std::vector<std::shared_ptr<collective::DeviceConnection>> connections = {};
  // What keeps a graph that it is a launch of; null: it is none.
  std::shared_ptr<void> graph = nullptr;
  // Called when it is done, with the time that the GPU took; may be empty.
  std::function<void(std::chrono::nanoseconds)> done = {};
  // Called when it is given up, perhaps more than once; may be empty.
  std::function<void()> give_up = {};
};

// Which of a session's collectives are cut off, of those that are not done, and of those that were
// done not long ago: a rank whose peers were aborted before it knew may have got garbage from them.
struct CutOff {
  std::optional<Generation> generation = {};  // none: of any
  uint64_t from_command = 0;                  // 0: whatever is not confirmed
  // Before that all ranks were well.
  Deadline::Clock::time_point since = Deadline::Clock::time_point::max();
};

// In the order in which the commands came. What is done is found out by asking the GPU: nothing
// here waits.
//
// Threads: one.
class InFlight {
 public:
  // Borrowed.
  explicit InFlight(collective::Accelerator& device) : device_(device) {}

  // `work` is what was put into the compute stream since the last one.
  Status Add(GpuWork work);
  // It is over with the last communication, which there was.
  void AddCommunication(GpuWork work, const collective::CommunicationSpan& span);

  // Forgets what is done, oldest first, up to one that is not; adds to `collected` how many that
  // were, also after an error. Errors: what the GPU tells of any of it; kDeadlineExceeded: the
  // oldest has taken longer than its limit. Then the oldest is the one to blame: see Blame().
  Status Collect(int* collected);

  bool empty() const { return works_.empty(); }
  size_t size() const { return works_.size(); }
  bool HasAnyOf(SessionId session) const;
  const GpuWork& oldest() const { return works_.front().work; }
  void ForEach(const std::function<void(const GpuWork&)>& visit) const;
  // All that the session has put there is done, and seen to be right.
  void Confirm(SessionId session);
  // What has no value any more: what the session's collectives that are cut off were to write, and
  // what was written since by work that has read any of it.
  TensorMemory SpoiltBy(SessionId session, const CutOff& cut_off) const;
  // When it became the oldest.
  Deadline::Clock::time_point since() const { return works_.front().since; }

  // Which commands an error of the GPU may come from: "command 7 (scale)", or that and the ones
  // after it. CUDA does not say; it is none of those that were seen to be done.
  std::string Blame() const;

  // Forgets all, done or not; returns how many that were. What is held by what is not done stays
  // until the process ends.
  int Abandon();

 private:
  struct Entry {
    GpuWork work;
    std::shared_ptr<collective::DeviceEvent> began;  // null: it is not timed
    std::shared_ptr<collective::DeviceEvent> ended;
    Deadline::Clock::time_point since = {};
  };
  // What is done, for SpoiltBy().
  struct Finished {
    SessionId session;
    Generation generation;
    uint64_t command = 0;
    bool is_collective = false;
    bool is_confirmed = false;
    Deadline::Clock::time_point when;
    TensorMemory reads;
    TensorMemory writes;
  };
  void Push(Entry entry);

  collective::Accelerator& device_;
  std::deque<Entry> works_;
  std::deque<Finished> finished_;                                 // the last of them
  std::vector<std::shared_ptr<collective::DeviceEvent>> events_;  // that are not used
};

}  // namespace lockstep::worker
