// The programs of examples/fragments find what NumPy finds, with any number of workers, also with
// more workers than rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "examples/fragments/calls.h"
#include "examples/fragments/programs.h"
#include "examples/fragments/tables.h"
#include "examples/support/find_file.h"
#include "runtime/client/trace.h"
#include "tests/integration/compiled_fragments_fixture.h"
#include "tests/integration/examples/program.h"
#include "tests/support/files.h"

namespace lockstep::examples::fragments {
namespace {

using lockstep::testing::Unwrap;

// Of what NumPy finds: sums are rounded in another order, in one step after the other.
constexpr double kTolerance = 1e-9;

// What expected/make.py has saved: a heading of text, and the elements.
template <typename T>
std::vector<T> Expected(const std::string& name) {
  const std::string path = Unwrap(FindFile("examples/fragments/expected/" + name + ".npy"));
  const std::string file = support::ReadFile(path);
  constexpr size_t kPreamble = 10;  // "\x93NUMPY", a version, and how long the heading is
  const size_t heading = static_cast<uint8_t>(file.at(8)) + 256 * static_cast<uint8_t>(file.at(9));
  const std::string type = sizeof(T) == sizeof(double) ? "'<f8'" : "'<i4'";
  EXPECT_THAT(
      file.substr(0, kPreamble + heading),
      ::testing::AllOf(::testing::HasSubstr(type), ::testing::HasSubstr("'fortran_order': False")));
  std::vector<T> elements((file.size() - kPreamble - heading) / sizeof(T));
  std::memcpy(elements.data(), file.data() + kPreamble + heading, elements.size() * sizeof(T));
  return elements;
}

void ExpectNumbers(const std::vector<double>& actual, const std::string& name) {
  const std::vector<double> expected = Expected<double>(name);
  ASSERT_EQ(actual.size(), expected.size()) << name;
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], kTolerance * std::max(1.0, std::abs(expected[i])))
        << name << ", element " << i;
  }
}

void ExpectLabels(const std::vector<int64_t>& actual, const std::string& name) {
  const std::vector<int32_t> expected = Expected<int32_t>(name);
  EXPECT_EQ(actual, std::vector<int64_t>(expected.begin(), expected.end())) << name;
}

HostTensor FirstRows(const HostTensor& table, int64_t rows) {
  const size_t row_bytes = table.data.size() / static_cast<size_t>(table.shape[0]);
  return {table.dtype,
          {rows, table.shape[1]},
          table.data.substr(0, static_cast<size_t>(rows) * row_bytes)};
}

// Of some packages, those among these that they need.
Graph Among(const Packages& packages, const std::vector<std::string>& names) {
  const auto number = [](const std::vector<std::string>& all, const std::string& name) {
    return std::find(all.begin(), all.end(), name) - all.begin();
  };
  std::vector<std::vector<int32_t>> links;
  for (const std::string& name : names) {
    const auto node = number(packages.names, "python3-" + name);
    links.emplace_back();
    for (int64_t i = packages.needs.begins[node]; i < packages.needs.begins[node + 1]; ++i) {
      const std::string other = packages.names[packages.needs.links[i]].substr(sizeof("python3"));
      const auto found = number(names, other);
      if (found < static_cast<int64_t>(names.size())) {
        links.back().push_back(static_cast<int32_t>(found));
      }
    }
  }
  return Graph::Of(links);
}

