// The data plane: allreduce on one host, and between hosts.
#include <string>
#include <vector>

#include "runtime/base/child_process.h"
#include "runtime/base/quantity.h"
#include "tools/bench/open_mpi.h"
#include "tools/bench/program.h"
#include "tools/bench/rows.h"
#include "tools/bench/settings.h"

namespace lockstep::bench {
namespace {

// What the goals are for sizes from kMiB on, and for smaller ones.
struct Goals {
  double large;
  double small;

  Goal For(size_t size_bytes) const {
    return Goal::RatioAtLeast(size_bytes >= kMiB ? large : small);
  }
};
constexpr Goals kOnOneHost = {2, 1};
constexpr Goals kBetweenHosts = {1.5, 1};

// Beside Open MPI over tcp: at most so many times its time, or as many times its speed.
Goal BesideMpiOverTcp(size_t size_bytes) {
  return Goal::RatioAtLeast(size_bytes >= 16 * kMiB ? 1.3 : 1 / 1.2);
}

std::vector<size_t> AllReduceSizes(bool quick) {
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
  const std::string what = std::to_string(ranks) + " ranks, " + RoundedSize(size_bytes) + " f32";
  Line& operation = report.Add({.row = "allreduce",
                                .what = what,
                                .unit = "us",
                                .better = Better::kLess,
                                .goal = kOnOneHost.For(size_bytes)});
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

constexpr int kRanks = 4;

struct SizeLine {
  size_t size_bytes;
  Line* beside_gloo;
  Line* beside_mpi;
  Line* encrypted;
};

Status Record(const Numbers& numbers, size_t size_bytes, std::vector<double>& values) {
  LOCKSTEP_ASSIGN_OR_RETURN(const double operation,
                            Get(numbers, std::to_string(size_bytes) + "_us"));
  values.push_back(operation);
  return OkStatus();
}

}  // namespace

// Allreduce among processes of one host, beside Open MPI at its best.
//
// Open MPI runs with several tunings, and each size is compared with the one that is best for it.
Status MeasureAllReduce(const Settings& settings, Report& report) {
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::string ours,
      FindProgram("collective_shm", "LOCKSTEP_COLLECTIVE_SHM", "tools/bench/collectives"));
  const StatusOr<OpenMpi> mpi = OpenMpi::Find();

  std::vector<std::string> arguments = {"allreduce", "f32", settings.quick ? "0.03" : "0.08"};
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

// Allreduce among ranks of two hosts, two ranks each, beside Gloo and Open MPI among all four.
//
// All run on this host; what goes from one half of the ranks to the other goes over TCP (loopback).
// The rivals know nothing of nodes: each rank is a host to them, as it is where they are not told.
Status MeasureHosts(const Settings& settings, Report& report) {
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::string program,
      FindProgram("allreduce_network", "LOCKSTEP_ALLREDUCE_NETWORK", "tools/bench/collectives"));
  const StatusOr<OpenMpi> mpi = OpenMpi::Find();
  const std::vector<size_t> sizes =
      settings.quick ? std::vector<size_t>{8, 64 * kKiB, kMiB, 16 * kMiB}
                     : std::vector<size_t>{8, 4 * kKiB, 64 * kKiB, kMiB, 16 * kMiB, 64 * kMiB};
  std::vector<SizeLine> lines;
  std::vector<std::string> arguments = {settings.quick ? "0.1" : "0.2"};
  for (const size_t size : sizes) {
    const std::string what = "2 hosts x 2 ranks, " + RoundedSize(size) + " f32";
    Line& beside_gloo = report.Add({.row = "hosts",
                                    .what = what,
                                    .unit = "us",
                                    .better = Better::kLess,
                                    .goal = kBetweenHosts.For(size)});
    Line& beside_mpi = report.Add({.row = "hosts",
                                   .what = what + ", beside Open MPI over tcp",
                                   .unit = "us",
                                   .better = Better::kLess,
                                   .goal = BesideMpiOverTcp(size)});
    if (!mpi.ok()) beside_mpi.note = Message(mpi.status());
    Line& encrypted = report.Add({.row = "hosts",
                                  .what = what + ", encrypted, beside the same as it is",
                                  .unit = "us",
                                  .better = Better::kLess,
                                  .goal = Goal::None()});
    lines.push_back({size, &beside_gloo, &beside_mpi, &encrypted});
    arguments.push_back(std::to_string(size));
  }
  std::vector<std::string> of_mpi = {"allreduce", "f32"};
  of_mpi.insert(of_mpi.end(), arguments.begin(), arguments.end());
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
      LOCKSTEP_RETURN_IF_ERROR(
          Record(ours, line.size_bytes, line.encrypted->Rival("not encrypted").values));
    }
    LOCKSTEP_ASSIGN_OR_RETURN(const Numbers encrypted, run("lockstep-encrypted"));
    for (const SizeLine& line : lines) {
      LOCKSTEP_RETURN_IF_ERROR(Record(encrypted, line.size_bytes, line.encrypted->ours));
    }
    for (const char* system : {"gloo-ring", "gloo-bcube"}) {
      LOCKSTEP_ASSIGN_OR_RETURN(const Numbers theirs, run(system));
      for (const SizeLine& line : lines) {
        LOCKSTEP_RETURN_IF_ERROR(
            Record(theirs, line.size_bytes, line.beside_gloo->Rival(system).values));
      }
    }
    if (!mpi.ok()) continue;
    LOCKSTEP_ASSIGN_OR_RETURN(const Numbers theirs,
                              RunRival(mpi->Run(kRanks, MpiOverTcp(), of_mpi, settings.scratch)));
    for (const SizeLine& line : lines) {
      LOCKSTEP_RETURN_IF_ERROR(
          Record(theirs, line.size_bytes, line.beside_mpi->Rival("Open MPI over tcp").values));
    }
  }
  return OkStatus();
}

}  // namespace lockstep::bench
