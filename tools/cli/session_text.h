// Sessions, for people and for scripts.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "runtime/client/admin.h"
#include "tools/cli/value_text.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {

// "open", "failed", "closing", "detached", "orphaned", "failed, detached", ...
std::string StateOf(const SessionStatus& session);
text::Tint TintOf(const SessionStatus& session);
// What was sent and the slowest worker has not executed.
uint64_t UnderWay(const SessionStatus& session);

void PrintSessions(std::ostream& out, const text::Style& style,
                   const std::vector<SessionStatus>& sessions);
// With what each holds, as the ranks have told.
void PrintSessionDetails(std::ostream& out, const text::Style& style,
                         const std::vector<SessionStatus>& sessions,
                         const std::vector<RankRegisters>& ranks);

Json SessionToJson(const SessionStatus& session);
// The same, and what it holds on each rank that has told.
Json SessionDetailsToJson(const std::vector<SessionStatus>& sessions,
                          const std::vector<RankRegisters>& ranks);

}  // namespace lockstep::cli
