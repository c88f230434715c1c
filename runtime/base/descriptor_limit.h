// How many descriptors a process may open.
#pragma once

#include <cstdint>

namespace lockstep {

// More are not asked for, however many the machine would give: where the hard limit is a thousand
// million, as in many containers, programs that look at every descriptor they could have, such as
// those that close all before they start another, take minutes.
inline constexpr uint64_t kMostDescriptors = 65'536;

// The soft limit that RaiseDescriptorLimit() makes of these two.
constexpr uint64_t RaisedDescriptorLimit(uint64_t soft, uint64_t hard) {
  const uint64_t most = hard < kMostDescriptors ? hard : kMostDescriptors;
  return soft < most ? most : soft;
}

// Raises this process's soft limit to the hard one, at most to kMostDescriptors; never lowers it.
// The usual 1024 is there for programs that call select(), which cannot name a higher descriptor;
// nothing of ours does. To be called before other threads exist. What the process starts inherits
// it.
void RaiseDescriptorLimit();

}  // namespace lockstep
