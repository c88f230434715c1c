// Why a cluster does not go on, for people and for scripts.
#pragma once

#include <ostream>

#include "runtime/client/story.h"
#include "tools/cli/value_text.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {

void PrintStory(std::ostream& out, const text::Style& style, const ClusterStatus& status,
                const ClusterStory& story);
Json StoryToJson(const ClusterStatus& status, const ClusterStory& story);

}  // namespace lockstep::cli
