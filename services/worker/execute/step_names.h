// What errors and timelines call the steps of a plan.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "runtime/plan/steps/program_steps.h"
#include "services/worker/execute/prepared_program.h"
#include "services/worker/gpu/in_flight.h"

namespace lockstep::worker {

// "call", "copy", "fill", or the collective's name.
const char* KindOf(const plan::ProgramStep& step);

// Keeps the program, which may outlive the plan: what it has put on a GPU is named later.
//
// Threads: any.
class PlanStepNames final : public StepNames {
 public:
  explicit PlanStepNames(std::shared_ptr<const PreparedProgram> prepared)
      : prepared_(std::move(prepared)) {}

  // Empty where nobody wrote the program: it is all of a command.
  std::string NameOf(size_t first, size_t last) const override;
  std::string PlaceOf(size_t first, size_t last) const override;
  const std::string& PlaceOf(size_t step) const;

 private:
  const std::shared_ptr<const PreparedProgram> prepared_;
};

}  // namespace lockstep::worker
