// The benchmarks beside their rivals: `tools/dev bench`. rows.h lists what is measured.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <iostream>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "services/local/temporary_directory.h"
#include "tools/bench/machine.h"
#include "tools/bench/report.h"
#include "tools/bench/report_output.h"
#include "tools/bench/rows.h"
#include "tools/bench/settings.h"

namespace lockstep::bench {
namespace {

struct Row {
  const char* name;
  const char* summary;
  Status (*measure)(const Settings&, Report&);
};

constexpr char kFaults[] = "faults";
constexpr char kScale[] = "scale";
constexpr char kGpu[] = "gpu";
constexpr char kFragments[] = "fragments";
constexpr char kCollectives[] = "collectives";

constexpr std::array<Row, 20> kRows = {{
    {"sync", "how long all workers take to answer", MeasureSync},
    {"latency", "the slowest syncs, those after a pause, and connecting", MeasureLatency},
    {"answers", "a value or a small tensor after each call, beside a sync", MeasureAnswers},
    {"calls", "calls a second, issued and executed", MeasureCalls},
    {"counting", "calls a second with metrics and progress counters, and without", MeasureCounting},
    {"keys", "the same over TCP with keys, and without", MeasureKeys},
    {"encode", "encoding one call", MeasureEncode},
    {"dispatch", "executing one call on a worker", MeasureDispatch},
    {"allreduce", "allreduce among processes of this host", MeasureAllReduce},
    {kCollectives,
     "all collectives of this host, beside Open MPI and plain memory; only with --only collectives",
     MeasureCollectives},
    {"hosts", "allreduce among hosts", MeasureHosts},
    {"copy", "from the client's memory into worker-0's tensor", MeasureCopy},
    {"bulk", "the same where they share no memory", MeasureBulk},
    {"plan", "tensors from one layout to another", MeasurePlan},
    {kFragments,
     "pieces of programs that workers compile, beside NumPy and Dask; only with --only fragments",
     MeasureFragments},
    {"idle", "processor and memory of a cluster that is not used", MeasureIdle},
    {"start", "from nothing to a cluster that takes calls", MeasureStart},
    {kGpu, "what a GPU worker costs, beside CUDA and NCCL; only with --only gpu", MeasureGpu},
    {kFaults, "how soon faults are known and mended; only with --faults", MeasureFaults},
    {kScale, "what a controller costs with 8 to 1,024 workers; only with --scale", MeasureScale},
}};

constexpr char kFooter[] = R"(
How it is measured (docs/performance.md says more):
  A round measures Lockstep, then each rival; the numbers are medians over the rounds.
  ratio    how many times as fast as the best rival: above 1, Lockstep is faster
  verdict  whether the goal is reached; goals are ratios ("2x") or values in the line's unit
  others   cores that other programs kept busy before or after the row: above 0.1, measure again

Exit code: 0 all was measured (goals missed or not), 1 something could not be, 2 wrong usage.
)";

std::vector<std::string> RowNames() {
  std::vector<std::string> names;
  for (const Row& row : kRows) names.emplace_back(row.name);
  return names;
}

struct Command {
  Settings settings;
  int rounds = 0;  // 0: as many as the mode has
  int settle_seconds = 0;
  bool list = false;
  bool faults = false;
  bool scale = false;
  std::vector<std::string> only;
  std::string json_path;
};

// Measures one row and says so on standard error. Returns false if it could not be measured whole.
bool Measure(const Row& row, const Command& command, Report& report) {
  const std::chrono::seconds patience(command.settle_seconds);
  const double busy_before = WaitForQuiet(patience);
  std::cerr << row.name << " ..." << std::flush;
  const size_t first_line = report.lines().size();
  const auto start = std::chrono::steady_clock::now();
  const Status status = row.measure(command.settings, report);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  const double foreign = std::max(busy_before, WaitForQuiet(std::chrono::seconds(0)));
  for (size_t i = first_line; i < report.lines().size(); ++i) {
    report.lines()[i].foreign_cores = foreign;
  }
  std::cerr << ' ' << std::lround(elapsed.count()) << " s\n";
  if (!status.ok()) std::cerr << row.name << ": " << Message(status) << '\n';
  return status.ok();
}

// Faults alone, or scale, or everything but them; GPUs are not everywhere, and Dask and all
// collectives take their time.
bool IsMeasuredByItself(const std::string& row, const Command& command) {
  if (command.faults) return row == kFaults;
  if (command.scale) return row == kScale;
  return row != kFaults && row != kScale && row != kGpu && row != kFragments && row != kCollectives;
}

int Run(Command& command) {
  if (command.list) {
    for (const Row& row : kRows) {
      std::cout << row.name << std::string(12 - std::string(row.name).size(), ' ') << row.summary
                << '\n';
    }
    return 0;
  }
  command.settings.rounds = command.rounds > 0 ? command.rounds : command.settings.quick ? 1 : 5;
  auto scratch = local::TemporaryDirectory::Create();
  if (!scratch.ok()) {
    std::cerr << "bench: " << Message(scratch.status()) << '\n';
    return 1;
  }
  command.settings.scratch = (*scratch)->path();
  CatchInterrupts();

  const Machine machine = Machine::Describe();
  PrintHeader(std::cout, machine);
  Report report;
  bool all_measured = true;
  for (const Row& row : kRows) {
    const auto& only = command.only;
    const bool named = std::find(only.begin(), only.end(), row.name) != only.end();
    const std::string name = row.name;
    const bool by_itself = IsMeasuredByItself(name, command);
    const bool wanted = only.empty() ? by_itself : named;
    if (!wanted) continue;
    all_measured = Measure(row, command, report) && all_measured;
    if (!CheckNotInterrupted().ok()) break;
  }
  std::cout << '\n';
  PrintTable(std::cout, report);
  if (!command.json_path.empty()) {
    const Status written = WriteJson(command.json_path, machine, report);
    if (!written.ok()) std::cerr << "bench: " << Message(written) << '\n';
    all_measured = all_measured && written.ok();
  }
  return all_measured ? 0 : 1;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  lockstep::bench::Command command;
  CLI::App app{"Measures Lockstep beside its rivals, and says which goals are reached."};
  app.footer(lockstep::bench::kFooter);
  app.add_option("--only", command.only, "rows to measure, as in sync,calls; all without it")
      ->delimiter(',')
      ->check(CLI::IsMember(lockstep::bench::RowNames()))
      ->type_name("ROW,...");
  app.add_option("--rounds", command.rounds, "rounds of each row; 5, or 1 with --quick")
      ->check(CLI::Range(1, 100))
      ->type_name("N");
  app.add_flag("--quick", command.settings.quick, "a look that takes seconds, not minutes");
  app.add_option("--settle", command.settle_seconds,
                 "wait so long before each row for other programs to be quiet")
      ->check(CLI::Range(0, 600))
      ->type_name("SECONDS");
  app.add_option("--json", command.json_path, "also write all numbers to this file")
      ->type_name("FILE");
  app.add_flag("--faults", command.faults,
               "measure how soon faults are known and mended, instead of the other rows");
  CLI::Option* const scale = app.add_flag(
      "--scale", command.scale,
      "measure what a controller costs with 8, 16, ... 1,024 simulated workers, instead");
  app.add_option("--workers", command.settings.workers,
                 "with --scale: these numbers of workers, as in 8,64,512")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096))
      ->needs(scale)
      ->type_name("N,...");
  app.add_option("--relays", command.settings.relays,
                 "with --scale: through workers that pass commands on to so many others each")
      ->check(CLI::Range(2, 256))
      ->needs(scale)
      ->type_name("FAN_OUT");
  app.add_option("--picture", command.settings.picture, "with --scale: draw the curves there (SVG)")
      ->needs(scale)
      ->type_name("FILE");
  app.add_flag("--list", command.list, "name the rows and end");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return lockstep::bench::Run(command);
}
