// Fragments: what a call costs, and the first one; what compiled loops and products are worth.
#include <dlfcn.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "tools/bench/fragment_cluster.h"
#include "tools/bench/report.h"
#include "tools/bench/rows.h"
#include "tools/bench/settings.h"

namespace lockstep::bench {
namespace {

using fragment::Combine;
using fragment::Fragment;
using fragment::Split;

constexpr int kFragmentWorkers = 4;
constexpr double kTinyGoal = 0.8;
constexpr double kLoadGoalMillis = 2;
constexpr double kRowSumsGoal = 0.9;
constexpr double kProductGoal = 0.95;

// One element plus itself. A text of another `number` is another fragment.
StatusOr<Fragment> Tiny(int number) {
  return Fragment::Mlir("// " + std::to_string(number) + R"(
func.func @twice(%x: tensor<1xf64>) -> tensor<1xf64> {
  %y = arith.addf %x, %x : tensor<1xf64>
  return %y : tensor<1xf64>
})",
                        "twice.mlir");
}

// Calls a second, until all workers have executed them.
template <typename Call>
StatusOr<double> CallsPerSecond(Session& session, int calls, Call call) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) LOCKSTEP_RETURN_IF_ERROR(call());
  LOCKSTEP_RETURN_IF_ERROR(session.SyncAll());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return calls / took.count();
}

Status MeasureTiny(const Settings& settings, Report& report) {
  Line& line = report.Add({.row = "fragments",
                           .what = "calls of a tiny fragment executed, 4 worker processes",
                           .unit = "1/s",
                           .better = Better::kMore,
                           .goal = Goal::RatioAtLeast(kTinyGoal)});
  LOCKSTEP_ASSIGN_OR_RETURN(const auto cluster, StartFragmentCluster(kFragmentWorkers));
  LOCKSTEP_ASSIGN_OR_RETURN(Session session, cluster->Connect());
  LOCKSTEP_ASSIGN_OR_RETURN(const Fragment tiny, Tiny(0));
  LOCKSTEP_ASSIGN_OR_RETURN(const CompiledFragment compiled, session.Compile(tiny));
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef copy, session.GetFunction("lockstep.copy"));
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::vector<DRef> x,
      session.Execute(compiled, {HostTensor::Of<double>({1}, std::vector<double>{1})},
                      {{Combine::kNone}}));
  const auto fragment = [&] {
    return session.Execute(compiled, {x[0]}, {{Combine::kNone}}).status();
  };
  const auto function = [&] { return session.Call(copy, x[0]).status(); };
  const int calls = settings.quick ? 20'000 : 100'000;
  LOCKSTEP_RETURN_IF_ERROR(CallsPerSecond(session, calls / 10, fragment).status());
  LOCKSTEP_RETURN_IF_ERROR(CallsPerSecond(session, calls / 10, function).status());
  for (int round = 0; round < settings.rounds; ++round) {
    LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
    LOCKSTEP_ASSIGN_OR_RETURN(const double ours, CallsPerSecond(session, calls, fragment));
    line.ours.push_back(ours);
    LOCKSTEP_ASSIGN_OR_RETURN(const double rival, CallsPerSecond(session, calls, function));
    line.Rival("a function (lockstep.copy)").values.push_back(rival);
  }
  LOCKSTEP_RETURN_IF_ERROR(session.Close());
  return cluster->Stop();
}

// From the call of Compile() to its answer, in milliseconds, on a cluster that has just started.
StatusOr<double> MillisToCompile(const std::string& cache, const Fragment& fragment) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto cluster, StartFragmentCluster(kFragmentWorkers, cache));
  LOCKSTEP_ASSIGN_OR_RETURN(Session session, cluster->Connect());
  LOCKSTEP_RETURN_IF_ERROR(session.SyncAll());
  // The first fragment of a worker also asks the compiler what it is.
  LOCKSTEP_ASSIGN_OR_RETURN(const Fragment other, Tiny(-1));
  LOCKSTEP_RETURN_IF_ERROR(session.Compile(other).status());
  const auto start = std::chrono::steady_clock::now();
  LOCKSTEP_RETURN_IF_ERROR(session.Compile(fragment).status());
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  LOCKSTEP_RETURN_IF_ERROR(session.Close());
  LOCKSTEP_RETURN_IF_ERROR(cluster->Stop());
  return took.count();
}

Status MeasureFirstCall(const Settings& settings, Report& report) {
  Line& line = report.Add({.row = "fragments",
                           .what = "a fragment that is in the cache's directory, until 4 have it",
                           .unit = "ms",
                           .better = Better::kLess,
                           .goal = Goal::ValueAtMost(kLoadGoalMillis)});
  const std::string cache = settings.scratch + "/fragments";
  for (int round = 0; round < settings.rounds; ++round) {
    LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
    LOCKSTEP_ASSIGN_OR_RETURN(const Fragment fragment, Tiny(1 + round));
    LOCKSTEP_ASSIGN_OR_RETURN(const double compiled, MillisToCompile(cache, fragment));
    LOCKSTEP_ASSIGN_OR_RETURN(const double loaded, MillisToCompile(cache, fragment));
    line.ours.push_back(loaded);
    line.Rival("compiling it").values.push_back(compiled);
  }
  return OkStatus();
}

// As a loop in C++; -O3.
[[gnu::noinline]] void SumRows(const double* x, int64_t rows, int64_t columns, double* sums) {
  for (int64_t i = 0; i < rows; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < columns; ++j) sum += x[i * columns + j];
    sums[i] = sum;
  }
}

