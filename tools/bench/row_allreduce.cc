// Allreduce among processes of one host, beside Open MPI at its best.
//
// Open MPI runs with several tunings, and each size is compared with the one that is best for it.
#include <string>
#include <vector>

#include "services/local/child_process.h"
#include "tools/bench/open_mpi.h"
#include "tools/bench/program.h"
#include "tools/bench/rows.h"
#include "tools/text/format.h"

namespace lockstep::bench {
namespace {

constexpr size_t kLargeFrom = size_t{1} << 20;
constexpr double kGoalLarge = 2;
constexpr double kGoalSmall = 1;

std::vector<size_t> AllReduceSizes(bool quick) {
  constexpr size_t kKiB = 1 << 10;
  constexpr size_t kMiB = 1 << 20;
  if (quick) return {8, 64 * kKiB, kMiB, 16 * kMiB};
  return {8, kKiB, 64 * kKiB, kMiB, 16 * kMiB, 64 * kMiB};
}

// The two lines of one size: the operation, and the operation with every rank reading its result.
struct SizeLines {
  size_t size_bytes;
  Line* operation;
  Line* and_reading;
};

SizeLines AddLines(Report& report, int ranks, size_t size_bytes) {
  const std::string what =
      std::to_string(ranks) + " ranks, " + text::FormatBytes(size_bytes) + " f32";
  Line& operation =
      report.Add({.row = "allreduce",
                  .what = what,
                  .unit = "us",
                  .better = Better::kLess,
                  .goal = Goal::RatioAtLeast(size_bytes >= kLargeFrom ? kGoalLarge : kGoalSmall)});
  Line& and_reading = report.Add({.row = "allreduce",
                                  .what = what + ", then read",
                                  .unit = "us",
                                  .better = Better::kLess,
                                  .goal = Goal::None()});
  return {size_bytes, &operation, &and_reading};
}

using ValuesOf = std::vector<double>& (*)(Line&, const std::string&);

Status Record(const Numbers& numbers, const std::vector<SizeLines>& sizes, const std::string& name,
              ValuesOf values_of) {
  for (const SizeLines& size : sizes) {
    const std::string key = std::to_string(size.size_bytes);
    LOCKSTEP_ASSIGN_OR_RETURN(const double operation, Get(numbers, key + "_us"));
    LOCKSTEP_ASSIGN_OR_RETURN(const double and_reading, Get(numbers, key + "_read_us"));
    values_of(*size.operation, name).push_back(operation);
    values_of(*size.and_reading, name).push_back(and_reading);
  }
  return OkStatus();
}

}  // namespace

Status MeasureAllReduce(const Settings& settings, Report& report) {
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::string ours,
      local::FindProgram("allreduce_shm", "LOCKSTEP_ALLREDUCE_SHM", "tools/bench"));
  const StatusOr<OpenMpi> mpi = OpenMpi::Find();

  std::vector<std::string> arguments = {settings.quick ? "0.03" : "0.08"};
  for (const size_t size : AllReduceSizes(settings.quick))
    arguments.push_back(std::to_string(size));

  for (const int ranks : {2, 4}) {
    std::vector<SizeLines> sizes;
    for (const size_t size : AllReduceSizes(settings.quick)) {
      sizes.push_back(AddLines(report, ranks, size));
      if (!mpi.ok()) sizes.back().operation->note = Message(mpi.status());
    }
    std::vector<std::string> argv = {ours, std::to_string(ranks)};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    for (int round = 0; round < settings.rounds; ++round) {
      LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
      LOCKSTEP_ASSIGN_OR_RETURN(const Numbers numbers,
                                RunRival({.argv = argv, .scratch = settings.scratch}));
      LOCKSTEP_RETURN_IF_ERROR(Record(
          numbers, sizes, "", [](Line & line, const std::string&) -> auto& { return line.ours; }));
      if (!mpi.ok()) continue;
      for (const MpiTuning& tuning : MpiTunings()) {
        LOCKSTEP_ASSIGN_OR_RETURN(const Numbers theirs,
                                  RunRival(mpi->Run(ranks, tuning, arguments, settings.scratch)));
        LOCKSTEP_RETURN_IF_ERROR(Record(
            theirs, sizes, "Open MPI " + tuning.name,
            [](Line & line, const std::string& name) -> auto& { return line.Rival(name).values; }));
      }
    }
  }
  return OkStatus();
}

}  // namespace lockstep::bench
