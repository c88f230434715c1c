#include "tests/integration/examples/program.h"

#include <atomic>
#include <chrono>

#include "examples/support/find_file.h"
#include "runtime/base/child_process.h"
#include "runtime/base/deadline.h"

namespace lockstep::examples {

StatusOr<ProgramResult> RunProgram(const ScratchDirectory& scratch, const std::string& repo_path,
                                   const std::vector<std::string>& arguments) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string program, FindFile(repo_path));
  static std::atomic<int> runs = 0;
  ChildOptions options;
  options.argv = {program};
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  options.environment = {"XDG_RUNTIME_DIR=" + scratch.path()};
  options.log_path = scratch.File("output-" + std::to_string(runs++));
  LOCKSTEP_ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Spawn(options));
  const auto exit = child.Wait(Deadline::After(std::chrono::minutes(2)));
  ProgramResult result;
  result.output = ReadFile(options.log_path);
  if (!exit.ok()) return Annotate(exit.status(), program + " printed '" + result.output + "'");
  if (exit->signal != 0) {
    return Internal(program, " ", exit->Describe(), "; it printed '", result.output, "'");
  }
  result.exit_code = exit->code;
  return result;
}

}  // namespace lockstep::examples
