// Values as people and scripts read them.
#pragma once

#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "runtime/base/ids.h"
#include "runtime/control/value.h"

namespace lockstep::cli {

using Json = nlohmann::ordered_json;

// As it is printed: indented, without a line's end. Names and texts may come from anywhere: what is
// no UTF-8 in them is replaced by U+FFFD.
std::string ToText(const Json& json);

// "float32 [2, 3] {{1, 2, 3}, {4, 5, 6}}", "\"text\"", "none"; of a tensor the first
// `max_elements` elements.
std::string Render(const Value& value, int max_elements = 64);

// Scalars, text, lists and maps as JSON's own; what JSON lacks as an object with one key that names
// the type: {"bytes": "00ff"}, {"dtype": "float32"}, {"device": "cpu:0"}, {"shape": [2, 3]},
// {"tensor": {"dtype": ..., "shape": [...], "data": [...]}}, {"object": "..."}. Tensors' data are
// flat and whole. Numbers that JSON lacks are the texts "nan", "inf", "-inf".
Json ToJson(const Value& value);

struct RankValue {
  Rank rank = 0;
  Value value;
};

// Ranks with one and the same value, so that it is shown once.
struct SharedValue {
  std::vector<Rank> ranks;
  const Value* value;
};

// In order of the first rank. Borrows from `values`.
std::vector<SharedValue> GroupEqual(const std::vector<RankValue>& values);

// [{"rank": 0, "value": ...}, ...]
Json ToJson(const std::vector<RankValue>& values);

}  // namespace lockstep::cli