class FragmentProgramsTest : public lockstep::testing::CompiledFragmentsFixture {
 protected:
  void ExpectTables(const std::string& kind, int64_t digit_rows, int64_t tumour_rows) {
    const Digits digits = Unwrap(ReadDigits());
    const HostTensor x = FirstRows(digits.pixels, digit_rows);
    ExpectNumbers(Unwrap(RowSums(*session_, x)), kind + "_row_sums");
    std::vector<double> truth(static_cast<size_t>(digit_rows) * 10, 0);
    for (size_t i = 0; i < truth.size() / 10; ++i) truth[i * 10 + digits.labels[i]] = 1;
    const HostTensor y = HostTensor::Of<double>({digit_rows, 10}, truth);
    ExpectNumbers(*Unwrap(LeastSquares(*session_, x, y)).Elements<double>(),
                  kind + "_least_squares");
    const Clusters clusters = Unwrap(KMeans(*session_, x, FirstRows(digits.pixels, 10)));
    ExpectNumbers(*clusters.centres.Elements<double>(), kind + "_centres");
    ExpectLabels(clusters.labels, kind + "_labels");

    Tumours tumours = Unwrap(ReadTumours());
    const HostTensor measured = FirstRows(tumours.measurements, tumour_rows);
    tumours.is_benign.resize(static_cast<size_t>(tumour_rows));
    std::vector<double> w;
    for (int i = 1; i <= 31; ++i) w.push_back(i / 31.0);
    ExpectNumbers(Unwrap(Product(*session_, measured, w)), kind + "_product");
    ExpectNumbers(Unwrap(LogisticRegression(*session_, measured, tumours.is_benign, 200, 0.5)).w,
                  kind + "_logistic_regression");
  }
  void ExpectGraph(const std::string& kind, const Graph& graph) {
    ExpectNumbers(Unwrap(PageRank(*session_, graph, 0.85, 1e-12)).ranks, kind + "_page_rank");
    ExpectLabels(Unwrap(ConnectedComponents(*session_, graph)).labels, kind + "_components");
  }
};
INSTANTIATE_TEST_SUITE_P(Workers, FragmentProgramsTest, ::testing::Values(1, 2, 3, 4, 8),
                         ::testing::PrintToStringParamName());

TEST_P(FragmentProgramsTest, FindWhatNumPyFinds) {
  ExpectTables("all", 1797, 569);
  ExpectGraph("all", Unwrap(ReadPackages()).needs);
}

TEST_P(FragmentProgramsTest, FindWhatNumPyFindsInFewRows) {
  ExpectTables("few", 5, 5);
  ExpectGraph("few", Among(Unwrap(ReadPackages()), {"aalib", "matplotlib", "networkx", "numpy",
                                                    "pandas", "pkg-resources", "scipy"}));
}

// How often the workers brought a tensor to where it was needed.
int64_t Reshards(const Trace& trace) {
  int64_t reshards = 0;
  for (const TraceProcess& process : trace.processes) {
    for (const TraceThread& thread : process.threads) {
      reshards += std::count_if(thread.events.begin(), thread.events.end(), [](const auto& event) {
        return std::string_view(event.name) == "reshard";
      });
    }
  }
  return reshards;
}

// A graph is sent to the workers once, however many steps are made with it. What moves in a step
// are shares, what sinks have, and the change.
TEST_P(FragmentProgramsTest, AStepOfPageRankMovesNothingOfTheGraph) {
  const Graph graph = Unwrap(ReadPackages()).needs;
  std::vector<int> steps;
  std::vector<int64_t> reshards;
  for (const double tolerance : {0.1, 1e-12}) {
    ASSERT_EQ(session_->SyncAll(), OkStatus());
    ASSERT_EQ(session_->StartTrace(), OkStatus());
    steps.push_back(Unwrap(PageRank(*session_, graph, 0.85, tolerance)).steps);
    ASSERT_EQ(session_->SyncAll(), OkStatus());
    reshards.push_back(Reshards(Unwrap(session_->StopTrace())));
  }
  const int more = steps[1] - steps[0];
  EXPECT_GT(more, 10);
  // With one worker all but what the client collects lies where it is needed.
  const int each = GetParam() == 1 ? 1 : 3;
  EXPECT_EQ(reshards[1] - reshards[0], each * more * GetParam());
}

