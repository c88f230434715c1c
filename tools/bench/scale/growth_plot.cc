#include "tools/bench/scale/growth_plot.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>

namespace lockstep::bench {
namespace {

constexpr int kColumns = 3;
constexpr double kPanelWidth = 300;
constexpr double kPanelHeight = 190;
// Of a panel, around the axes: for the title, the numbers of both axes, and a gap.
constexpr double kLeft = 58;
constexpr double kRight = 16;
constexpr double kTop = 40;
constexpr double kBottom = 34;

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '<') escaped += "&lt;";
    if (c == '&') escaped += "&amp;";
    if (c != '<' && c != '&') escaped += c;
  }
  return escaped;
}

// Places numbers on a line of so many pixels by their logarithms.
class LogAxis {
 public:
  LogAxis(double least, double most, double from, double to)
      : least_(std::log(least)), span_(std::log(most) - least_), from_(from), to_(to) {}

  double At(double value) const {
    return from_ + (to_ - from_) * (std::log(value) - least_) / span_;
  }

 private:
  const double least_;
  const double span_;
  const double from_;
  const double to_;
};

void DrawText(std::ostream& out, double x, double y, const char* kind, const std::string& text) {
  out << "<text class=\"" << kind << "\" x=\"" << Number(x) << "\" y=\"" << Number(y) << "\">"
      << Escaped(text) << "</text>\n";
}

void DrawLine(std::ostream& out, const char* kind, double x1, double y1, double x2, double y2) {
  out << "<line class=\"" << kind << "\" x1=\"" << Number(x1) << "\" y1=\"" << Number(y1)
      << "\" x2=\"" << Number(x2) << "\" y2=\"" << Number(y2) << "\"/>\n";
}

void DrawPanel(std::ostream& out, const Growth& growth, const Curve& curve, double left,
               double top) {
  double least = 0;
  double most = 0;
  for (const double value : curve.values) {
    if (value <= 0) continue;
    least = least == 0 ? value : std::min(least, value);
    most = std::max(most, value);
  }
  DrawText(out, left + 8, top + 16, "title", curve.name);
  if (most == 0) {
    DrawText(out, left + 8, top + 30, "unit", "nothing that could be measured");
    return;
  }
  // Whole powers of ten, so that slopes of panels can be compared by eye where they are alike.
  least = std::pow(10, std::floor(std::log10(least)));
  most = std::pow(10, std::ceil(std::log10(most * 1.001)));
  const LogAxis across(growth.workers.front(), growth.workers.back(), left + kLeft,
                       left + kPanelWidth - kRight);
  const LogAxis up(least, most, top + kPanelHeight - kBottom, top + kTop);
  const auto decades = static_cast<int>(std::lround(std::log10(most / least)));
  for (int decade = 0; decade <= decades; ++decade) {
    const double tick = least * std::pow(10, decade);
    DrawLine(out, "grid", left + kLeft, up.At(tick), left + kPanelWidth - kRight, up.At(tick));
    DrawText(out, left + kLeft - 5, up.At(tick) + 4, "number", ShortNumber(tick));
  }
  for (size_t i = 0; i < growth.workers.size(); ++i) {
    const double x = across.At(growth.workers[i]);
    DrawLine(out, "grid", x, up.At(least), x, up.At(most));
    const bool is_told = (growth.workers.size() - 1 - i) % 2 == 0;
    if (!is_told) continue;
    DrawText(out, x, up.At(least) + 14, "workers", std::to_string(std::lround(growth.workers[i])));
  }
  const auto many = std::count_if(growth.workers.begin(), growth.workers.end(),
                                  [](double workers) { return workers >= kManyWorkers; });
  const double from = many >= 3 ? kManyWorkers : growth.workers.front();
  const PowerLaw law = growth.Law(curve, from);
  const double last = growth.workers.back();
  const auto within = [&](double value) { return std::clamp(value, least, most); };
  DrawLine(out, "law", across.At(from), up.At(within(law.At(from))), across.At(last),
           up.At(within(law.At(last))));
  for (size_t i = 0; i < growth.workers.size(); ++i) {
    if (curve.values[i] <= 0) continue;
    out << "<circle class=\"point\" cx=\"" << Number(across.At(growth.workers[i])) << "\" cy=\""
        << Number(up.At(curve.values[i])) << "\" r=\"3\"/>\n";
  }
  DrawText(out, left + 8, top + 31, "unit",
           curve.unit + ", exponent " + ExponentText(law.exponent));
}

}  // namespace

std::string GrowthSvg(const Growth& growth) {
  const auto panels = static_cast<int>(growth.curves.size());
  const int rows = (panels + kColumns - 1) / kColumns;
  const double width = kColumns * kPanelWidth;
  const double height = rows * kPanelHeight + 20;
  std::ostringstream out;
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << Number(width) << ' '
      << Number(height) << "\" width=\"" << Number(width) << "\" height=\"" << Number(height)
      << "\" font-family=\"sans-serif\">\n"
         "<style>\n"
         ".title { font-size: 12px; font-weight: bold; fill: #1b2a3a; }\n"
         ".unit { font-size: 11px; fill: #55606c; }\n"
         ".number { font-size: 10px; fill: #55606c; text-anchor: end; }\n"
         ".workers { font-size: 10px; fill: #55606c; text-anchor: middle; }\n"
         ".grid { stroke: #e3e6ea; stroke-width: 1; }\n"
         ".law { stroke: #c2541b; stroke-width: 1.5; }\n"
         ".point { fill: #1f5fa8; }\n"
         "</style>\n"
         "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  for (int i = 0; i < panels; ++i) {
    const int row = i / kColumns;
    DrawPanel(out, growth, growth.curves[static_cast<size_t>(i)], (i % kColumns) * kPanelWidth,
              row * kPanelHeight);
  }
  DrawText(out, 8, height - 8, "unit",
           "Across: the number of workers. Points: measured. Lines: the nearest power law from " +
               std::to_string(std::lround(kManyWorkers)) + " workers on.");
  out << "</svg>\n";
  return out.str();
}

Status DrawGrowth(const Growth& growth, const std::string& path) {
  std::ofstream file(path);
  file << GrowthSvg(growth);
  file.close();
  if (!file) return Unavailable("the picture cannot be written to ", path);
  return OkStatus();
}

}  // namespace lockstep::bench
