#include "services/worker/execute/inputs_apart.h"

#include <algorithm>
#include <cstddef>

namespace lockstep::worker {
namespace {

const std::byte* BeginOf(const PlacedInput& input) { return input.tensor->data_as<std::byte>(); }

// Of inputs that begin before another one: the one that ends last.
struct Reach {
  const PlacedInput* input = nullptr;
  const std::byte* end = nullptr;

  void Add(const PlacedInput& other) {
    const std::byte* const other_end = BeginOf(other) + other.tensor->size_bytes();
    if (other_end > end) *this = {&other, other_end};
  }
};

}  // namespace

Status CheckApart(const std::vector<PlacedInput>& inputs) {
  std::vector<const PlacedInput*> by_address;
  for (const PlacedInput& input : inputs) {
    if (input.tensor->size_bytes() == 0) continue;
    if (input.is_in_arena) {
      return InvalidArgument("input \"", input.name, "\" (register ", input.id,
                             ") lies in the plan's own memory, where each execution writes its "
                             "outputs; give it a copy (lockstep.copy)");
    }
    by_address.push_back(&input);
  }
  std::sort(by_address.begin(), by_address.end(),
            [](const auto* a, const auto* b) { return BeginOf(*a) < BeginOf(*b); });
  Reach any;
  Reach written;
  for (const PlacedInput* const input : by_address) {
    const Reach& before = input->is_written ? any : written;
    if (before.input != nullptr && BeginOf(*input) < before.end) {
      // As the program has them.
      const PlacedInput* const first = std::min(before.input, input);
      const PlacedInput* const second = std::max(before.input, input);
      return InvalidArgument("inputs \"", first->name, "\" and \"", second->name,
                             "\" share memory (registers ", first->id, " and ", second->id,
                             "), and the program writes to one of them; give it a copy "
                             "(lockstep.copy)");
    }
    any.Add(*input);
    if (input->is_written) written.Add(*input);
  }
  return OkStatus();
}

}  // namespace lockstep::worker
