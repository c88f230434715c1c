// The example programs, and what they print.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "examples/support/find_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/examples/program.h"

namespace lockstep::examples {

inline constexpr const char* kDigits = "examples/digits/digits";
inline constexpr const char* kTensorParallel = "examples/tensor_parallel/tensor_parallel";
inline constexpr const char* kLockstep = "tools/cli/lockstep";

class ExamplesTest : public testing::Test {
 protected:
  // What the program prints; a failure unless it succeeds.
  std::string Run(const std::string& program, const std::vector<std::string>& arguments) {
    const StatusOr<ProgramResult> result = RunProgram(scratch_, program, arguments);
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return "";
    EXPECT_EQ(result->exit_code, 0) << program << " printed:\n" << result->output;
    return result->output;
  }

  // Trains with the default settings; returns the loss of every epoch.
  std::vector<double> Train(std::vector<std::string> arguments) {
    const std::string losses = scratch_.File("losses.csv");
    arguments.insert(arguments.end(), {"--losses", losses, "--quiet"});
    const std::string output = Run(kDigits, arguments);
    std::smatch accuracy;
    const bool found =
        std::regex_search(output, accuracy, std::regex("held-out accuracy ([0-9.]+)"));
    EXPECT_TRUE(found) << output;
    EXPECT_GE(found ? std::stod(accuracy[1]) : 0, 0.95);
    return ReadLosses(losses);
  }

  // Starts a cluster of service processes that allows the examples' modules, by `lockstep up` with
  // these arguments more; its clients' endpoint.
  std::string Up(const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> up = {"up", "--name", name, "--detach"};
    for (const char* module :
         {"examples/digits/digits_module.so", "examples/tensor_parallel/transformer_module.so"}) {
      const StatusOr<std::string> path = FindFile(module);
      EXPECT_TRUE(path.ok()) << path.status();
      if (!path.ok()) return "";
      up.insert(up.end(), {"--module-path", std::filesystem::path(*path).parent_path().string()});
    }
    up.insert(up.end(), more.begin(), more.end());
    Run(kLockstep, up);
    if (HasFailure()) return "";
    const std::string status = Run(kLockstep, {"status", "--name", name, "--output", "json"});
    return HasFailure() ? "" : nlohmann::json::parse(status).at("endpoint").get<std::string>();
  }

  ScratchDirectory scratch_;

 private:
  static std::vector<double> ReadLosses(const std::string& path) {
    std::istringstream text(ReadFile(path));
    std::filesystem::remove(path);
    std::string line;
    EXPECT_TRUE(std::getline(text, line) && line == "epoch,loss") << line;
    std::vector<double> losses;
    while (std::getline(text, line)) {
      losses.push_back(std::stod(line.substr(line.find(',') + 1)));
      EXPECT_EQ(std::stoul(line), losses.size());
    }
    return losses;
  }
};

// Losses that differ by no more than numbers that were added up in another order, or on a GPU.
inline void ExpectSameCurve(const std::vector<double>& actual,
                            const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], 1e-4) << "epoch " << i + 1;
  }
}

}  // namespace lockstep::examples
