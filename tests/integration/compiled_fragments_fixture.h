// A cluster whose workers really compile fragments.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

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

  std::unique_ptr<local::LocalCluster> cluster_;
  std::unique_ptr<Session> session_;
};

}  // namespace lockstep::testing
