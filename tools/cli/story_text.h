// Why a cluster does not go on, for people and for scripts.
#pragma once

#include <ostream>

#include "runtime/client/story.h"
#include "tools/cli/output.h"
#include "tools/cli/value_text.h"

namespace lockstep::cli {

void PrintStory(std::ostream& out, const Style& style, const ClusterStatus& status,
                const ClusterStory& story);
Json StoryToJson(const ClusterStatus& status, const ClusterStory& story);

}  // namespace lockstep::cli
