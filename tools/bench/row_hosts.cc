// Allreduce among ranks of two hosts, two ranks each, beside Gloo and Open MPI among all four.
//
// All run on this host; what goes from one half of the ranks to the other goes over TCP (loopback).
// The rivals know nothing of nodes: each rank is a host to them, as it is where they are not told.
#include <string>
#include <vector>

#include "services/local/child_process.h"
#include "tools/bench/open_mpi.h"
#include "tools/bench/program.h"
#include "tools/bench/rows.h"
#include "tools/bench/settings.h"
#include "tools/text/format.h"

namespace lockstep::bench {
namespace {

constexpr size_t kKiB = 1 << 10;
constexpr size_t kLargeFrom = kMiB;
constexpr double kGoalLarge = 1.5;
constexpr double kGoalSmall = 1;
constexpr int kRanks = 4;

struct SizeLine {
  size_t size_bytes;
  Line* beside_gloo;
  Line* beside_mpi;
};

Status Record(const Numbers& numbers, size_t size_bytes, std::vector<double>& values) {
  LOCKSTEP_ASSIGN_OR_RETURN(const double operation,
                            Get(numbers, std::to_string(size_bytes) + "_us"));
  values.push_back(operation);
  return OkStatus();
}

}  // namespace

Status MeasureHosts(const Settings& settings, Report& report) {
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::string program,
      local::FindProgram("allreduce_network", "LOCKSTEP_ALLREDUCE_NETWORK", "tools/bench"));
  const StatusOr<OpenMpi> mpi = OpenMpi::Find();
  const std::vector<size_t> sizes =
      settings.quick ? std::vector<size_t>{64 * kKiB, kMiB, 16 * kMiB}
                     : std::vector<size_t>{64 * kKiB, kMiB, 16 * kMiB, 64 * kMiB};
  std::vector<SizeLine> lines;
  std::vector<std::string> arguments = {settings.quick ? "0.1" : "0.2"};
  for (const size_t size : sizes) {
    const std::string what = "2 hosts x 2 ranks, " + text::FormatBytes(size) + " f32";
    const double goal = size >= kLargeFrom ? kGoalLarge : kGoalSmall;
    Line& beside_gloo = report.Add({.row = "hosts",
                                    .what = what,
                                    .unit = "us",
                                    .better = Better::kLess,
                                    .goal = Goal::RatioAtLeast(goal)});
    Line& beside_mpi = report.Add({.row = "hosts",
                                   .what = what + ", beside Open MPI over tcp",
                                   .unit = "us",
                                   .better = Better::kLess,
                                   .goal = Goal::None()});
    if (!mpi.ok()) beside_mpi.note = Message(mpi.status());
    lines.push_back({size, &beside_gloo, &beside_mpi});
    arguments.push_back(std::to_string(size));
  }
  const auto run = [&](const std::string& system) {
    std::vector<std::string> argv = {program, system, std::to_string(kRanks)};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    return RunRival({.argv = argv, .scratch = settings.scratch});
  };
  for (int round = 0; round < settings.rounds; ++round) {
    LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
    LOCKSTEP_ASSIGN_OR_RETURN(const Numbers ours, run("lockstep"));
    for (const SizeLine& line : lines) {
      LOCKSTEP_RETURN_IF_ERROR(Record(ours, line.size_bytes, line.beside_gloo->ours));
      LOCKSTEP_RETURN_IF_ERROR(Record(ours, line.size_bytes, line.beside_mpi->ours));
    }
    for (const char* system : {"gloo-ring", "gloo-bcube"}) {
      LOCKSTEP_ASSIGN_OR_RETURN(const Numbers theirs, run(system));
      for (const SizeLine& line : lines) {
        LOCKSTEP_RETURN_IF_ERROR(
            Record(theirs, line.size_bytes, line.beside_gloo->Rival(system).values));
      }
    }
    if (!mpi.ok()) continue;
    LOCKSTEP_ASSIGN_OR_RETURN(
        const Numbers theirs,
        RunRival(mpi->Run(kRanks, MpiOverTcp(), arguments, settings.scratch)));
    for (const SizeLine& line : lines) {
      LOCKSTEP_RETURN_IF_ERROR(
          Record(theirs, line.size_bytes, line.beside_mpi->Rival("Open MPI over tcp").values));
    }
  }
  return OkStatus();
}

}  // namespace lockstep::bench
