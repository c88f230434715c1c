// A cluster whose workers really compile fragments.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "runtime/client/session.h"
#include "services/local/local_cluster.h"
#include "tests/support/files.h"

namespace lockstep::testing {

// The value, or the end of the test program: nothing that follows would make sense.
template <typename T>
T Unwrap(StatusOr<T> value) {
  if (!value.ok()) {
    ADD_FAILURE() << value.status();
    std::abort();
  }
  return std::move(*value);
}

// Small whole numbers, so that sums are the same in any order.
template <typename T = double>
HostTensor Numbers(const Shape& shape) {
  std::vector<T> numbers(static_cast<size_t>(shape.NumElements()));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<T>(i * 7 % 11) - 4;
  return HostTensor::Of<T>(shape, numbers);
}

inline std::string CompilerPath() {
  return std::filesystem::absolute("services/compiler/lockstep-compiler");
}

// Its parameter is the number of workers.
class CompiledFragmentsFixture : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    // All clusters of a program share what is compiled.
    static const support::ScratchDirectory directory;
    local::LocalClusterOptions options;
    options.workers = GetParam();
    options.arena_bytes = size_t{64} << 20;
    options.compiler = CompilerPath();
    options.fragment_cache = directory.File("fragments");
    cluster_ = Unwrap(local::LocalCluster::Start(options));
    session_ = std::make_unique<Session>(Unwrap(cluster_->Connect()));
  }
  void TearDown() override {
    EXPECT_EQ(session_->Close(), OkStatus());
    EXPECT_EQ(cluster_->Stop(), OkStatus());
  }

  static fragment::Fragment Mlir(const std::string& text) {
    return Unwrap(fragment::Fragment::Mlir(text, "f.mlir"));
  }
  std::vector<DRef> Execute(const std::string& text, const std::vector<FragmentInput>& inputs,
                            const std::vector<FragmentOutput>& outputs) {
    return Unwrap(session_->Execute(Mlir(text), inputs, outputs));
  }
  static std::vector<Rank> AllRanks() {
    std::vector<Rank> ranks(static_cast<size_t>(GetParam()));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }
  template <typename T = double>
  std::vector<T> Collected(const DRef& ref) {
    return Unwrap(Unwrap(session_->Collect(ref)).Elements<T>());
  }

  std::unique_ptr<local::LocalCluster> cluster_;
  std::unique_ptr<Session> session_;
};

}  // namespace lockstep::testing
