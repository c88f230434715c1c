#include "services/metrics/families.h"

#include <prometheus/text_serializer.h>

#include <limits>
#include <utility>

namespace lockstep::metrics {

prometheus::ClientMetric& Families::Add(const char* name, const char* help,
                                        prometheus::MetricType type, Labels labels) {
  if (families_.empty() || families_.back().name != name) {
    families_.push_back({name, help, type, {}});
  }
  prometheus::ClientMetric& sample = families_.back().metric.emplace_back();
  sample.label = std::move(labels);
  return sample;
}

void Families::Gauge(const char* name, const char* help, double value, Labels labels) {
  Add(name, help, prometheus::MetricType::Gauge, std::move(labels)).gauge.value = value;
}

void Families::Counter(const char* name, const char* help, double value, Labels labels) {
  Add(name, help, prometheus::MetricType::Counter, std::move(labels)).counter.value = value;
}

void Families::Histogram(const char* name, const char* help, const DurationHistogram& histogram,
                         Labels labels) {
  prometheus::ClientMetric::Histogram& sample =
      Add(name, help, prometheus::MetricType::Histogram, std::move(labels)).histogram;
  uint64_t count = 0;
  for (size_t bucket = 0; bucket < DurationHistogram::kBounds; ++bucket) {
    count += histogram.CountOf(bucket);
    sample.bucket.push_back({count, DurationHistogram::BoundSeconds(bucket)});
  }
  count += histogram.CountOf(DurationHistogram::kBounds);
  sample.bucket.push_back({count, std::numeric_limits<double>::infinity()});
  // From the buckets, so that it is what the last of them says.
  sample.sample_count = count;
  sample.sample_sum = histogram.SumSeconds();
}

std::string Families::Text() const { return prometheus::TextSerializer().Serialize(families_); }

}  // namespace lockstep::metrics
