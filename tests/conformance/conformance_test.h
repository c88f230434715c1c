// The fixture of the conformance suite: every backend, with 1, 2, 3, 4 and 7 ranks.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "tests/conformance/world_under_test.h"

namespace lockstep::collective {

class ConformanceTest : public testing::TestWithParam<std::tuple<BackendUnderTest, int>> {
 protected:
  int size() const { return std::get<1>(GetParam()); }
  // Runs `body` on every rank.
  void OnEveryRank(const std::function<void(RankUnderTest&)>& body) {
    std::get<0>(GetParam()).run(size(), body);
  }
};

inline std::string NameOfCase(
    const testing::TestParamInfo<std::tuple<BackendUnderTest, int>>& info) {
  return std::get<0>(info.param).name + "_" + std::to_string(std::get<1>(info.param));
}

#define LOCKSTEP_CONFORMANCE_SUITE(Suite)                                                   \
  INSTANTIATE_TEST_SUITE_P(Backends, Suite,                                                 \
                           testing::Combine(testing::ValuesIn(Backends()),                  \
                                            testing::Values(1, 2, 3, 4, 7)),                \
                           NameOfCase)

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
