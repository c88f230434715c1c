#include "tools/cli/plan/plan_fragment.h"

#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>
#include <variant>

#include "runtime/base/dtype.h"
#include "runtime/base/shape.h"
#include "runtime/fragment/signature.h"
#include "tools/cli/program/step_reader.h"

namespace lockstep::cli::plan_file {
namespace {

// Of {as: y, combine: rows, shape: [64], dtype: f64}.
std::optional<NamedOutput> ReadResult(const YAML::Node& node, const std::string& title,
                                      PlanContext& context) {
  if (!node.IsMap()) {
    context.Report(node, title,
                   "results: expected maps, as in {as: y, combine: rows, shape: [64]}");
    return std::nullopt;
  }
  context.CheckKeys(node, title + ": results", {"as", "combine", "shape", "dtype"});
  NamedOutput result{ScalarOf(node["as"]), {}};
  if (!program::IsRegisterName(result.name)) {
    context.Report(node, title, "as: " + program::WhyNoName(result.name));
    return std::nullopt;
  }
  const std::string combine = node["combine"].IsDefined() ? ScalarOf(node["combine"]) : "none";
  const auto by = context.Check(node, title, fragment::ParseCombine(combine));
  const std::string dtype_name = node["dtype"].IsDefined() ? ScalarOf(node["dtype"]) : "f32";
  const auto dtype = context.Check(node, title, ParseDType(dtype_name));
  std::vector<int64_t> extents;
  try {
    extents = node["shape"].as<std::vector<int64_t>>();
  } catch (const YAML::Exception&) {
    context.Report(node, title,
                   "shape: expected the extents of the whole result, as in [64, 32]: only workers "
                   "compile a fragment");
    return std::nullopt;
  }
  if (extents.size() > static_cast<size_t>(Shape::kMaxDims)) {
    context.Report(node, title,
                   "shape: at most " + std::to_string(Shape::kMaxDims) + " dimensions");
    return std::nullopt;
  }
  if (!by.has_value() || !dtype.has_value()) return std::nullopt;
  result.output = {*by, Shape(absl::MakeConstSpan(extents)), dtype};
  return result;
}

DType OwnDType(const plan::Literal& number) {
  if (std::holds_alternative<bool>(number)) return DType::kBool;
  return std::holds_alternative<int64_t>(number) ? DType::kInt64 : DType::kFloat64;
}

}  // namespace

std::optional<StatusOr<SplitValue>> ReadSplit(std::string_view text) {
  const size_t dollar = text.find('$');
  if (dollar == 0) return SplitValue{std::string(text.substr(1)), fragment::Split::kNone};
  if (dollar == std::string_view::npos || text[dollar - 1] != ' ') return std::nullopt;
  const std::string_view before = text.substr(0, dollar - 1);
  // As calls of functions have them: what follows is a value, and no split.
  if (before == "write" || before == "update") return std::nullopt;
  const StatusOr<fragment::Split> split = fragment::ParseSplit(before);
  if (!split.ok()) return split.status();
  return SplitValue{std::string(text.substr(dollar + 1)), *split};
}

std::optional<std::vector<NamedOutput>> ReadFragmentResults(const YAML::Node& step,
                                                            const std::string& title,
                                                            PlanContext& context) {
  const YAML::Node node = step["results"];
  if (!node.IsDefined() || !node.IsSequence() || node.size() == 0) {
    context.Report(node.IsDefined() ? node : step, title,
                   "results: expected a list, as in [{as: y, combine: rows, shape: [64]}]");
    return std::nullopt;
  }
  std::vector<NamedOutput> results;
  bool is_good = true;
  for (const YAML::Node& item : node) {
    auto result = ReadResult(item, title, context);
    is_good = is_good && result.has_value();
    if (result.has_value()) {
      results.push_back(*std::move(result));
    } else if (item.IsMap()) {
      context.NoteUnread(ScalarOf(item["as"]));
    }
  }
  if (is_good) return results;
  for (const NamedOutput& result : results) context.NoteUnread(result.name);
  return std::nullopt;
}

std::optional<std::string> FindFragmentFile(const YAML::Node& node, PlanContext& context) {
  const std::string name = ScalarOf(node);
  if (name.empty()) {
    context.Report(node, "fragment", "expected the path of a file, as in \"fragment: scale.mlir\"");
    return std::nullopt;
  }
  const std::filesystem::path path = std::filesystem::path(context.file().directory) / name;
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored)) return path.string();
  context.Report(node, name, "there is no file " + path.string());
  return std::nullopt;
}

StatusOr<fragment::PlanCall> CallAsStated(plan::ProgramBuilder& program, const std::string& name,
                                          const std::vector<Rank>& workers,
                                          absl::Span<const fragment::PlanInput> inputs,
                                          const std::vector<fragment::Output>& outputs,
                                          plan::SourceLine where) {
  std::vector<fragment::Input> given;
  for (const fragment::PlanInput& input : inputs) {
    if (input.value() == nullptr) {
      given.push_back({OwnDType(*input.number()), {}});
      continue;
    }
    const plan::Layout layout = program.LayoutOf(*input.value());
    given.push_back({layout.dtype(), layout.shape()});
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const fragment::Signature stated,
                            fragment::SignatureOfFunction(name, given, outputs));
  return fragment::CallFragment(program, name, stated, workers, inputs, outputs, where);
}

}  // namespace lockstep::cli::plan_file
