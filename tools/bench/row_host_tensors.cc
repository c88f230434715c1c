// Host tensors, which lie in worker-0's memory: to hand them over, to deal them out, and to read
// what was gathered. Beside what the same takes with memory of the client's own, and beside plain
// copies of as many bytes.
//
// Each is filled anew before it is handed over, and all memory was written to before.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/cores.h"
#include "runtime/base/quantity.h"
#include "runtime/base/shared_segment.h"
#include "tools/bench/clusters.h"
#include "tools/bench/plain_copy.h"
#include "tools/bench/report.h"
#include "tools/bench/rows.h"
#include "tools/bench/settings.h"

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTensorRanks = 4;
constexpr int kReceivers = kTensorRanks - 1;
constexpr size_t kTensorBytes = 64 * kMiB;
constexpr int64_t kTensorElements = kTensorBytes / sizeof(float);
constexpr int kTurns = 8;  // of which the median is a round's number
constexpr double kShareGoalMicros = 5;
constexpr double kPlainGoal = 0.8;

double TookMicros(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// What the receivers of a broadcast have to do, by as many threads as there are cores.
class PlainBroadcast {
 public:
  static StatusOr<std::unique_ptr<PlainBroadcast>> Make() {
    auto made = std::make_unique<PlainBroadcast>();
    for (int i = 0; i <= kReceivers; ++i) {
      LOCKSTEP_ASSIGN_OR_RETURN(auto segment, SharedSegment::Create("lockstep-bench-broadcast-" +
                                                                        std::to_string(getpid()) +
                                                                        "-" + std::to_string(i),
                                                                    kTensorBytes));
      LOCKSTEP_RETURN_IF_ERROR(segment->Reserve(kTensorBytes));
      made->segments_.push_back(std::move(segment));
    }
    return made;
  }
  float* source() const { return reinterpret_cast<float*>(segments_[0]->data()); }

  // The microseconds of the best way to copy.
  double Best() const {
    double best = std::numeric_limits<double>::infinity();
    for (const PlainCopy& way : PlainCopies()) {
      std::fill_n(source(), kTensorElements, 1.0f);
      const auto start = Clock::now();
      CopyToAll(way);
      best = std::min(best, TookMicros(start));
    }
    return best;
  }

 private:
  void CopyToAll(const PlainCopy& way) const {
    const size_t threads = std::clamp<size_t>(static_cast<size_t>(UsableCores()), 1, kReceivers);
    const size_t part = kTensorBytes / threads / 4096 * 4096;
    std::vector<std::thread> running;
    for (size_t t = 0; t < threads; ++t) {
      const size_t begin = t * part;
      const size_t size = t + 1 == threads ? kTensorBytes - begin : part;
      running.emplace_back([this, &way, begin, size] {
        for (int to = 1; to <= kReceivers; ++to) {
          way.copy(segments_[static_cast<size_t>(to)]->data() + begin, segments_[0]->data() + begin,
                   size);
        }
      });
    }
    for (std::thread& thread : running) thread.join();
  }

  std::vector<std::unique_ptr<SharedSegment>> segments_;
};

// A host tensor that was filled.
StatusOr<SharedTensor> Filled(Session& session, float value) {
  LOCKSTEP_ASSIGN_OR_RETURN(SharedTensor tensor,
                            session.MakeHostTensor({kTensorElements}, DType::kFloat32));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto elements, tensor.Elements<float>());
  std::fill(elements.begin(), elements.end(), value);
  return tensor;
}

// The median of the microseconds that `turn` returns.
StatusOr<double> Turns(const std::function<StatusOr<double>(float)>& turn) {
  std::vector<double> micros;
  for (int i = 0; i < kTurns; ++i) {
    LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
    LOCKSTEP_ASSIGN_OR_RETURN(const double each, turn(static_cast<float>(i)));
    micros.push_back(each);
  }
  return Median(std::move(micros));
}

class HostTensorLines {
 public:
  HostTensorLines(Session& session, const DRef& nop, Report& report)
      : session_(session),
        nop_(nop),
        make_(Add(report, "MakeHostTensor", Goal::None())),
        hand_over_(Add(report, "MoveToWorker0", Goal::ValueAtMost(kShareGoalMicros))),
        share_(Add(report, "BroadcastFromWorker0, the call alone", Goal::RatioAtLeast(kPlainGoal))),
        broadcast_(Add(report, "the same until 4 workers have it", Goal::RatioAtLeast(kPlainGoal))),
        scatter_(Add(report, "ScatterFromWorker0 to 4 workers", Goal::RatioAtLeast(1))),
        gather_(
            Add(report, "GatherToWorker0, then MoveFromWorker0 and read", Goal::RatioAtLeast(1))),
        own_(static_cast<size_t>(kTensorElements)) {}

