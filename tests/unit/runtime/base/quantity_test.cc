#include "runtime/base/quantity.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using std::chrono::microseconds;

TEST(QuantityTest, DurationsHaveAUnit) {
  EXPECT_EQ(*ParseDuration("200us"), microseconds(200));
  EXPECT_EQ(*ParseDuration("500ms"), microseconds(500'000));
  EXPECT_EQ(*ParseDuration("2s"), microseconds(2'000'000));
  EXPECT_EQ(*ParseDuration("5min"), microseconds(300'000'000));
  EXPECT_EQ(*ParseDuration("1h"), microseconds(3'600'000'000));
  EXPECT_EQ(*ParseDuration("0s"), microseconds(0));
}

TEST(QuantityTest, WhatIsNoDurationIsRefused) {
  for (const char* text : {"", "5", "s", "5 s", "-5s", "1.5s", "5S", "5seconds", "99999999999999h",
                           "99999999999999999999us"}) {
    const StatusOr<microseconds> result = ParseDuration(text);
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(Message(result.status()).find("500ms"), std::string::npos) << "shows an example";
  }
}

TEST(QuantityTest, SizesHaveABinaryUnit) {
  EXPECT_EQ(*ParseSize("7B"), 7u);
  EXPECT_EQ(*ParseSize("3KiB"), 3072u);
  EXPECT_EQ(*ParseSize("8MiB"), uint64_t{8} << 20);
  EXPECT_EQ(*ParseSize("16GiB"), uint64_t{16} << 30);
  EXPECT_EQ(*ParseSize("2TiB"), uint64_t{2} << 40);
}

TEST(QuantityTest, WhatIsNoSizeIsRefused) {
  for (const char* text : {"", "5", "5MB", "5mib", "-1B", "8388608TiB", "1.5GiB"}) {
    EXPECT_EQ(ParseSize(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
}

TEST(QuantityTest, IntegersAreTheWholeText) {
  EXPECT_EQ(*ParseInteger("-1"), -1);
  EXPECT_EQ(*ParseInteger("9223372036854775807"), INT64_MAX);
  for (const char* text : {"", "4x", " 4", "4 ", "0x10", "9223372036854775808", "1e3"}) {
    EXPECT_FALSE(ParseInteger(text).ok()) << text;
  }
}

TEST(QuantityTest, FormattersChooseTheLargestUnitThatDivides) {
  EXPECT_EQ(ExactDuration(microseconds(90'000'000)), "90s");
  EXPECT_EQ(ExactDuration(microseconds(120'000'000)), "2min");
  EXPECT_EQ(ExactDuration(microseconds(0)), "0us");
  EXPECT_EQ(ExactSize(uint64_t{8} << 20), "8MiB");
  EXPECT_EQ(ExactSize((uint64_t{8} << 20) + 1), "8388609B");
}

TEST(QuantityTest, DurationsForPeopleAreRounded) {
  using std::chrono::milliseconds;
  EXPECT_EQ(RoundedDuration(milliseconds(350)), "350 ms");
  EXPECT_EQ(RoundedDuration(milliseconds(2400)), "2.4 s");
  EXPECT_EQ(RoundedDuration(milliseconds(185'000)), "3 min 5 s");
  EXPECT_EQ(RoundedDuration(std::chrono::hours(27)), "1 d 3 h");
}

TEST(QuantityTest, RoundedSizesAreForPeople) {
  EXPECT_EQ(RoundedSize(0), "0 B");
  EXPECT_EQ(RoundedSize(1023), "1023 B");
  EXPECT_EQ(RoundedSize(1536), "1.5 KiB");
  EXPECT_EQ(RoundedSize(uint64_t{16} << 30), "16 GiB");
  EXPECT_EQ(RoundedSize((uint64_t{200} << 20) + 1), "200 MiB");
}

TEST(QuantityTest, WhatIsFormattedReadsBack) {
  for (int64_t value : {0, 1, 999, 1'000, 61'000'000, 86'400'000}) {
    EXPECT_EQ(*ParseDuration(ExactDuration(microseconds(value))), microseconds(value));
    EXPECT_EQ(*ParseSize(ExactSize(static_cast<uint64_t>(value))), static_cast<uint64_t>(value));
  }
}

}  // namespace
}  // namespace lockstep
