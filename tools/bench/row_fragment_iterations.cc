// Iterations of k-means and of logistic regression, beside NumPy and Dask.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/child_process.h"
#include "tools/bench/fragment_cluster.h"
#include "tools/bench/program.h"
#include "tools/bench/report.h"
#include "tools/bench/rows.h"
#include "tools/bench/settings.h"

namespace lockstep::bench {
namespace {

using fragment::Combine;
using fragment::Fragment;
using fragment::Split;

constexpr double kNumPyGoal = 0.9;
constexpr double kDaskGoal = 3;
// As numpy_rival.py has them.
constexpr int64_t kIterationColumns = 64;
constexpr int64_t kIterationClusters = 10;

struct IterationTimes {
  double k_means = 0;
  double regression = 0;
};

// A step ends when the client knows how many rows have moved.
StatusOr<double> TimeKMeans(Session& session, const DRef& x, int64_t rows, int steps) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Fragment k_means, ExampleFragment("k_means.mlir"));
  LOCKSTEP_ASSIGN_OR_RETURN(
      DRef labels,
      session.Place(HostTensor::Of<int64_t>({rows}, std::vector<int64_t>(rows, -1)), Split::kRows));
  const Shape centres{kIterationClusters, kIterationColumns};
  FragmentInput sums(HostTensor::Of<double>(
      centres, DrawNumbers(static_cast<size_t>(kIterationClusters * kIterationColumns))));
  FragmentInput counts(HostTensor::Of<double>(
      {kIterationClusters}, std::vector<double>(static_cast<size_t>(kIterationClusters), 1)));
  return MicrosPerStep(steps, [&]() -> Status {
    LOCKSTEP_ASSIGN_OR_RETURN(
        const std::vector<DRef> next,
        session.Execute(k_means, {{x, Split::kRows}, {labels, Split::kRows}, sums, counts},
                        {{Combine::kAdd, centres},
                         {Combine::kAdd, Shape{kIterationClusters}},
                         {Combine::kRows, Shape{rows}},
                         {Combine::kAdd}}));
    sums = next[0];
    counts = next[1];
    labels = next[2];
    return session.Collect(next[3]).status();
  });
}

// A step ends when the client knows the loss.
StatusOr<double> TimeRegression(Session& session, const DRef& x, const DRef& y, int64_t rows,
                                int steps) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Fragment gradient, ExampleFragment("logistic_gradient.mlir"));
  LOCKSTEP_ASSIGN_OR_RETURN(const Fragment descend, ExampleFragment("descend.mlir"));
  const Shape weights{kIterationColumns};
  FragmentInput w(HostTensor::Of<double>(
      weights, std::vector<double>(static_cast<size_t>(kIterationColumns), 0)));
  return MicrosPerStep(steps, [&]() -> Status {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<DRef> sums,
                              session.Execute(gradient, {{x, Split::kRows}, {y, Split::kRows}, w},
                                              {{Combine::kAdd, weights}, {Combine::kAdd}}));
    LOCKSTEP_ASSIGN_OR_RETURN(
        const std::vector<DRef> next,
        session.Execute(descend, {w, sums[0], 0.5 / static_cast<double>(rows)},
                        {{Combine::kNone, weights}}));
    w = next[0];
    return session.Collect(sums[1]).status();
  });
}

// Runs numpy_rival.py.
class NumPyRival {
 public:
  static StatusOr<NumPyRival> Find(const Settings& settings, int workers) {
    NumPyRival rival(settings, workers);
    LOCKSTEP_ASSIGN_OR_RETURN(rival.script_,
                              FindProgram("numpy_rival", "LOCKSTEP_NUMPY_RIVAL", "tools/bench"));
    LOCKSTEP_RETURN_IF_ERROR(rival.CheckImport("numpy", ""));
    return rival;
  }

  // `tools/dev setup --rivals` unpacks it. Ok: it is there.
  Status FindDask() {
    const std::string folder = UnpackedFolder("dask");
    LOCKSTEP_RETURN_IF_ERROR(CheckImport("distributed", folder));
    dask_folder_ = folder;
    return OkStatus();
  }

  StatusOr<IterationTimes> Run(const std::string& kind, int64_t rows, int steps) const {
    LOCKSTEP_ASSIGN_OR_RETURN(const Numbers numbers,
                              RunRival({.argv = {script_, kind, std::to_string(rows),
                                                 std::to_string(steps), std::to_string(workers_)},
                                        .environment = {"PYTHONPATH=" + dask_folder_},
                                        .scratch = scratch_,
                                        .timeout = std::chrono::seconds(300)}));
    IterationTimes times;
    LOCKSTEP_ASSIGN_OR_RETURN(times.k_means, Get(numbers, "k_means"));
    LOCKSTEP_ASSIGN_OR_RETURN(times.regression, Get(numbers, "regression"));
    return times;
  }

 private:
  NumPyRival(const Settings& settings, int workers)
      : scratch_(settings.scratch), workers_(workers) {}

