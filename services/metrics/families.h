// What is told to Prometheus: families of samples, put together on request.
#pragma once

#include <string>
#include <vector>

#include <prometheus/metric_family.h>

#include "services/metrics/counters.h"

namespace lockstep::metrics {

// Threads: one at a time. Samples of one family come one after the other.
class Families {
 public:
  using Labels = std::vector<prometheus::ClientMetric::Label>;

  void Gauge(const char* name, const char* help, double value, Labels labels = {});
  void Counter(const char* name, const char* help, double value, Labels labels = {});
  void Histogram(const char* name, const char* help, const DurationHistogram& histogram,
                 Labels labels = {});

  // In Prometheus' text format.
  std::string Text() const;

 private:
  prometheus::ClientMetric& Add(const char* name, const char* help, prometheus::MetricType type,
                                Labels labels);

  std::vector<prometheus::MetricFamily> families_;
};

}  // namespace lockstep::metrics
