// Calls that client and workers number alike.
#include "runtime/fragment/known_calls.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep::fragment {
namespace {

TEST(KnownCallsTest, NumbersAreInTheOrderOfTheCalls) {
  KnownCalls<std::string> calls;
  EXPECT_EQ(calls.Find(0), nullptr);
  EXPECT_EQ(calls.Add("a", 1), 0u);
  EXPECT_EQ(calls.NumberOfNext(1), 1u);
  EXPECT_EQ(calls.Add("b", 1), 1u);
  EXPECT_EQ(*calls.Find(0), "a");
  EXPECT_EQ(*calls.Find(1), "b");
}

TEST(KnownCallsTest, WhatIsTooManyBeginsAnew) {
  using Calls = KnownCalls<int>;
  Calls calls;
  for (size_t i = 0; i < Calls::kMostCalls; ++i) EXPECT_EQ(calls.Add(1, 1), i);
  EXPECT_EQ(calls.NumberOfNext(1), 0u);
  EXPECT_EQ(calls.Add(2, 1), 0u);
  EXPECT_EQ(*calls.Find(0), 2);
  EXPECT_EQ(calls.Find(1), nullptr);
  EXPECT_EQ(calls.bytes(), 1u);
  // ... and so do too many bytes.
  EXPECT_EQ(calls.Add(3, Calls::kMostBytes), 0u);
  EXPECT_EQ(*calls.Find(0), 3);
  EXPECT_EQ(calls.bytes(), Calls::kMostBytes);
}

}  // namespace
}  // namespace lockstep::fragment
