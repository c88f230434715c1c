// What docs/fragments.md begins with, and what docs/plans.md says of fragments, in a program of a
// reader's: check.sh puts the pages' own lines into the two files that are included in functions.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "runtime/client/session.h"
#include "runtime/fragment/plan_call.h"

using namespace lockstep;
using namespace lockstep::fragment;

Status Print(const char* title, const StatusOr<HostTensor>& tensor) {
  LOCKSTEP_RETURN_IF_ERROR(tensor.status());
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<double> elements, tensor->Elements<double>());
  std::printf("%s:", title);
  for (const double element : elements) std::printf(" %g", element);
  std::printf("\n");
  return OkStatus();
}

Status Run() {
  SessionOptions options;
  options.endpoint = std::getenv("LOCKSTEP_ENDPOINT");
  LOCKSTEP_ASSIGN_OR_RETURN(Session session, Session::Connect(options));
  const HostTensor tensor = HostTensor::Of<double>({10}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef x_register, session.Place(tensor, Split::kRows));
  const DRef& x = x_register;
#include "fragments_page.inc"
  LOCKSTEP_RETURN_IF_ERROR(y.status());
  LOCKSTEP_RETURN_IF_ERROR(Print("called", whole));

  const auto in_a_plan = [&]() -> Status {
    LOCKSTEP_ASSIGN_OR_RETURN(const plan::Layout rows, session.LayoutOf(x_register));
    plan::ProgramBuilder program;
    const plan::ValueId x = program.Input("x", rows);
#include "plans_page.inc"
    LOCKSTEP_ASSIGN_OR_RETURN(const DRef result, plan.Output("y"));
    LOCKSTEP_RETURN_IF_ERROR(plan.Execute());
    return Print("in a plan", session.Collect(result));
  };
  LOCKSTEP_RETURN_IF_ERROR(in_a_plan());
  return session.Close();
}

int main() {
  const Status status = Run();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