  Status Round(const PlainBroadcast& plain) {
    LOCKSTEP_RETURN_IF_ERROR(HandOver());
    LOCKSTEP_RETURN_IF_ERROR(Broadcast(plain));
    LOCKSTEP_RETURN_IF_ERROR(Scatter());
    return Gather();
  }

 private:
  static Line& Add(Report& report, const char* what, Goal goal) {
    return report.Add({.row = "copy",
                       .what = std::string(what) + ", " + RoundedSize(kTensorBytes),
                       .unit = "us",
                       .better = Better::kLess,
                       .goal = goal});
  }

  Status HandOver() {
    std::vector<double> makes;
    LOCKSTEP_ASSIGN_OR_RETURN(
        const double handed, Turns([&](float value) -> StatusOr<double> {
          LOCKSTEP_RETURN_IF_ERROR(session_.SyncAll());
          const auto before = Clock::now();
          LOCKSTEP_ASSIGN_OR_RETURN(SharedTensor tensor,
                                    session_.MakeHostTensor({kTensorElements}, DType::kFloat32));
          makes.push_back(TookMicros(before));
          std::fill_n(static_cast<float*>(tensor.data()), kTensorElements, value);
          const auto start = Clock::now();
          LOCKSTEP_ASSIGN_OR_RETURN(const DRef ref, session_.MoveToWorker0(std::move(tensor)));
          return TookMicros(start);
        }));
    hand_over_.ours.push_back(handed);
    make_.ours.push_back(Median(std::move(makes)));
    LOCKSTEP_ASSIGN_OR_RETURN(const double sync, TimeSync(session_, std::chrono::milliseconds(50)));
    make_.Rival("SyncAll").values.push_back(sync);
    return OkStatus();
  }

  // What any call costs the client there: it sends, and wakes another thread.
  StatusOr<double> TimeCall() {
    return Turns([&](float value) -> StatusOr<double> {
      LOCKSTEP_ASSIGN_OR_RETURN(const SharedTensor tensor, Filled(session_, value));
      const auto start = Clock::now();
      LOCKSTEP_RETURN_IF_ERROR(session_.Call(nop_).status());
      const double took = TookMicros(start);
      LOCKSTEP_RETURN_IF_ERROR(session_.SyncAll());
      return took;
    });
  }

  Status Broadcast(const PlainBroadcast& plain) {
    std::vector<double> shares;
    LOCKSTEP_ASSIGN_OR_RETURN(
        const double whole, Turns([&](float value) -> StatusOr<double> {
          LOCKSTEP_ASSIGN_OR_RETURN(SharedTensor tensor, Filled(session_, value));
          const auto start = Clock::now();
          LOCKSTEP_ASSIGN_OR_RETURN(const DRef all,
                                    session_.BroadcastFromWorker0(std::move(tensor)));
          shares.push_back(TookMicros(start));
          LOCKSTEP_RETURN_IF_ERROR(session_.SyncAll());
          return TookMicros(start);
        }));
    share_.ours.push_back(Median(std::move(shares)));
    LOCKSTEP_ASSIGN_OR_RETURN(const double call, TimeCall());
    share_.Rival("a call of lockstep.nop").values.push_back(call);
    broadcast_.ours.push_back(whole);
    LOCKSTEP_ASSIGN_OR_RETURN(const double copies,
                              Turns([&](float) -> StatusOr<double> { return plain.Best(); }));
    broadcast_.Rival("3 plain copies, on all cores").values.push_back(copies);
    LOCKSTEP_ASSIGN_OR_RETURN(const double by_copy, DealOutByCopy([&](const DRef& source) {
                                return session_.BroadcastFromWorker0(source);
                              }));
    broadcast_.Rival("CopyToWorker0, then a broadcast").values.push_back(by_copy);
    return OkStatus();
  }

