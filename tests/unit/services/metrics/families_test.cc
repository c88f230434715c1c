#include "services/metrics/families.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::metrics {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

TEST(DurationHistogramTest, BoundsAreFourTimesOneAnotherAndInclusive) {
  EXPECT_EQ(DurationHistogram::BucketOf(0ns), 0u);
  EXPECT_EQ(DurationHistogram::BucketOf(-5ns), 0u);
  uint64_t nanos = 1000;
  for (size_t bucket = 0; bucket < DurationHistogram::kBounds; ++bucket, nanos *= 4) {
    EXPECT_DOUBLE_EQ(DurationHistogram::BoundSeconds(bucket), static_cast<double>(nanos) / 1e9);
    EXPECT_EQ(DurationHistogram::BucketOf(std::chrono::nanoseconds(nanos)), bucket);
    EXPECT_EQ(DurationHistogram::BucketOf(std::chrono::nanoseconds(nanos + 1)), bucket + 1);
  }
  EXPECT_EQ(DurationHistogram::BucketOf(10h), DurationHistogram::kBounds);
}

TEST(FamiliesTest, HistogramsAreCumulative) {
  DurationHistogram histogram;
  histogram.Observe(500ns);
  histogram.Observe(3us);
  histogram.Observe(10h);
  Families families;
  families.Histogram("x_seconds", "Help.", histogram, {{"kind", "a"}});
  const std::string text = families.Text();
  EXPECT_THAT(text, HasSubstr("# TYPE x_seconds histogram\n"));
  EXPECT_THAT(text, HasSubstr("x_seconds_bucket{kind=\"a\",le=\"1e-06\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("x_seconds_bucket{kind=\"a\",le=\"4e-06\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("x_seconds_bucket{kind=\"a\",le=\"0.001024\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("x_seconds_bucket{kind=\"a\",le=\"+Inf\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("x_seconds_count{kind=\"a\"} 3\n"));
  EXPECT_DOUBLE_EQ(histogram.SumSeconds(), 36000.0000035);
}

TEST(FamiliesTest, SamplesOfOneFamilyStandUnderOneHead) {
  Families families;
  families.Counter("x_total", "Help.", 3, {{"kind", "a"}});
  families.Counter("x_total", "Help.", 1795000000123, {{"kind", "b"}});
  families.Gauge("y", "Other.", 0.5);
  EXPECT_EQ(families.Text(),
            "# HELP x_total Help.\n# TYPE x_total counter\n"
            "x_total{kind=\"a\"} 3\nx_total{kind=\"b\"} 1795000000123\n"
            "# HELP y Other.\n# TYPE y gauge\ny 0.5\n");
}

}  // namespace
}  // namespace lockstep::metrics
