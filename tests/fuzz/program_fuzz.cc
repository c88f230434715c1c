// A program file of `lockstep run`: read, and checked on several worlds.
#include <cstdint>
#include <string>

#include "services/config/problems.h"
#include "tests/fuzz/targets.h"
#include "tools/cli/program/check.h"
#include "tools/cli/program/parse.h"

namespace lockstep::fuzz {

void ReadProgram(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  // Files that it names are read as well, as far as they would be there.
  constexpr char kNoFolder[] = "/nonexistent/folder";
  config::Problems problems;
  const auto program = cli::program::ParseProgram(text, "program.yaml", kNoFolder, problems);
  (void)problems.ToStatus();
  (void)program.NumExecuted();
  for (const int workers : {0, 1, 4}) (void)cli::program::CheckProgram(program, workers);
}

}  // namespace lockstep::fuzz
