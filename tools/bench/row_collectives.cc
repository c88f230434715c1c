// Collectives among processes of this host, beside Open MPI and what memory can do.
//
// Open MPI runs with the tunings of open_mpi.cc, of which each size is compared with the best. What
// they choose besides transports are algorithms of allreduce.
#include <string>
#include <vector>

#include "runtime/base/child_process.h"
#include "runtime/base/quantity.h"
#include "tools/bench/open_mpi.h"
#include "tools/bench/program.h"
#include "tools/bench/rows.h"

namespace lockstep::bench {
namespace {

constexpr double kAsFastAsMpi = 1;
constexpr double kNearTheFloor = 1 / 1.3;
constexpr char kFloor[] = "direct reads";

struct Case {
  const char* kind;
  const char* element;
};
// What only moves elements does not depend on what they are.
constexpr Case kCases[] = {
    {"allreduce", "f32"},      {"allreduce", "bf16"},      {"allreduce", "i8"},
    {"reduce-scatter", "f32"}, {"reduce-scatter", "bf16"}, {"reduce-scatter", "i8"},
    {"broadcast", "f32"},      {"allgather", "f32"},       {"alltoall", "f32"},
};

// Of the whole: what a rank has, sends or receives, which each rank has a part of.
std::vector<size_t> Sizes(bool quick) {
  if (quick) return {64, 64 * kKiB, kMiB};
  return {64, 4 * kKiB, 64 * kKiB, kMiB, 16 * kMiB};
}

// Every rank then reads its result, which charges an algorithm that leaves it in a peer's cache.
StatusOr<double> ThenRead(const Numbers& numbers, size_t size_bytes) {
  return Get(numbers, std::to_string(size_bytes) + "_read_us");
}

class Comparison {
 public:
  Comparison(const Case& of, int ranks, const Settings& settings)
      : of_(of), ranks_(ranks), settings_(settings), sizes_(Sizes(settings.quick)) {
    arguments_ = {of.kind, of.element, settings.quick ? "0.02" : "0.06"};
    for (const size_t size : sizes_) arguments_.push_back(std::to_string(size));
  }

  void AddLines(Report& report) {
    for (const size_t size : sizes_) {
      const std::string what = std::string(of_.kind) + ", " + std::to_string(ranks_) + " ranks, " +
                               RoundedSize(size) + " " + of_.element;
      lines_.push_back(&Add(report, what, kAsFastAsMpi));
      floor_lines_.push_back(&Add(report, what + ", beside direct reads", kNearTheFloor));
    }
  }

  Status Measure(const std::string& ours, const std::string& floor, const StatusOr<OpenMpi>& mpi) {
    LOCKSTEP_ASSIGN_OR_RETURN(const Numbers our_numbers, Run(ours));
    LOCKSTEP_ASSIGN_OR_RETURN(const Numbers of_memory, Run(floor));
    for (size_t i = 0; i < sizes_.size(); ++i) {
      LOCKSTEP_ASSIGN_OR_RETURN(const double micros, ThenRead(our_numbers, sizes_[i]));
      LOCKSTEP_ASSIGN_OR_RETURN(const double least, ThenRead(of_memory, sizes_[i]));
      lines_[i]->ours.push_back(micros);
      floor_lines_[i]->ours.push_back(micros);
      floor_lines_[i]->Rival(kFloor).values.push_back(least);
      if (!mpi.ok()) lines_[i]->note = Message(mpi.status());
    }
    if (!mpi.ok()) return OkStatus();
    for (const MpiTuning& tuning : MpiTunings()) {
      LOCKSTEP_ASSIGN_OR_RETURN(const Numbers theirs,
                                RunRival(mpi->Run(ranks_, tuning, arguments_, settings_.scratch)));
      for (size_t i = 0; i < sizes_.size(); ++i) {
        LOCKSTEP_ASSIGN_OR_RETURN(const double micros, ThenRead(theirs, sizes_[i]));
        lines_[i]->Rival("Open MPI " + tuning.name).values.push_back(micros);
      }
    }
    return OkStatus();
  }

 private:
  static Line& Add(Report& report, const std::string& what, double goal) {
    return report.Add({.row = "collectives",
                       .what = what,
                       .unit = "us",
                       .better = Better::kLess,
                       .goal = Goal::RatioAtLeast(goal)});
  }
  StatusOr<Numbers> Run(const std::string& program) const {
    std::vector<std::string> argv = {program, std::to_string(ranks_)};
    argv.insert(argv.end(), arguments_.begin(), arguments_.end());
    return RunRival({.argv = argv, .scratch = settings_.scratch});
  }

  const Case of_;
  const int ranks_;
  const Settings& settings_;
  const std::vector<size_t> sizes_;
  std::vector<std::string> arguments_;
  std::vector<Line*> lines_;
  std::vector<Line*> floor_lines_;
};

}  // namespace

Status MeasureCollectives(const Settings& settings, Report& report) {
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::string ours,
      FindProgram("collective_shm", "LOCKSTEP_COLLECTIVE_SHM", "tools/bench/collectives"));
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::string floor,
      FindProgram("collective_floor", "LOCKSTEP_COLLECTIVE_FLOOR", "tools/bench/collectives"));
  const StatusOr<OpenMpi> mpi = OpenMpi::Find();
  std::vector<Comparison> comparisons;
  for (const Case& of : kCases) {
    for (const int ranks : {2, 4, 8}) {
      comparisons.emplace_back(of, ranks, settings);
      comparisons.back().AddLines(report);
    }
  }
  for (int round = 0; round < settings.rounds; ++round) {
    for (Comparison& comparison : comparisons) {
      LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
      LOCKSTEP_RETURN_IF_ERROR(comparison.Measure(ours, floor, mpi));
    }
  }
  return OkStatus();
}

}  // namespace lockstep::bench
