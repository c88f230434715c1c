#include "tools/cli/plan/drawing.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

#include "runtime/base/quantity.h"
#include "runtime/base/rank_text.h"
#include "runtime/plan/passes/program_lowering.h"
#include "runtime/plan/steps/program_steps.h"
#include "tools/cli/plan/explain.h"
#include "tools/cli/plan/explain_text.h"
#include "tools/cli/plan/schedule.h"
#include "tools/text/format.h"
#include "tools/text/terminal.h"

namespace lockstep::cli::plan_file {
namespace {

using plan::StepBuffer;

// Of the picture, in pixels.
constexpr double kLeft = 90;
constexpr double kWidth = 1000;
constexpr double kRow = 26;
constexpr double kMapHeight = 260;
constexpr double kTop = 56;
constexpr double kGap = 70;
constexpr size_t kMostRanks = 64;

// For XML, which has no control characters.
std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text::Printable(text)) {
    if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else if (c == '>') {
      escaped += "&gt;";
    } else if (c == '"') {
      escaped += "&quot;";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

// Elements of an SVG.
class Picture {
 public:
  void Box(double x, double y, double width, double height, const std::string& color,
           const std::string& title) {
    out_ << "<rect x=\"" << Number(x) << "\" y=\"" << Number(y) << "\" width=\""
         << Number(std::max(width, 0.5)) << "\" height=\"" << Number(height) << "\" fill=\""
         << color << '"' << (width < 3 ? "" : " stroke=\"#ffffff\" stroke-width=\"0.5\"")
         << "><title>" << Escaped(title) << "</title></rect>\n";
  }
  void Text(double x, double y, const std::string& text, const std::string& style = "") {
    out_ << "<text x=\"" << Number(x) << "\" y=\"" << Number(y) << "\"" << style << ">"
         << Escaped(text) << "</text>\n";
  }
  void Line(double x1, double y1, double x2, double y2) {
    out_ << "<line x1=\"" << Number(x1) << "\" y1=\"" << Number(y1) << "\" x2=\"" << Number(x2)
         << "\" y2=\"" << Number(y2) << "\" stroke=\"#c8c8c8\"/>\n";
  }
  std::string Finish(double height) const {
    std::ostringstream all;
    all << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << kLeft + kWidth + 30
        << "\" height=\"" << Number(height)
        << "\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222222\">\n"
        << "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
        << out_.str() << "</svg>\n";
    return all.str();
  }

 private:
  static std::string Number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f", value);
    return text;
  }
  std::ostringstream out_;
};

constexpr char kCallColor[] = "#3b76b8";
constexpr char kCollectiveColor[] = "#d9822b";
constexpr char kCopyColor[] = "#7a8b99";
constexpr char kWaitColor[] = "#f4dcc0";

// The first and the last step that uses a buffer, for each of them.
struct Use {
  int first = -1;
  int last = -1;
};

std::vector<Use> UsesOf(const plan::ProgramSteps& steps) {
  std::vector<Use> uses(steps.buffers.size());
  for (size_t i = 0; i < steps.steps.size(); ++i) {
    const auto use = [&](int buffer) {
      if (buffer < 0) return;
      Use& one = uses[static_cast<size_t>(steps.RootOf(buffer))];
      if (one.first < 0) one.first = static_cast<int>(i);
      one.last = static_cast<int>(i);
    };
    const auto& what = steps.steps[i].what;
    if (const auto* call = std::get_if<plan::CallStep>(&what)) {
      for (const int buffer : call->argument_buffers) use(buffer);
      use(call->result_buffer);
    } else if (const auto* copy = std::get_if<plan::CopyStep>(&what)) {
      plan::ForEachBuffer(*copy, use);
    } else if (const auto* fill = std::get_if<plan::FillStep>(&what)) {
      plan::ForEachBuffer(*fill, use);
    } else {
      // What is empty has any buffer.
      const auto& collective = std::get<plan::CollectiveStep>(what);
      if (collective.send.count > 0) use(collective.send.buffer);
      if (collective.recv.count > 0) use(collective.recv.buffer);
    }
  }
  return uses;
}

// At most kMostRanks of them, with `rank` in their middle as far as there are others on both sides.
std::vector<Rank> RanksAround(Rank rank, const std::vector<Rank>& all) {
  if (all.size() <= kMostRanks) return all;
  const auto number =
      static_cast<size_t>(std::lower_bound(all.begin(), all.end(), rank) - all.begin());
  const size_t before = std::min(number, kMostRanks / 2);
  const auto first =
      all.begin() + static_cast<std::ptrdiff_t>(std::min(number - before, all.size() - kMostRanks));
  return {first, first + kMostRanks};
}

std::string RanksText(const std::vector<Rank>& drawn, size_t all) {
  const std::string ranks = ListRanks(drawn);
  return drawn.size() == all ? ranks : ranks + ", of " + text::FormatCount(all);
}

class PlanDrawer {
 public:
  // `ranks` has all ranks of the plan: those that are not drawn make others wait, too.
  PlanDrawer(const PlanFile& file, Rank memory_of, std::map<Rank, plan::ProgramSteps> ranks)
      : file_(file), memory_of_(memory_of), ranks_(std::move(ranks)) {}

  // Of the drawn ranks.
  std::string Draw(const std::vector<Rank>& drawn) {
    const auto schedule = Schedule(ranks_, file_.topology, plan::CostModel());
    for (const auto& [rank, steps] : schedule) {
      for (const ScheduledStep& step : steps) end_ = std::max(end_, step.end);
    }
    picture_.Text(kLeft, 20, "Predicted steps over time", " font-weight=\"bold\"");
    picture_.Text(kLeft, 40, RanksText(drawn, ranks_.size()));
    DrawLegend();
    double y = kTop;
    DrawTimes(y + kRow * static_cast<double>(drawn.size()));
    for (const Rank rank : drawn) {
      DrawRank(rank, schedule.at(rank), y);
      y += kRow;
    }
    y += kGap;
    DrawMemory(y);
    return picture_.Finish(y + kMapHeight + 40);
  }

 private:
  double AtTime(double micros) const { return kLeft + micros / std::max(end_, 1.0) * kWidth; }

  void DrawLegend() {
    double x = kLeft + 220;
    const std::pair<const char*, const char*> kinds[] = {{kCallColor, "call (20 us are assumed)"},
                                                         {kCollectiveColor, "collective"},
                                                         {kWaitColor, "wait for others"},
                                                         {kCopyColor, "copy, fill"}};
    for (const auto& [color, text] : kinds) {
      picture_.Box(x, 10, 12, 12, color, text);
      picture_.Text(x + 17, 20, text);
      x += 190;
    }
  }

  void DrawRank(Rank rank, const std::vector<ScheduledStep>& schedule, double y) {
    picture_.Text(8, y + 16, "rank " + std::to_string(rank));
    const std::vector<plan::ProgramStep>& steps = ranks_.at(rank).steps;
    for (size_t i = 0; i < schedule.size(); ++i) {
      const ScheduledStep& at = schedule[i];
      // Lanes that overlap are drawn one below the other.
      const bool is_below = file_.lanes_overlap && steps[i].lane == plan::Lane::kCommunication;
      const double height = file_.lanes_overlap ? (kRow - 6) / 2 : kRow - 6;
      const double top = y + 2 + (is_below ? height : 0);
      const std::string title = "step " + std::to_string(i) + ": " + Describe(steps[i]);
      if (at.begin > at.arrived) {
        picture_.Box(AtTime(at.arrived), top, AtTime(at.begin) - AtTime(at.arrived), height,
                     kWaitColor, "wait before " + title);
      }
      picture_.Box(AtTime(at.begin), top, AtTime(at.end) - AtTime(at.begin), height,
                   ColorOf(steps[i]), title);
    }
  }

  static const char* ColorOf(const plan::ProgramStep& step) {
    if (std::holds_alternative<plan::CallStep>(step.what)) return kCallColor;
    if (std::holds_alternative<plan::CollectiveStep>(step.what)) return kCollectiveColor;
    return kCopyColor;
  }

  std::string Describe(const plan::ProgramStep& step) const {
    const std::string where = ", " + file_.program().ops()[step.op].where;
    if (const auto* call = std::get_if<plan::CallStep>(&step.what)) {
      const auto& op = std::get<plan::CallOp>(file_.program().ops()[call->op].what);
      return file_.program().functions()[static_cast<size_t>(op.function)] + where;
    }
    if (const auto* collective = std::get_if<plan::CollectiveStep>(&step.what)) {
      return std::string(FactsOf(collective->kind).name) + " of " + ListRanks(collective->team) +
             where;
    }
    return (std::holds_alternative<plan::CopyStep>(step.what) ? "copy" : "fill") + where;
  }

  void DrawTimes(double y) {
    constexpr int kMarks = 5;
    for (int i = 0; i <= kMarks; ++i) {
      const double micros = end_ * i / kMarks;
      picture_.Line(AtTime(micros), kTop, AtTime(micros), y);
      picture_.Text(AtTime(micros), y + 14, i == 0 ? "0" : MicrosText(micros),
                    " text-anchor=\"middle\"");
    }
  }

  // Each buffer of the plan's memory: across, the steps while it is needed; down, where it lies.
  void DrawMemory(double y) {
    const plan::ProgramSteps& steps = ranks_.at(memory_of_);
    picture_.Text(kLeft, y - 12,
                  "Memory of rank " + std::to_string(memory_of_) + ": " +
                      RoundedSize(static_cast<uint64_t>(steps.arena_bytes)) + " for " +
                      text::Plural(steps.steps.size(), "step") +
                      " (#N: a buffer that is needed in between, and is no value's)",
                  " font-weight=\"bold\"");
    const auto count = static_cast<double>(std::max<size_t>(steps.steps.size(), 1));
    const auto bytes = static_cast<double>(std::max<int64_t>(steps.arena_bytes, 1));
    picture_.Line(kLeft, y, kLeft, y + kMapHeight);
    picture_.Line(kLeft, y + kMapHeight, kLeft + kWidth, y + kMapHeight);
    picture_.Text(8, y + 12, "offset 0");
    picture_.Text(kLeft, y + kMapHeight + 16, "step 0");
    picture_.Text(kLeft + kWidth, y + kMapHeight + 16, "step " + std::to_string(steps.steps.size()),
                  " text-anchor=\"end\"");
    // Neighbours are told apart.
    const char* const colors[] = {"#4e79a7", "#f28e2b", "#59a14f", "#b07aa1",
                                  "#76b7b2", "#e15759", "#9c755f", "#edc948"};
    const std::vector<Use> uses = UsesOf(steps);
    for (size_t i = 0; i < steps.buffers.size(); ++i) {
      const StepBuffer& buffer = steps.buffers[i];
      if (buffer.home != StepBuffer::Home::kArena || uses[i].first < 0) continue;
      const Use& use = uses[i];
      // An output is needed beyond the end. (Others may be kept for the other lane; the next step
      // of their own one may use their places before.)
      const bool is_kept = buffer.last_step == static_cast<int>(steps.steps.size());
      const double end = is_kept ? count : use.last + 1.0;
      const double x = kLeft + use.first / count * kWidth;
      const double width = (end - use.first) / count * kWidth;
      const double top = y + static_cast<double>(buffer.arena_offset) / bytes * kMapHeight;
      const double height = static_cast<double>(buffer.size_bytes()) / bytes * kMapHeight;
      const std::string name = BufferName(file_, static_cast<int>(i));
      picture_.Box(x, top, width, std::max(height, 1.0), colors[i % std::size(colors)],
                   name + ": " + RoundedSize(static_cast<uint64_t>(buffer.size_bytes())) +
                       ", steps " + std::to_string(use.first) + " to " +
                       (is_kept ? "the end" : std::to_string(use.last)));
      constexpr double kLetter = 7;
      if (height > 14 && width > kLetter * static_cast<double>(name.size())) {
        picture_.Text(x + 4, top + 13, name, " fill=\"#ffffff\"");
      }
    }
  }

  const PlanFile& file_;
  const Rank memory_of_;
  const std::map<Rank, plan::ProgramSteps> ranks_;
  Picture picture_;
  double end_ = 0;  // of the last step
};

}  // namespace

StatusOr<Drawing> DrawPlan(const PlanFile& file, Rank memory_of) {
  std::map<Rank, plan::ProgramSteps> ranks;
  const std::vector<Rank> all = file.program().Ranks();
  if (!std::binary_search(all.begin(), all.end(), memory_of)) {
    return InvalidArgument("rank ", memory_of, " has no part in the plan; it has ", ListRanks(all));
  }
  for (const Rank rank : all) ranks.emplace(rank, file.StepsOf(rank));
  std::vector<Rank> drawn = RanksAround(memory_of, all);
  std::string svg = PlanDrawer(file, memory_of, std::move(ranks)).Draw(drawn);
  return Drawing{std::move(svg), std::move(drawn), all.size(), memory_of};
}

std::string Describe(const Drawing& drawing) {
  return "steps of " + RanksText(drawing.ranks, drawing.all) + "; memory of rank " +
         std::to_string(drawing.memory_of);
}

}  // namespace lockstep::cli::plan_file
