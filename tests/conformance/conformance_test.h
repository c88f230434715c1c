// The fixture of the conformance suite: every backend, with several numbers of ranks.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tests/conformance/world_under_test.h"

namespace lockstep::collective {

// A backend and how many ranks it is tried with.
struct Case {
  BackendUnderTest backend;
  int size;

  friend std::ostream& operator<<(std::ostream& out, const Case& c) {
    return out << c.backend << " with " << c.size << " ranks";
  }
};

// Of each suite but that of failures, and of that one.
inline std::vector<Case> Cases(bool of_failures = false) {
  std::vector<Case> cases;
  for (const BackendUnderTest& backend : Backends()) {
    if (backend.fails_only && !of_failures) continue;
    for (int size : backend.sizes) cases.push_back({backend, size});
  }
  return cases;
}

class ConformanceTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!GetParam().backend.why_not.empty()) GTEST_SKIP() << GetParam().backend.why_not;
  }
  int size() const { return GetParam().size; }
  bool ranks_are_processes() const { return GetParam().backend.processes; }
  bool dies_together() const { return GetParam().backend.dies_together; }
  int splits() const { return GetParam().backend.splits; }
  bool notices_death() const { return GetParam().backend.notices_death; }
  // Runs `body` on every rank. A wake-up that is missed may still end well, at the deadline.
  void OnEveryRank(const std::function<void(RankUnderTest&)>& body) {
    const auto begin = Deadline::Clock::now();
    GetParam().backend.run(size(), body);
    EXPECT_LT(Deadline::Clock::now() - begin, kPatience) << "a rank slept until the deadline";
  }
};

inline std::string NameOfCase(const testing::TestParamInfo<Case>& info) {
  return info.param.backend.name + "_" + std::to_string(info.param.size);
}

#define LOCKSTEP_CONFORMANCE_SUITE(Suite) \
  INSTANTIATE_TEST_SUITE_P(Backends, Suite, testing::ValuesIn(Cases()), NameOfCase)

// The elements of `buffer` are what `expected` says, with an index in the message if not.
template <typename Expected>
void ExpectElements(const TestBuffer& buffer, Expected expected, double tolerance,
                    const std::string& what) {
  const std::vector<double> values = buffer.Read();
  for (size_t i = 0; i < values.size(); ++i) {
    const double wanted = expected(i);
    if (std::abs(values[i] - wanted) <= tolerance * std::abs(wanted)) continue;
    ADD_FAILURE() << what << ": element " << i << " is " << values[i] << ", expected " << wanted;
    return;
  }
}

}  // namespace lockstep::collective
