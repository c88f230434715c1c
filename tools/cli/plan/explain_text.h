// What a plan is, for people.
#pragma once

#include <ostream>
#include <string>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "tools/cli/plan/plan_file.h"
#include "tools/text/terminal.h"

namespace lockstep::cli::plan_file {

// "2.5 us", "153 us", "22.2 ms", "1.23 s"
std::string MicrosText(double micros);

// Of a plan, without its steps: passes, reshards, memory of all ranks.
Status ExplainPlan(std::ostream& out, const text::Style& style, const PlanFile& file);

// The steps of one rank, and its buffers.
Status ExplainRank(std::ostream& out, const text::Style& style, const PlanFile& file, Rank rank);

// The program, and what it is lowered to, as plain text (runtime/plan/passes/program_text.h).
void PrintProgram(std::ostream& out, const PlanFile& file);

// The errors of RunSimulation().
Status SimulatePlan(std::ostream& out, const PlanFile& file);

}  // namespace lockstep::cli::plan_file
