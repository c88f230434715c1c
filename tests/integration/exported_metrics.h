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

// What the process at this endpoint exports now.
std::string FetchMetrics(const std::string& endpoint);

// docs/metrics.md, which is to be among the test's data.
std::string MetricsPage();

// Fails the test if the section of that page shows others than these families, or not as they are.
void ExpectDocumented(const std::vector<MetricFamily>& families, const std::string& heading);

// Fails the test if promtool complains of what a process exports, and skips it where there is none.
void ExpectNoComplaintsOfPromtool(const std::vector<std::string>& endpoints,
                                  const std::string& directory);

// Rows of tables in the section of a page that begins with this heading.
std::vector<std::string> RowsOfSection(const std::string& page, const std::string& heading);

}  // namespace lockstep::testing