// cblas_dgemm of the OpenBLAS that the workers load, too.
using Dgemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k,
                       double alpha, const double* a, int lda, const double* b, int ldb,
                       double beta, double* c, int ldc);
StatusOr<Dgemm> LoadDgemm() {
  void* const library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return NotFound("there is no libopenblas.so.0");
  const auto dgemm = reinterpret_cast<Dgemm>(dlsym(library, "cblas_dgemm"));
  const auto set_threads =
      reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
  if (dgemm == nullptr || set_threads == nullptr) return NotFound("libopenblas.so.0 has no CBLAS");
  set_threads(1);
  return dgemm;
}

Status MeasureRowSums(const Settings& settings, Session& session, Report& report) {
  Line& line = report.Add({.row = "fragments",
                           .what = "sums of the rows of 4096 x 4096 float64, one worker",
                           .unit = "us",
                           .better = Better::kLess,
                           .goal = Goal::RatioAtLeast(kRowSumsGoal)});
  constexpr int64_t kSize = 4096;
  const std::vector<double> x = DrawNumbers(kSize * kSize);
  LOCKSTEP_ASSIGN_OR_RETURN(const Fragment row_sums, ExampleFragment("row_sums.mlir"));
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef placed,
                            session.Place(HostTensor::Of<double>({kSize, kSize}, x), Split::kRows));
  std::vector<double> sums(kSize);
  for (int round = 0; round < settings.rounds; ++round) {
    LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
    LOCKSTEP_ASSIGN_OR_RETURN(
        const double ours, MicrosPerStep(20, [&]() -> Status {
          LOCKSTEP_RETURN_IF_ERROR(
              session.Execute(row_sums, {{placed, Split::kRows}}, {{Combine::kRows, Shape{kSize}}})
                  .status());
          return session.SyncAll();
        }));
    line.ours.push_back(ours);
    LOCKSTEP_ASSIGN_OR_RETURN(const double rival, MicrosPerStep(20, [&] {
                                SumRows(x.data(), kSize, kSize, sums.data());
                                return OkStatus();
                              }));
    line.Rival("a loop in C++, -O3").values.push_back(rival);
  }
  return OkStatus();
}

Status MeasureProduct(const Settings& settings, Session& session, Report& report) {
  Line& line = report.Add({.row = "fragments",
                           .what = "product of two 1024 x 1024 float64, one worker",
                           .unit = "us",
                           .better = Better::kLess,
                           .goal = Goal::RatioAtLeast(kProductGoal)});
  constexpr int kSize = 1024;
  const StatusOr<Dgemm> dgemm = LoadDgemm();
  if (!dgemm.ok()) {
    Skip(line, dgemm.status());
    return OkStatus();
  }
  const std::vector<double> x = DrawNumbers(size_t{kSize} * kSize);
  LOCKSTEP_ASSIGN_OR_RETURN(const Fragment scores, ExampleFragment("scores.mlir"));
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef placed,
                            session.Place(HostTensor::Of<double>({kSize, kSize}, x), Split::kRows));
  std::vector<double> product(x.size());
  for (int round = 0; round < settings.rounds; ++round) {
    LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
    LOCKSTEP_ASSIGN_OR_RETURN(
        const double ours, MicrosPerStep(10, [&]() -> Status {
          LOCKSTEP_RETURN_IF_ERROR(session
                                       .Execute(scores, {{placed, Split::kRows}, placed},
                                                {{Combine::kRows, Shape{kSize, kSize}}})
                                       .status());
          return session.SyncAll();
        }));
    line.ours.push_back(ours);
    constexpr int kRowMajor = 101;
    constexpr int kPlain = 111;
    LOCKSTEP_ASSIGN_OR_RETURN(const double rival, MicrosPerStep(10, [&] {
                                (*dgemm)(kRowMajor, kPlain, kPlain, kSize, kSize, kSize, 1,
                                         x.data(), kSize, x.data(), kSize, 0, product.data(),
                                         kSize);
                                return OkStatus();
                              }));
    line.Rival("cblas_dgemm of OpenBLAS").values.push_back(rival);
  }
  return OkStatus();
}

}  // namespace

Status MeasureFragments(const Settings& settings, Report& report) {
  const StatusOr<std::string> compiler = FindCompiler();
  if (!compiler.ok()) {
    Line line;
    line.row = line.what = "fragments";
    Skip(report.Add(std::move(line)), compiler.status());
    return OkStatus();
  }
  LOCKSTEP_RETURN_IF_ERROR(MeasureTiny(settings, report));
  LOCKSTEP_RETURN_IF_ERROR(MeasureFirstCall(settings, report));
  {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto cluster, StartFragmentCluster(1));
    LOCKSTEP_ASSIGN_OR_RETURN(Session session, cluster->Connect());
    LOCKSTEP_RETURN_IF_ERROR(MeasureRowSums(settings, session, report));
    LOCKSTEP_RETURN_IF_ERROR(MeasureProduct(settings, session, report));
    LOCKSTEP_RETURN_IF_ERROR(session.Close());
    LOCKSTEP_RETURN_IF_ERROR(cluster->Stop());
  }
  LOCKSTEP_RETURN_IF_ERROR(MeasureFragmentIterations(settings, report));
  return MeasureFragmentBytes(settings, report);
}

}  // namespace lockstep::bench
