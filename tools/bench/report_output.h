// The report as a table for people and as JSON for scripts.
#pragma once

#include <ostream>
#include <string>

#include "runtime/base/status.h"
#include "tools/bench/machine.h"
#include "tools/bench/report.h"

namespace lockstep::bench {

void PrintHeader(std::ostream& out, const Machine& machine);
void PrintTable(std::ostream& out, const Report& report);

// docs/performance.md describes the format.
Status WriteJson(const std::string& path, const Machine& machine, const Report& report);

}  // namespace lockstep::bench
