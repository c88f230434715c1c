// Why a cluster does not go on, for people and for scripts.
#pragma once

#include <ostream>

#include "runtime/client/stall_diagnosis.h"
#include "tools/cli/value_text.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {

// Ranks that do the same are one entry, with the stacks that most of them have; with `each`, every
// rank has an entry of its own.
void PrintDiagnosis(std::ostream& out, const text::Style& style, const ClusterStatus& status,
                    const StallDiagnosis& diagnosis, bool each = false);
Json DiagnosisToJson(const ClusterStatus& status, const StallDiagnosis& diagnosis);

}  // namespace lockstep::cli
