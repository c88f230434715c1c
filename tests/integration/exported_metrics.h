// What a process exports, read back from Prometheus' text format.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

namespace lockstep::testing {

struct MetricFamily {
  std::string name;
  std::string type;  // "counter", "gauge", "histogram"
  std::string help;
  // Labels and the values that they had, without the histograms' own `le`.
  std::map<std::string, std::set<std::string>> labels;
  // By what is in front of the value, as in `lockstep_workers{state="ready"}`.
  std::map<std::string, double> samples;
};

// Families in the order of the text. Fails the test that calls it for what it cannot read.
std::vector<MetricFamily> ReadMetrics(const std::string& text);

// The row of docs/metrics.md that tells of a family.
std::string DocumentedRow(const MetricFamily& family);

// Rows of tables in the section of a page that begins with this heading.
std::vector<std::string> RowsOfSection(const std::string& page, const std::string& heading);

}  // namespace lockstep::testing
