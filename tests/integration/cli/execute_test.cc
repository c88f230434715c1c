// `lockstep execute`, with a stand-in for the compiler: whatever the fragment is, it is
// sum(i64, tensor<?xf64>) -> tensor<?xf64>, of which 7 doubles each element and 1 divides by zero.
#include <gmock/gmock.h>

#include "tests/integration/cli/cli_fixture.h"
#include "tools/cli/npy.h"

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class ExecuteTest : public CliTest {
 protected:
  void SetUp() override {
    std::ofstream(fragment_) << "func.func @sum(%how: i64, %x: tensor<?xf64>) -> tensor<?xf64>\n";
    Write("x.npy", {1, 2, 3, 4, 5});
    Write("doubled.npy", {2, 4, 6, 8, 10});
    Write("other.npy", {2, 4, 6.5, 8, 10});
  }
  std::string File(const std::string& name) const { return scratch_ + "/" + name; }
  void Write(const std::string& name, const std::vector<double>& numbers) const {
    const auto count = static_cast<int64_t>(numbers.size());
    ASSERT_EQ(WriteNpy(File(name), HostTensor::Of<double>({count}, numbers)), OkStatus());
  }
  // On three workers, of which the last has one element, the others two.
  Result Execute(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"execute", fragment_, "--embedded", "--workers", "3"});
    return Run(arguments);
  }

  const std::string fragment_ = scratch_ + "/sum.mlir";
};

TEST_F(ExecuteTest, AFragmentIsExecutedOnFilesAndComparedWithAReference) {
  const Result same =
      Execute({"-i", "x=" + File("x.npy") + ":rows", "-i", "how=7", "-o",
               "y=" + File("y.npy") + ":rows", "--compare", File("doubled.npy"), "--repeat", "3"});
  EXPECT_EQ(same.code, 0) << same.output;
  EXPECT_THAT(
      same.output,
      AllOf(HasSubstr("float64 [5] in " + File("y.npy")),
            HasSubstr("y agrees with " + File("doubled.npy") + ": all elements are equal"),
            HasSubstr("sum on 3 workers: compiled in "), HasSubstr("executed 3 times in ")));
  EXPECT_EQ(*ReadNpy(File("y.npy")), *ReadNpy(File("doubled.npy")));

  const Result other = Execute({"-i", "7", "-i", File("x.npy") + ":rows", "-o", "y:rows",
                                "--compare", "y=" + File("other.npy"), "--atol", "0.25"});
  EXPECT_EQ(other.code, 1) << other.output;
  EXPECT_THAT(
      other.output,
      AllOf(HasSubstr("y       float64 [5] {2, 4, 6, 8, 10}"),
            HasSubstr("y differs from " + File("other.npy") + ": 1 of 5 elements differs; " +
                      "the largest difference is 0.5, at [2]: 6, expected 6.5"),
            HasSubstr("1 result differs from its reference")));
}

TEST_F(ExecuteTest, AClusterExecutesItAndTellsWhatEachRankGets) {
  ASSERT_EQ(Run({"up", "--detach", "--workers", "3"}).code, 0);
  const Result explained = Run({"execute", fragment_, "-i", "how=7", "-i",
                                "x=" + File("x.npy") + ":rows", "-o", "y:rows", "--explain"});
  EXPECT_EQ(explained.code, 0) << explained.output;
  EXPECT_THAT(explained.output,
              AllOf(HasSubstr("sum(int64, float64[?]) -> (float64[?])\n"),
                    ContainsRegex("\ncompiled by rank [0-2] in [0-9.]+ m?s; found on disk by "
                                  "[0-2](, |-)[0-2]\n\nWhat each rank gets\n"),
                    HasSubstr("  x         float64[?]  float64 [5]  rows   0, 1   [2]    16 B\n"
                              "                                            2      [1]     8 B\n"),
                    HasSubstr("  y       rows     float64[5] shard(0) on 0-2\n"),
                    // What ranks 1 and 2 get, of what comes from here.
                    HasSubstr("  placed once  x               40 B             24 B\n"),
                    HasSubstr("  collected    y               40 B             24 B\n")));

  const Result own = Run({"execute", fragment_, "-i", "7", "-i", File("x.npy") + ":rows",
                          "--format", "json", "--explain"});
  EXPECT_EQ(own.code, 0) << own.output;
  const json document = json::parse(own.output);
  EXPECT_EQ(document["function"], "sum");
  const json& explanation = document["explanation"];
  EXPECT_EQ(explanation["compiled"], json::array()) << "that was before";
  EXPECT_EQ(explanation["found_in_memory"], json({0, 1, 2}));
  EXPECT_EQ(document["workers"], 3);
  EXPECT_EQ(document["microseconds"]["executing"].size(), 1u);
  EXPECT_TRUE(fs::exists(scratch_ + "/cache/lockstep/fragments")) << "which the workers share";
  const json& ranks = document["results"][0]["ranks"];
  ASSERT_EQ(ranks.size(), 3u) << own.output;
  EXPECT_EQ(ranks[2]["value"]["tensor"]["data"], json({10.0}));
  EXPECT_EQ(document["explanation"]["arguments"][1]["parts"][0]["ranks"], json({0, 1}));
}

