#include "runtime/module/function.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace lockstep::module {

namespace {

// Levenshtein's distance: how many letters to insert, drop or replace.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
    }
  }
  return row.back();
}

}  // namespace

Function* FunctionIn(const registers::Value& value) {
  const auto* object = value.As<std::shared_ptr<registers::Object>>();
  if (object == nullptr || (*object)->kind() != registers::Object::Kind::kFunction) return nullptr;
  return static_cast<Function*>(object->get());
}

std::shared_ptr<Function> FunctionOf(const registers::Value& value) {
  Function* const function = FunctionIn(value);
  if (function == nullptr) return nullptr;
  return {*value.As<std::shared_ptr<registers::Object>>(), function};
}

Status FunctionTable::Add(std::shared_ptr<Function> function) {
  const std::string name = function->name();
  if (!functions_.emplace(name, std::move(function)).second) {
    return AlreadyExists("there is a function \"", name, "\" already");
  }
  return OkStatus();
}

StatusOr<std::shared_ptr<Function>> FunctionTable::Find(std::string_view name) const {
  const auto found = functions_.find(name);
  if (found != functions_.end()) return found->second;
  std::string hint;
  for (const std::string& near : NearestNames(name, Names())) {
    hint += (hint.empty() ? "; did you mean " : ", ") + near;
  }
  return NotFound("there is no function \"", name, "\"", hint);
}

std::vector<std::string> FunctionTable::Names() const {
  std::vector<std::string> names;
  names.reserve(functions_.size());
  for (const auto& [name, function] : functions_) names.push_back(name);
  return names;
}

std::vector<std::string> NearestNames(std::string_view name,
                                      const std::vector<std::string>& known) {
  // Names come from outside; what is that long is no slip of the keyboard.
  constexpr size_t kLongestName = 128;
  constexpr size_t kShown = 3;
  if (name.size() > kLongestName) return {};
  std::vector<std::pair<size_t, std::string>> near;
  for (const std::string& candidate : known) {
    size_t distance = EditDistance(name, candidate);
    // "cast" for "lockstep.cast": the last part alone was typed.
    if (const size_t dot = candidate.rfind('.'); dot != std::string::npos) {
      distance =
          std::min(distance, EditDistance(name, std::string_view(candidate).substr(dot + 1)) + 1);
    }
    if (distance <= std::max<size_t>(1, name.size() / 3)) near.emplace_back(distance, candidate);
  }
  std::sort(near.begin(), near.end());
  std::vector<std::string> names;
  for (size_t i = 0; i < near.size() && i < kShown; ++i) names.push_back(near[i].second);
  return names;
}

}  // namespace lockstep::module
