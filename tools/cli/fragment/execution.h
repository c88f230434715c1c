// One run of `lockstep execute`: a fragment is compiled, its inputs are placed, it is called, and
// its results are brought back.
#pragma once

#include <chrono>
#include <optional>
#include <variant>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/client/session.h"
#include "runtime/control/value.h"
#include "runtime/fragment/fragment.h"
#include "runtime/fragment/load.h"
#include "runtime/fragment/placed_call.h"
#include "runtime/plan/layout.h"
#include "tools/cli/fragment/words.h"
#include "tools/cli/value_text.h"

namespace lockstep::cli {

struct ExecuteRequest {
  fragment::Fragment fragment;
  std::vector<GivenInput> inputs;
  // None: what each worker has of each result.
  std::vector<GivenOutput> outputs;
  int times = 1;
};

struct ExecutedResult {
  GivenOutput output;
  std::optional<plan::Layout> layout;  // none: each worker has its own
  // Whole, or of each rank.
  std::variant<HostTensor, std::vector<RankValue>> value;

  // Null: each worker has its own.
  const HostTensor* whole() const { return std::get_if<HostTensor>(&value); }
};

struct Execution {
  using Microseconds = std::chrono::microseconds;

  fragment::PlacedCall call;
  std::vector<GivenInput> inputs;  // in the order of the arguments
  std::vector<ExecutedResult> results = {};
  std::vector<fragment::Load> loads = {};  // of each rank
  Microseconds compiling{0};
  Microseconds placing{0};
  std::vector<Microseconds> executing = {};  // of each time
  Microseconds collecting{0};
};

// Draws its progress on standard error, if that is a terminal. Exit code 2 if the fragment or the
// call of it is wrong: then nothing was executed.
StatusOr<Execution> Execute(Session& session, ExecuteRequest request);

}  // namespace lockstep::cli
