// What tests of a session have in common.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/client/admin.h"
#include "runtime/client/session.h"
#include "tests/integration/cluster.h"

namespace lockstep::testing {

// A session with four workers in two groups. Functions that cannot fail in a test that is right end
// the test with the status if they do.
class SessionFixture : public ::testing::TestWithParam<ClusterKind> {
 protected:
  static constexpr int kWorkers = 4;

  void SetUp() override {
    const std::string why_not = WhyNot(GetParam());
    if (!why_not.empty()) GTEST_SKIP() << why_not;
    session_ = std::make_unique<Session>(Open(SharedCluster(GetParam()), Options()));
  }
  void TearDown() override {
    if (session_ != nullptr) (void)session_->Close();
  }

  static SessionOptions Options() {
    SessionOptions options;
    options.num_groups = 2;
    options.name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    options.connect_timeout = std::chrono::seconds(30);
    options.timeout = std::chrono::seconds(50);
    return options;
  }
  static Session Open(Cluster& cluster, const SessionOptions& options = Options()) {
    return Unwrap(cluster.Connect(options));
  }

  // The value, or the end of the test program: nothing that follows would make sense.
  template <typename T>
  static T Unwrap(StatusOr<T> value) {
    if (!value.ok()) {
      ADD_FAILURE() << value.status();
      std::abort();
    }
    return std::move(*value);
  }

  DRef Function(const std::string& name) { return Function(*session_, name); }
  static DRef Function(Session& session, const std::string& name) {
    return Unwrap(session.GetFunction(name));
  }
  // Calls a built-in function.
  template <typename... Args>
  DRef Call(const std::string& name, const Args&... args) {
    return Unwrap(session_->Call(Function(name), args...));
  }
  // A tensor full of the worker's rank.
  DRef FullOfRank(const Shape& shape, DType dtype = DType::kFloat32) {
    return Call("lockstep.full", shape, Call("lockstep.worker_rank"), dtype);
  }
  // A register that holds `values[rank]` on each rank.
  DRef PerRank(const std::vector<HostTensor>& values) {
    DRef ref = Unwrap(session_->Empty({0}, DType::kUInt8));
    for (int rank = 0; rank < static_cast<int>(values.size()); ++rank) {
      const Status status = session_->DebugSet(ref, rank, values[static_cast<size_t>(rank)]);
      EXPECT_TRUE(status.ok()) << status;
    }
    return ref;
  }
  Value Get(const DRef& ref, Rank rank) { return Unwrap(session_->DebugGet(ref, rank)); }
  template <typename T>
  std::vector<T> Elements(const DRef& ref, Rank rank) {
    const Value value = Get(ref, rank);
    const auto* tensor = value.As<HostTensor>();
    if (tensor == nullptr) {
      ADD_FAILURE() << "rank " << rank << " holds " << ToString(value);
      return {};
    }
    return Unwrap(tensor->Elements<T>());
  }
  // The cluster's status once `found` says so of it; a failure if that takes too long.
  template <typename Found>
  static ClusterStatus StatusOnce(Cluster& cluster, Found found) {
    const Deadline deadline = Deadline::After(std::chrono::seconds(20));
    while (true) {
      ClusterStatus status = Unwrap(GetClusterStatus(cluster.address(), std::chrono::seconds(20)));
      if (found(status)) return status;
      if (deadline.Expired()) {
        ADD_FAILURE() << "not found in time";
        return status;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  // A register with this name, which may be stale: as a hostile client would use it.
  Value Named(RegisterId id) const { return RegisterRef{session_->id(), id}; }

  std::unique_ptr<Session> session_;
};

// The same on a cluster of the test's own, which it configures, or breaks.
class OwnClusterFixture : public SessionFixture {
 protected:
  void SetUp() override {
    const std::string why_not = WhyNot(GetParam());
    if (!why_not.empty()) GTEST_SKIP() << why_not;
    Start(OwnOptions());
  }

  virtual ClusterOptions OwnOptions() { return {}; }
  void Start(const ClusterOptions& options, const SessionOptions& session = Options()) {
    cluster_ = Unwrap(Cluster::Start(GetParam(), options));
    session_ = std::make_unique<Session>(Open(*cluster_, session));
  }

  std::unique_ptr<Cluster> cluster_;
};

#define EXPECT_OK(expression) EXPECT_EQ((expression), ::lockstep::OkStatus())

}  // namespace lockstep::testing
