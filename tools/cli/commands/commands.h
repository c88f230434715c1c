// One function per command, in a file of its name, or in views.cc: it adds the command to
// `lockstep`, and what happens when it is chosen.
#pragma once

#include "tools/cli/command_line.h"

namespace lockstep::cli {

void AddUp(Command lockstep);
void AddDown(Command lockstep);
void AddStatus(Command lockstep);
void AddWorkers(Command lockstep);
void AddWhy(Command lockstep);
void AddSessions(Command lockstep);
void AddRegisters(Command lockstep);
void AddPlan(Command lockstep);
void AddPlanAnalyze(Command plan);  // below `plan`
void AddTop(Command lockstep);
void AddLogs(Command lockstep);
void AddCall(Command lockstep);
void AddExecute(Command lockstep);
void AddRun(Command lockstep);
void AddTrace(Command lockstep);
void AddConfig(Command lockstep);
void AddKeys(Command lockstep);
void AddDoctor(Command lockstep);
void AddVersion(Command lockstep);
void AddCompletion(Command lockstep);
void AddHelp(Command lockstep);

}  // namespace lockstep::cli
