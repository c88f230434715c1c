#include "tools/cli/fragment/explanation.h"

#include <algorithm>
#include <chrono>
#include <sstream>

#include "absl/strings/str_join.h"
#include "runtime/base/quantity.h"
#include "runtime/base/rank_text.h"
#include "tools/text/table.h"

namespace lockstep::cli {
namespace {

using text::Table;

uint64_t BytesOf(const Shape& shape, DType dtype) {
  return static_cast<uint64_t>(shape.NumElements()) * SizeOf(dtype);
}

// What all but worker-0 have of it.
uint64_t BytesElsewhere(const plan::Layout& layout) {
  uint64_t bytes = 0;
  for (int index = 0; index < layout.mesh().size(); ++index) {
    if (layout.mesh().RankAt(index) == 0) continue;
    bytes += BytesOf(layout.TileAt(index).extents, layout.dtype());
  }
  return bytes;
}

std::string Text(const Shape& shape) {
  std::ostringstream text;
  text << shape;
  return text.str();
}

// "float64 [10, 4]", or the number.
std::string GivenText(const GivenInput& input) {
  if (input.tensor() == nullptr) return input.text;
  return std::string(Name(input.tensor()->dtype)) + " " + Text(input.tensor()->shape);
}

std::vector<Rank> RanksOf(const std::vector<fragment::Load>& loads, fragment::Origin origin) {
  std::vector<Rank> ranks;
  for (const fragment::Load& load : loads) {
    if (load.origin == origin) ranks.push_back(load.rank);
  }
  return ranks;
}

std::string NameOf(const GivenInput& input, size_t place) {
  return input.name.empty() ? std::to_string(place) : input.name;
}

void Head(std::ostream& out, const text::Style& style, const std::string& text) {
  out << '\n' << style.Paint(text::Tint::kBold, text) << '\n';
}

void PrintParts(std::ostream& out, const text::Style& style, const Execution& execution) {
  Head(out, style, "What each rank gets");
  Table table({{"ARGUMENT"},
               {"TYPE"},
               {"GIVEN"},
               {"SPLIT"},
               {"RANKS"},
               {"PART"},
               {"BYTES", Table::Align::kRight}});
  for (size_t i = 0; i < execution.inputs.size(); ++i) {
    const GivenInput& input = execution.inputs[i];
    const std::string type = execution.call.signature().arguments[i].type.ToString();
    if (input.tensor() == nullptr) {
      table.AddRow({NameOf(input, i), type, GivenText(input), "", "all", "", ""});
      continue;
    }
    bool is_first = true;
    for (const SharedPart& part : PartsOf(*execution.call.ArgumentLayout(static_cast<int>(i)))) {
      table.AddRow({is_first ? NameOf(input, i) : "", is_first ? type : "",
                    is_first ? GivenText(input) : "",
                    is_first ? std::string(Name(input.split)) : "", RankRanges(part.ranks),
                    Text(part.shape), RoundedSize(BytesOf(part.shape, input.tensor()->dtype))});
      is_first = false;
    }
  }
  table.Print(out, style, 2);
  std::vector<Rank> idle;
  for (int index = 0; index < execution.call.workers().size(); ++index) {
    if (!execution.call.Calls(index)) idle.push_back(execution.call.workers().RankAt(index));
  }
  if (!idle.empty()) out << "  " << ListRanks(idle) << " without a part: not called there\n";
}

void PrintResults(std::ostream& out, const text::Style& style, const Execution& execution) {
  Head(out, style, "What they make");
  Table table({{"RESULT"}, {"COMBINE"}, {"LAYOUT"}});
  for (const ExecutedResult& result : execution.results) {
    table.AddRow({result.output.name, std::string(Name(result.output.combine)),
                  result.layout.has_value() ? LayoutText(*result.layout) : "each has its own"});
  }
  table.Print(out, style, 2);
}

void PrintMoves(std::ostream& out, const text::Style& style, const Execution& execution) {
  Head(out, style, "What moves, at least");
  Table table({{"WHEN"},
               {"WHAT"},
               {"CLIENT", Table::Align::kRight},
               {"BETWEEN WORKERS", Table::Align::kRight}});
  for (size_t i = 0; i < execution.inputs.size(); ++i) {
    if (execution.inputs[i].tensor() == nullptr) continue;
    const Movement moves = PlacingMoves(*execution.call.ArgumentLayout(static_cast<int>(i)));
    table.AddRow({"placed once", NameOf(execution.inputs[i], i), RoundedSize(moves.client),
                  RoundedSize(moves.workers)});
  }
  table.AddRow({"each call", "numbers only", "0 B", "0 B"});
  for (const ExecutedResult& result : execution.results) {
    const Movement moves = CollectingMoves(result);
    table.AddRow(
        {"collected", result.output.name, RoundedSize(moves.client), RoundedSize(moves.workers)});
  }
  table.Print(out, style, 2);
}

}  // namespace

std::vector<SharedPart> PartsOf(const plan::Layout& layout) {
  std::vector<SharedPart> parts;
  for (int index = 0; index < layout.mesh().size(); ++index) {
    const Shape shape = layout.TileAt(index).extents;
    auto part = std::find_if(parts.begin(), parts.end(),
                             [&](const SharedPart& one) { return one.shape == shape; });
    if (part == parts.end()) part = parts.insert(parts.end(), {{}, shape});
    part->ranks.push_back(layout.mesh().RankAt(index));
  }
  return parts;
}

Movement PlacingMoves(const plan::Layout& layout) {
  return {BytesOf(layout.shape(), layout.dtype()), BytesElsewhere(layout)};
}

Movement CollectingMoves(const ExecutedResult& result) {
  Movement moves;
  if (const HostTensor* whole = result.whole()) {
    moves.client = whole->data.size();
    const plan::Placement& placement = result.layout->placement(0);
    // What is the same everywhere is on worker-0.
    if (placement.is_shard() || placement.is_partial()) {
      moves.workers = BytesElsewhere(*result.layout);
    }
    return moves;
  }
  for (const RankValue& one : std::get<std::vector<RankValue>>(result.value)) {
    if (const auto* tensor = one.value.As<HostTensor>()) moves.client += tensor->data.size();
  }
  return moves;
}

std::string LayoutText(const plan::Layout& layout) {
  std::string placements;
  for (const plan::Placement& placement : layout.placements()) {
    placements += (placements.empty() ? "" : ", ") + placement.ToString();
  }
  return std::string(Name(layout.dtype())) + Text(layout.shape()) + " " + placements + " on " +
         RankRanges(layout.mesh().SortedRanks());
}

std::string LoadsText(const std::vector<fragment::Load>& loads) {
  std::vector<std::string> parts;
  for (const fragment::Load& load : loads) {
    if (load.origin != fragment::Origin::kCompiler) continue;
    const auto took = std::chrono::ceil<std::chrono::milliseconds>(load.compiling);
    parts.push_back("compiled by rank " + std::to_string(load.rank) + " in " +
                    RoundedDuration(took));
  }
  const auto add = [&](const char* what, fragment::Origin origin) {
    const std::vector<Rank> ranks = RanksOf(loads, origin);
    if (!ranks.empty()) parts.push_back(what + RankRanges(ranks));
  };
  add("found on disk by ", fragment::Origin::kDisk);
  add("found in memory by ", fragment::Origin::kMemory);
  add("a function of a module of ", fragment::Origin::kModule);
  return absl::StrJoin(parts, "; ");
}

void Explain(std::ostream& out, const text::Style& style, const Execution& execution) {
  out << text::Printable(execution.call.signature().ToString()) << '\n';
  out << LoadsText(execution.loads) << '\n';
  PrintParts(out, style, execution);
  PrintResults(out, style, execution);
  PrintMoves(out, style, execution);
  out << '\n';
}

Json ExplanationToJson(const Execution& execution) {
  const auto moves_of = [](const Movement& moves) {
    return Json{{"client_bytes", moves.client}, {"workers_bytes", moves.workers}};
  };
  Json arguments = Json::array();
  for (size_t i = 0; i < execution.inputs.size(); ++i) {
    const GivenInput& input = execution.inputs[i];
    Json argument{{"name", NameOf(input, i)},
                  {"type", execution.call.signature().arguments[i].type.ToString()},
                  {"given", input.text}};
    if (input.tensor() != nullptr) {
      const plan::Layout& layout = *execution.call.ArgumentLayout(static_cast<int>(i));
      argument["split"] = Name(input.split);
      argument["layout"] = layout.ToString();
      Json parts = Json::array();
      for (const SharedPart& part : PartsOf(layout)) {
        parts.push_back(
            {{"ranks", part.ranks},
             {"shape", std::vector<int64_t>(part.shape.dims().begin(), part.shape.dims().end())}});
      }
      argument["parts"] = std::move(parts);
      argument["placing"] = moves_of(PlacingMoves(layout));
    }
    arguments.push_back(std::move(argument));
  }
  Json results = Json::array();
  for (const ExecutedResult& result : execution.results) {
    results.push_back(
        {{"name", result.output.name},
         {"combine", Name(result.output.combine)},
         {"layout", result.layout.has_value() ? Json(result.layout->ToString()) : Json(nullptr)},
         {"collecting", moves_of(CollectingMoves(result))}});
  }
  Json compiled = Json::array();
  for (const fragment::Load& load : execution.loads) {
    if (load.origin != fragment::Origin::kCompiler) continue;
    compiled.push_back({{"rank", load.rank}, {"microseconds", load.compiling.count()}});
  }
  return {{"signature", execution.call.signature().ToString()},
          {"compiled", std::move(compiled)},
          {"found_on_disk", RanksOf(execution.loads, fragment::Origin::kDisk)},
          {"found_in_memory", RanksOf(execution.loads, fragment::Origin::kMemory)},
          {"arguments", std::move(arguments)},
          {"results", std::move(results)}};
}

}  // namespace lockstep::cli