TEST_F(ExecuteTest, TheWorkersOfAHostCompileItOnce) {
  // Counts what it is asked to compile, and leaves that to the stand-in.
  const std::string counted = File("counted");
  const std::string counting = File("counting");
  std::ofstream(counting) << "#!/bin/sh\n[ \"$1\" = --describe ] || echo . >>" << counted
                          << "\nexec " << compiler_ << " \"$@\"\n";
  fs::permissions(counting, fs::perms::owner_all);
  compiler_ = counting;
  const std::vector<std::string> words = {"-i", "7", "-i", File("x.npy") + ":rows", "-o", "y:rows"};
  EXPECT_EQ(Execute(words).code, 0);
  EXPECT_EQ(ReadFile(counted), ".\n") << "three threads";

  std::vector<std::string> command = {"execute", fragment_};
  command.insert(command.end(), words.begin(), words.end());
  for (int cluster = 0; cluster < 2; ++cluster) {
    ASSERT_EQ(Run({"up", "--detach", "--workers", "3"}).code, 0);
    const Result result = Run(command);
    EXPECT_EQ(result.code, 0) << result.output;
    EXPECT_EQ(Run({"down"}).code, 0);
    EXPECT_EQ(ReadFile(counted), ".\n.\n") << "three processes; the next cluster finds it";
  }
}

TEST_F(ExecuteTest, WhatIsWrongIsToldBeforeAnythingIsExecuted) {
  const std::string x = File("x.npy");
  const struct {
    std::vector<std::string> arguments;
    int code;
    std::string message;
  } cases[] = {
      {{"-i", "how=7", "-i", "z=" + x},
       2,
       "there is no argument \"z\" of `sum`; its arguments are "
       "how, x"},
      {{"-i", "how=7", "-i", "x=" + x + ":columns"},
       2,
       "argument 1 (x=" + x +
           ") of `sum` cannot "
           "be split by columns"},
      {{"-i", "7"}, 2, "`sum` has 2 arguments, and 1 is given"},
      {{"-i", "7", "-i", x + ":row"}, 2, "\"row\" is no split; expected rows, columns or none"},
      {{"-i", "7", "-i", x + ":rows", "-o", "y=out.npy"}, 2, "y=out.npy:rows"},
      {{"-i", "7", "-i", x + ":rows", "-o", "y=/nonexistent/y.npy:rows"},
       2,
       "there is no directory /nonexistent"},
      {{"-i", "7", "-i", x, "-o", "y:rows", "--compare", "/nonexistent.npy"}, 2, "cannot open"},
      {{"-i", "7", "-i", x, "-o", "y:rows", "--compare", "z=" + x}, 2, "no --output is called z"},
      {{"-i", "0.5", "-i", x},
       2,
       "argument 0 (how=0.5) of `sum`: it is int64, and a "
       "floating-point number is given"},
      // On every rank that has a part.
      {{"-i", "1", "-i", x + ":rows", "-o", "y:rows"}, 1, "arith.divsi"},
  };
  for (const auto& one : cases) {
    const Result result = Execute(one.arguments);
    EXPECT_EQ(result.code, one.code) << result.output;
    EXPECT_THAT(result.output, HasSubstr(one.message));
  }
  std::ofstream(fragment_) << "wrong";
  const Result wrong = Execute({"-i", "7", "-i", x});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.output, HasSubstr("operand types differ"));
  compiler_ = "/nonexistent/lockstep-compiler";
  const Result none = Execute({"-i", "7", "-i", x});
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.output, HasSubstr("fragments are not available: "));
}

// Beside the program file, and on three workers of which the last has one row, the others two.
TEST_F(ExecuteTest, APlanCallsFragments) {
  const std::string file = File("doubles.yaml");
  const auto write = [&](const std::string& how) {
    std::ofstream(file) << R"(workers: 3
plan:
  meshes: {all: {ranks: 0-2}}
  layouts:
    whole: {shape: [5], dtype: f64, mesh: all, placements: [replicate]}
  inputs: {x: whole}
  steps:
    - {fragment: sum.mlir, args: [)"
                        << how << R"(, rows $x],
       results: [{as: y, combine: rows, shape: [5], dtype: f64}]}
    - {reshard: y, to: whole, as: z}
  outputs: [z]
steps:
  - {values: [1, 2, 3, 4, 5], dtype: f64, as: x}
  - {execute: plan, times: 3}
  - {expect: z, value: [2, 4, 6, 8, 10], dtype: f64}
)";
  };
  write("7");
  const Result good = Run({"run", file, "--embedded"});
  EXPECT_EQ(good.code, 0) << good.output;
  const Result analyzed = Run({"plan", "analyze", file, "--embedded", "--times", "2"});
  EXPECT_EQ(analyzed.code, 0) << analyzed.output;
  EXPECT_THAT(analyzed.output, HasSubstr("sum.mlir"));
  const Result explained = Run({"plan", "explain", file});
  EXPECT_EQ(explained.code, 0) << explained.output;
  EXPECT_THAT(explained.output, HasSubstr("doubles.yaml:8  sum.mlir  x (rows)  y (rows): 80 B"));
  write("1");
  const Result divided = Run({"run", file, "--embedded"});
  EXPECT_EQ(divided.code, 1) << divided.output;
  EXPECT_THAT(divided.output, AllOf(HasSubstr("doubles.yaml:8, step "), HasSubstr("arith.divsi"),
                                    HasSubstr("sum.mlir: `sum` divided an integer by zero")));
  write("0.5");
  const Result refused = Run({"run", file, "--embedded"});
  EXPECT_EQ(refused.code, 1) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("doubles.yaml:8: sum.mlir: argument 0 of `sum`: it is "
                                        "int64, and a floating-point number is given"));
}

}  // namespace
}  // namespace lockstep::cli
