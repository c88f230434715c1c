// A cluster and its workers, for people and for scripts.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "runtime/client/admin.h"
#include "tools/cli/value_text.h"
#include "tools/text/table.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {

// "ready", "held up" (by the work of a session that has ended), "broken" or "joining".
text::Table::Cell StateCell(const ClusterStatus& status);
// "ready", "lost", "stuck", ...
text::Table::Cell StateCell(const WorkerStatus& worker);
uint64_t CountReady(const ClusterStatus& status);

// Which ranks still execute something of a session that has ended, for how long, and who tells what
// to do; none: new sessions wait for no such rank.
std::vector<std::string> EndedWork(const ClusterStatus& status);

void PrintCluster(std::ostream& out, const text::Style& style, const ClusterStatus& status,
                  const std::string& endpoint);
// Of many (kMostSingleWorkers), those that do the same are a line; with `each`, every one has one.
void PrintWorkers(std::ostream& out, const text::Style& style,
                  const std::vector<WorkerStatus>& workers, bool each = false);

Json ClusterToJson(const ClusterStatus& status, const std::string& endpoint);
Json WorkersToJson(const std::vector<WorkerStatus>& workers);

}  // namespace lockstep::cli
