// Why a cluster does not go on, for people and for scripts.
#pragma once

#include <ostream>

#include "runtime/client/story.h"
#include "tools/cli/value_text.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {

void PrintDiagnosis(std::ostream& out, const text::Style& style, const ClusterStatus& status,
                    const ClusterStory& diagnosis);
Json DiagnosisToJson(const ClusterStatus& status, const ClusterStory& diagnosis);

}  // namespace lockstep::cli
