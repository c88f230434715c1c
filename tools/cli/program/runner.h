// Executes a checked program on a session.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/client/session.h"
#include "tools/cli/program/placement.h"
#include "tools/cli/program/program.h"
#include "tools/cli/value_text.h"

namespace lockstep::cli::program {

// How one `expect` ended.
struct Verdict {
  struct Failure {
    Rank rank = 0;
    std::string difference;
  };
  std::vector<Failure> failures;  // empty: it holds
};

// Is told what happens, on the runner's thread.
class Observer {
 public:
  virtual ~Observer() = default;
  // `step` is about to be executed, after `done` others.
  virtual void OnStep(const Step& step, uint64_t done) = 0;
  virtual void OnPrint(const Step& step, const std::string& label,
                       const std::vector<RankValue>& values) = 0;
  virtual void OnVerdict(const Step& step, const Verdict& verdict) = 0;
};

// Threads: one. Ownership: borrows all three.
class Runner {
 public:
  Runner(Session& session, const Program& program, Observer& observer);

  // Executes all steps, each to its end before the next one begins, so that an error is known to
  // belong to its step. Stops at the first error: "FILE:LINE: step 3 (allreduce x): ...".
  // An expectation that fails is no error; the observer counts them.
  Status Run();

 private:
  struct Register {
    DRef ref;
    RankSet where;  // the ranks on which it holds a value
  };

  Status RunAll(const std::vector<Step>& steps);
  Status RunOne(const Step& step);

  Status Execute(const Step& step, const LoadStep& load);
  Status Execute(const Step& step, const EmptyStep& empty);
  Status Execute(const Step& step, const ValuesStep& values);
  Status Execute(const Step& step, const CallStep& call);
  Status Execute(const Step& step, const CollectiveStep& collective);
  Status Execute(const Step& step, const SetStep& set);
  Status Execute(const Step& step, const FreeStep& free);
  Status Execute(const Step& step, const SyncStep& sync);
  Status Execute(const Step& step, const PrintStep& print);
  Status Execute(const Step& step, const ExpectStep& expect);
  Status Execute(const Step& step, const ExecuteStep& execute);
  Status Execute(const Step& step, const RepeatStep& repeat);

  const Register& Find(const std::string& name) const { return registers_.at(name); }
  void Make(const Step& step, DRef ref, RankSet where);
  // `module`: a register that holds one; empty: a built-in function.
  StatusOr<DRef> Function(const std::string& module, const std::string& function);
  // That of the file, compiled once.
  StatusOr<CompiledFragment> FragmentIn(const std::string& path);
  StatusOr<BoundPlan> BindPlan(const ExecuteStep& execute);
  // The values of `source` on the chosen ranks.
  StatusOr<std::vector<RankValue>> ReadValues(const std::string& source, const RankChoice& ranks);

  Session& session_;
  const Program& program_;
  Observer& observer_;
  const RankLayout layout_;
  uint64_t done_ = 0;
  std::map<std::string, Register> registers_;
  // By module's register (0: none) and name, so that loops ask once.
  std::map<std::pair<uint64_t, std::string>, DRef> functions_;
  std::map<std::string, CompiledFragment> fragments_;  // by path
  // By step, so that loops bind once as long as the registers are the same.
  struct BoundStep {
    std::vector<DRef> registers;
    BoundPlan plan;
  };
  std::map<const ExecuteStep*, BoundStep> plans_;
};

// Issues one collective. `source` and `destination` are null where the step names none.
StatusOr<DRef> IssueCollective(Session& session, const CollectiveStep& step, const DRef& source,
                               const DRef& destination);

}  // namespace lockstep::cli::program
