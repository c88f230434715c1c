// One function per command, each in a file of its name: it adds itself to `lockstep`,
// and what shall happen when it is chosen.
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
void AddTop(Command lockstep);
void AddLogs(Command lockstep);
void AddCall(Command lockstep);
void AddRun(Command lockstep);
void AddTrace(Command lockstep);
void AddConfig(Command lockstep);
void AddKeys(Command lockstep);
void AddDoctor(Command lockstep);
void AddVersion(Command lockstep);

}  // namespace lockstep::cli