  Status CheckImport(const std::string& module, const std::string& folder) const {
    const Status status = RunProgram({.argv = {"/usr/bin/python3", "-c", "import " + module},
                                      .environment = {"PYTHONPATH=" + folder},
                                      .scratch = scratch_})
                              .status();
    if (status.ok()) return status;
    return NotFound("/usr/bin/python3 has no ", module, ": tools/dev setup --rivals");
  }

  std::string script_;
  std::string dask_folder_;
  std::string scratch_;
  int workers_;
};

// The lines of one number of rows.
struct IterationLines {
  Line* k_means_numpy = nullptr;
  Line* regression_numpy = nullptr;
  Line* k_means_dask = nullptr;
  Line* regression_dask = nullptr;

  void AddOurs(const IterationTimes& times) const {
    for (Line* line : {k_means_numpy, k_means_dask}) line->ours.push_back(times.k_means);
    for (Line* line : {regression_numpy, regression_dask}) {
      line->ours.push_back(times.regression);
    }
  }
};

IterationLines AddIterationLines(Report& report, int64_t rows, int workers, bool is_large) {
  const auto add = [&](const std::string& what, const Goal& goal) {
    return &report.Add({.row = "fragments",
                        .what = what + ", " + std::to_string(rows) + " rows, " +
                                std::to_string(workers) + " workers",
                        .unit = "us",
                        .better = Better::kLess,
                        .goal = goal});
  };
  const Goal beside_numpy = is_large ? Goal::RatioAtLeast(kNumPyGoal) : Goal::None();
  IterationLines lines;
  lines.k_means_numpy = add("a step of k-means", beside_numpy);
  lines.k_means_dask = add("the same beside Dask", Goal::RatioAtLeast(kDaskGoal));
  lines.regression_numpy = add("a step of logistic regression", beside_numpy);
  lines.regression_dask = add("the same beside Dask", Goal::RatioAtLeast(kDaskGoal));
  return lines;
}

Status MeasureIterationsOf(int64_t rows, bool is_large, int steps, const Settings& settings,
                           Session& session, Report& report) {
  const int workers = session.num_workers();
  const IterationLines lines = AddIterationLines(report, rows, workers, is_large);
  StatusOr<NumPyRival> rival = NumPyRival::Find(settings, workers);
  const Status dask = rival.ok() ? rival->FindDask() : rival.status();
  if (!rival.ok()) {
    lines.k_means_numpy->note = lines.regression_numpy->note = Message(rival.status());
  }
  if (!dask.ok()) {
    Skip(*lines.k_means_dask, dask);
    Skip(*lines.regression_dask, dask);
  }
  std::vector<double> elements = DrawNumbers(static_cast<size_t>(rows * kIterationColumns));
  std::vector<double> truth;
  for (size_t i = 0; i < elements.size(); i += kIterationColumns) {
    truth.push_back(elements[i] > 0 ? 1 : 0);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(
      const DRef x,
      session.Place(HostTensor::Of<double>({rows, kIterationColumns}, elements), Split::kRows));
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef y,
                            session.Place(HostTensor::Of<double>({rows}, truth), Split::kRows));
  for (int round = 0; round < settings.rounds; ++round) {
    LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
    IterationTimes ours;
    LOCKSTEP_ASSIGN_OR_RETURN(ours.k_means, TimeKMeans(session, x, rows, steps));
    LOCKSTEP_ASSIGN_OR_RETURN(ours.regression, TimeRegression(session, x, y, rows, steps));
    lines.AddOurs(ours);
    if (rival.ok()) {
      LOCKSTEP_ASSIGN_OR_RETURN(const IterationTimes numpy, rival->Run("numpy", rows, steps));
      // As if so many processes shared the work, and nothing had to be put together.
      const double parts = is_large ? workers : 1;
      const std::string name =
          is_large ? "NumPy in one process, / " + std::to_string(workers) : "NumPy in one process";
      lines.k_means_numpy->Rival(name).values.push_back(numpy.k_means / parts);
      lines.regression_numpy->Rival(name).values.push_back(numpy.regression / parts);
    }
    if (dask.ok()) {
      LOCKSTEP_ASSIGN_OR_RETURN(const IterationTimes times, rival->Run("dask", rows, steps));
      lines.k_means_dask->Rival("Dask").values.push_back(times.k_means);
      lines.regression_dask->Rival("Dask").values.push_back(times.regression);
    }
  }
  return OkStatus();
}

}  // namespace

Status MeasureFragmentIterations(const Settings& settings, Report& report) {
  constexpr unsigned kMostWorkers = 8;
  const auto workers =
      static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 2U, kMostWorkers));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto cluster, StartFragmentCluster(workers));
  LOCKSTEP_ASSIGN_OR_RETURN(Session session, cluster->Connect());
  // As many as there are images of digits in examples/digits, and more than caches hold.
  LOCKSTEP_RETURN_IF_ERROR(MeasureIterationsOf(1797, false, 50, settings, session, report));
  const int64_t large = settings.quick ? 100'000 : 500'000;
  LOCKSTEP_RETURN_IF_ERROR(MeasureIterationsOf(large, true, 7, settings, session, report));
  LOCKSTEP_RETURN_IF_ERROR(session.Close());
  return cluster->Stop();
}

}  // namespace lockstep::bench
