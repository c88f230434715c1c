// What a plan is, for people: what the passes did, what moves and how that compares with the least
// that can, the steps of a rank, and where its memory goes.
#pragma once

#include <ostream>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "tools/cli/plan/plan_file.h"
#include "tools/text/terminal.h"

namespace lockstep::cli::plan_file {

// Of a plan, without its steps: passes, reshards, memory of all ranks.
Status ExplainPlan(std::ostream& out, const text::Style& style, const PlanFile& file);

// The steps of one rank, and its buffers.
Status ExplainRank(std::ostream& out, const text::Style& style, const PlanFile& file, Rank rank);

// The program, and what it is lowered to, as plain text (runtime/plan/program_text.h).
void PrintProgram(std::ostream& out, const PlanFile& file);

// Runs the collectives, copies and fills of all ranks on this thread (calls do nothing):
// kFailedPrecondition if ranks would wait for each other in a circle.
Status SimulatePlan(std::ostream& out, const PlanFile& file);

}  // namespace lockstep::cli::plan_file