  Status Scatter() {
    LOCKSTEP_ASSIGN_OR_RETURN(
        const double whole, Turns([&](float value) -> StatusOr<double> {
          LOCKSTEP_ASSIGN_OR_RETURN(SharedTensor tensor, Filled(session_, value));
          const auto start = Clock::now();
          LOCKSTEP_ASSIGN_OR_RETURN(parts_, session_.ScatterFromWorker0(std::move(tensor)));
          LOCKSTEP_RETURN_IF_ERROR(session_.SyncAll());
          return TookMicros(start);
        }));
    scatter_.ours.push_back(whole);
    LOCKSTEP_ASSIGN_OR_RETURN(const double by_copy, DealOutByCopy([&](const DRef& source) {
                                return session_.ScatterFromWorker0(source);
                              }));
    scatter_.Rival("CopyToWorker0, then a scatter").values.push_back(by_copy);
    return OkStatus();
  }

  // Of what Scatter() has left.
  Status Gather() {
    double sum = 0;
    LOCKSTEP_ASSIGN_OR_RETURN(
        const double whole, Turns([&](float) -> StatusOr<double> {
          LOCKSTEP_RETURN_IF_ERROR(session_.SyncAll());
          const auto start = Clock::now();
          LOCKSTEP_ASSIGN_OR_RETURN(DRef gathered, session_.GatherToWorker0(parts_));
          LOCKSTEP_ASSIGN_OR_RETURN(const SharedTensor tensor,
                                    session_.MoveFromWorker0(std::move(gathered)));
          sum += Read(static_cast<const float*>(tensor.data()));
          return TookMicros(start);
        }));
    gather_.ours.push_back(whole);
    LOCKSTEP_ASSIGN_OR_RETURN(
        const double by_copy, Turns([&](float) -> StatusOr<double> {
          LOCKSTEP_RETURN_IF_ERROR(session_.SyncAll());
          const auto start = Clock::now();
          LOCKSTEP_ASSIGN_OR_RETURN(const DRef gathered, session_.GatherToWorker0(parts_));
          LOCKSTEP_RETURN_IF_ERROR(
              session_.CopyFromWorker0({own_.data(), own_.size(), DType::kFloat32}, gathered));
          sum -= Read(own_.data());
          return TookMicros(start);
        }));
    gather_.Rival("then CopyFromWorker0 and read").values.push_back(by_copy);
    return sum == 0 ? OkStatus() : Internal("what was gathered differs from its copy");
  }

  // One element of each cache line.
  static double Read(const float* elements) {
    double sum = 0;
    for (int64_t i = 0; i < kTensorElements; i += 16) sum += elements[i];
    return sum;
  }

  StatusOr<double> DealOutByCopy(const std::function<StatusOr<DRef>(const DRef&)>& deal_out) {
    return Turns([&](float value) -> StatusOr<double> {
      LOCKSTEP_ASSIGN_OR_RETURN(const DRef source,
                                session_.Empty({kTensorElements}, DType::kFloat32, 0));
      LOCKSTEP_RETURN_IF_ERROR(session_.SyncAll());
      std::fill(own_.begin(), own_.end(), value);
      const auto start = Clock::now();
      LOCKSTEP_RETURN_IF_ERROR(session_.CopyToWorker0(source, ViewOf(own_.data(), own_.size())));
      LOCKSTEP_ASSIGN_OR_RETURN(const DRef dealt, deal_out(source));
      LOCKSTEP_RETURN_IF_ERROR(session_.SyncAll());
      return TookMicros(start);
    });
  }

  Session& session_;
  const DRef nop_;
  Line& make_;
  Line& hand_over_;
  Line& share_;
  Line& broadcast_;
  Line& scatter_;
  Line& gather_;
  std::vector<float> own_;
  DRef parts_;
};

}  // namespace

Status MeasureHostTensors(const Settings& settings, Report& report) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto cluster, StartLocalCluster(kTensorRanks));
  LOCKSTEP_ASSIGN_OR_RETURN(Session session, cluster->Connect());
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef nop, session.GetFunction("lockstep.nop"));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto plain, PlainBroadcast::Make());
  {
    Report unused;  // the first touch of all memory
    HostTensorLines warm(session, nop, unused);
    LOCKSTEP_RETURN_IF_ERROR(warm.Round(*plain));
  }
  HostTensorLines lines(session, nop, report);
  for (int round = 0; round < settings.rounds; ++round) {
    LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
    LOCKSTEP_RETURN_IF_ERROR(lines.Round(*plain));
  }
  LOCKSTEP_RETURN_IF_ERROR(session.Close());
  return cluster->Stop();
}

}  // namespace lockstep::bench
