#include "tests/integration/exported_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace lockstep::testing {
namespace {

bool EndsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// By the name, as Prometheus' conventions want it.
std::string UnitOf(std::string name) {
  if (EndsWith(name, "_total")) name.resize(name.size() - 6);
  if (EndsWith(name, "_bytes_per_second")) return "bytes per second";
  for (const std::string unit : {"bytes", "seconds", "celsius", "watts", "hertz"}) {
    if (EndsWith(name, "_" + unit)) return unit;
  }
  return "";
}

// `key="value",...`
void ReadLabels(const std::string& text, MetricFamily& family) {
  for (size_t at = 0; at < text.size();) {
    const size_t equals = text.find("=\"", at);
    const size_t end = text.find('"', equals + 2);
    ASSERT_TRUE(equals != std::string::npos && end != std::string::npos) << text;
    const std::string key = text.substr(at, equals - at);
    if (key != "le") family.labels[key].insert(text.substr(equals + 2, end - equals - 2));
    at = end + 2;
  }
}

void ReadSample(const std::string& line, MetricFamily& family) {
  const size_t space = line.rfind(' ');
  const std::string sample = line.substr(0, space);
  const size_t brace = sample.find('{');
  const std::string name = sample.substr(0, brace);
  const std::string suffix = name.substr(std::min(name.size(), family.name.size()));
  EXPECT_EQ(name.rfind(family.name, 0), 0u) << line;
  EXPECT_TRUE(suffix.empty() || (family.type == "histogram" && suffix[0] == '_')) << line;
  if (brace != std::string::npos) {
    ReadLabels(sample.substr(brace + 1, sample.size() - brace - 2), family);
  }
  EXPECT_TRUE(family.samples.emplace(sample, std::strtod(&line[space], nullptr)).second)
      << "twice: " << line;
}

}  // namespace

std::vector<MetricFamily> ReadMetrics(const std::string& text) {
  std::vector<MetricFamily> families;
  std::istringstream lines(text);
  const std::string help = "# HELP ";
  const std::string type = "# TYPE ";
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(help, 0) == 0) {
      const size_t space = line.find(' ', help.size());
      families.push_back(
          {line.substr(help.size(), space - help.size()), "", line.substr(space + 1), {}, {}});
    } else if (families.empty()) {
      ADD_FAILURE() << "a line before the first family: " << line;
    } else if (line.rfind(type, 0) == 0) {
      families.back().type = line.substr(line.rfind(' ') + 1);
    } else if (!line.empty()) {
      ReadSample(line, families.back());
    }
  }
  return families;
}

std::string DocumentedRow(const MetricFamily& family) {
  std::string labels;
  for (const auto& [label, values] : family.labels) {
    labels += (labels.empty() ? "`" : ", `") + label + "`";
  }
  return "| `" + family.name + "` | " + family.type + " | " + labels + " | " + UnitOf(family.name) +
         " | " + family.help + " |";
}

std::string FetchMetrics(const std::string& endpoint) {
  auto result = httplib::Client(endpoint).Get("/metrics");
  EXPECT_TRUE(result) << endpoint << ": " << to_string(result.error());
  return result ? result.value().body : "";
}

std::string MetricsPage() {
  std::ifstream file("docs/metrics.md");
  EXPECT_TRUE(file) << "docs/metrics.md is not among the test's data";
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void ExpectDocumented(const std::vector<MetricFamily>& families, const std::string& heading) {
  std::vector<std::string> exported;
  std::string table;
  for (const MetricFamily& family : families) {
    exported.push_back(DocumentedRow(family));
    table += exported.back() + "\n";
  }
  EXPECT_THAT(RowsOfSection(MetricsPage(), heading), ::testing::ElementsAreArray(exported))
      << "docs/metrics.md, " << heading << ", is to show:\n"
      << table;
}

void ExpectNoComplaintsOfPromtool(const std::vector<std::string>& endpoints,
                                  const std::string& directory) {
  if (std::system("command -v promtool >/dev/null") != 0) {
    GTEST_SKIP() << "promtool is not installed (Debian's package prometheus)";
  }
  for (const std::string& endpoint : endpoints) {
    const std::string file = directory + "/metrics";
    std::ofstream(file) << FetchMetrics(endpoint);
    FILE* const promtool = popen(("promtool check metrics <" + file + " 2>&1").c_str(), "r");
    ASSERT_NE(promtool, nullptr);
    std::string said;
    char buffer[256];
    while (fgets(buffer, sizeof buffer, promtool) != nullptr) said += buffer;
    EXPECT_EQ(pclose(promtool), 0) << said;
    EXPECT_EQ(said, "");
  }
}

std::vector<std::string> RowsOfSection(const std::string& page, const std::string& heading) {
  std::vector<std::string> rows;
  std::istringstream lines(page);
  bool is_inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("## ", 0) == 0) is_inside = line == heading;
    if (is_inside && line.rfind("| `", 0) == 0) rows.push_back(line);
  }
  return rows;
}

}  // namespace lockstep::testing
