#include "services/controller/common/dropped_messages.h"

#include <chrono>

namespace lockstep::controller {

std::string DroppedMessages::Note(const std::string& what, const std::string& place) {
  constexpr std::chrono::minutes kOnceIn{1};
  constexpr char kOthers[] = "other places";
  const TimePoint now = clock_.Now();
  const std::string from = place.empty() ? "a connection of which no address is known" : place;
  auto found = told_.find(from);
  if (found == told_.end()) {
    // What was silent for a while has nothing left to tell, or never will.
    std::erase_if(told_, [&](const auto& told) { return now - told.second.at >= 2 * kOnceIn; });
    const bool has_room = told_.size() < kMostPlaces;
    found = told_.try_emplace(has_room ? from : kOthers, Told{now - kOnceIn, 0}).first;
  }
  Told& told = found->second;
  if (now - told.at < kOnceIn) {
    ++told.left_out;
    return "";
  }
  std::string line = what + "; it came from " + found->first;
  if (told.left_out > 0) {
    line += ", as did " + std::to_string(told.left_out) + " more since the last line about it";
  }
  told = {now, 0};
  return line;
}

}  // namespace lockstep::controller
