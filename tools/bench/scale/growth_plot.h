// Curves as a picture that browsers and documents show.
#pragma once

#include <string>

#include "runtime/base/status.h"
#include "tools/bench/scale/growth.h"

namespace lockstep::bench {

// A panel for each curve, with both axes in powers: a power law is a straight line, whose exponent
// is its slope. Points are what was measured, the line is the law nearest to them from kManyWorkers
// on, or of all points where there are fewer than three of those.
std::string GrowthSvg(const Growth& growth);

// The same in a file. kUnavailable: it cannot be written.
Status DrawGrowth(const Growth& growth, const std::string& path);

}  // namespace lockstep::bench