// Each row plus one row that goes to all, and what the columns of that add up to.
TEST_P(FragmentProgramsTest, ElementsAndSumsOfTablesOfAnyShape) {
  constexpr char kText[] = R"(
#all = affine_map<(i, j) -> (i, j)>
#by_column = affine_map<(i, j) -> (j)>
func.func @shifted(%x: tensor<?x?xf64>, %row: tensor<?xf64>) -> (tensor<?x?xf64>, tensor<?xf64>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f64
  %rows = tensor.dim %x, %c0 : tensor<?x?xf64>
  %columns = tensor.dim %x, %c1 : tensor<?x?xf64>
  %empty = tensor.empty(%rows, %columns) : tensor<?x?xf64>
  %y = linalg.generic {indexing_maps = [#all, #by_column, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x, %row : tensor<?x?xf64>, tensor<?xf64>) outs(%empty : tensor<?x?xf64>) {
  ^bb0(%element: f64, %add: f64, %out: f64):
    %sum = arith.addf %element, %add : f64
    linalg.yield %sum : f64
  } -> tensor<?x?xf64>
  %empty_sums = tensor.empty(%columns) : tensor<?xf64>
  %none = linalg.fill ins(%zero : f64) outs(%empty_sums : tensor<?xf64>) -> tensor<?xf64>
  %sums = linalg.reduce { arith.addf } ins(%y : tensor<?x?xf64>) outs(%none : tensor<?xf64>) dimensions = [0]
  return %y, %sums : tensor<?x?xf64>, tensor<?xf64>
})";
  const Fragment fragment = Unwrap(Fragment::Mlir(kText, "shifted.mlir"));
  std::vector<Shape> shapes = {{10, 10}, {1, 50}, {50, 1}};
  if (GetParam() == 3) shapes.push_back({1500, 1200});
  for (const Shape& shape : shapes) {
    const auto rows = static_cast<size_t>(shape[0]);
    const auto columns = static_cast<size_t>(shape[1]);
    // Whole numbers, whose sums are the same in any order.
    std::vector<double> x(rows * columns);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i * 7 % 11) - 4;
    std::vector<double> row(columns);
    for (size_t j = 0; j < columns; ++j) row[j] = static_cast<double>(j % 5);
    std::vector<double> y(x);
    std::vector<double> sums(columns, 0);
    std::vector<double> row_sums(rows, 0);
    for (size_t i = 0; i < x.size(); ++i) {
      y[i] += row[i % columns];
      sums[i % columns] += y[i];
      row_sums[i / columns] += x[i];
    }
    const HostTensor table = HostTensor::Of<double>(shape, x);
    const std::vector<DRef> results =
        Unwrap(session_->Execute(fragment, {{table, Split::kRows}, Vector(row)},
                                 {{Combine::kRows, shape}, {Combine::kAdd, Shape{shape[1]}}}));
    EXPECT_TRUE(Unwrap(Collect(*session_, results[0])) == y) << shape;
    EXPECT_TRUE(Unwrap(Collect(*session_, results[1])) == sums) << shape;
    EXPECT_TRUE(Unwrap(RowSums(*session_, table)) == row_sums) << shape;
  }
}

// The files that the tests above read are what the script beside them makes.
TEST(ExpectedTest, IsWhatNumPyFinds) {
  const support::ScratchDirectory scratch;
  const auto result =
      Unwrap(RunProgram(scratch, "examples/fragments/expected/make.py", {"--check"}));
  constexpr int kNoNumPy = 77;
  if (result.exit_code == kNoNumPy) GTEST_SKIP() << "SKIPPED: " << result.output;
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

// What a person sees.
TEST(FragmentsExampleTest, ShowsAllPrograms) {
  const std::string compiler = lockstep::testing::CompilerPath();
  ASSERT_EQ(setenv("LOCKSTEP_COMPILER", compiler.c_str(), 1), 0);
  const support::ScratchDirectory scratch;
  const auto result =
      Unwrap(RunProgram(scratch, "examples/fragments/fragments", {"--workers", "1"}));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  for (const char* const shown :
       {"Pixels of ink", "531 of 569 tumours", "332 of 359 held-out images recognized",
        "562 of 569 tumours told apart", "10 clusters after 14 steps",
        "0.0559  python3-pkg-resources", "3316 packages, as python3-a38"}) {
    EXPECT_THAT(result.output, ::testing::HasSubstr(shown));
  }
}

}  // namespace
}  // namespace lockstep::examples::fragments
