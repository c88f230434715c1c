// A client's random program, and what its registers must hold.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/client/session.h"

namespace lockstep::chaos {

using Random = std::mt19937_64;

// A number in [first, last].
int64_t Between(Random& random, int64_t first, int64_t last);

// Issues commands to one session and keeps a model of every register: int64 tensors, all elements
// of which are one number on each rank.
//
// Threads: one at a time. Ownership: borrows the session.
class RandomProgram {
 public:
  RandomProgram(Session& session, uint64_t seed) : session_(session), random_(seed) {}

  // Issues a command, or a few that belong together. An error is the session's.
  Status Step();
  // Reads one register on one rank. kDataLoss if it does not hold what the model says.
  Status CheckOne();
  // Reads every register on every rank that has it.
  Status CheckAll();

  // Copies a few megabytes to worker 0 and back, each element another number. kDataLoss if they
  // come back otherwise.
  Status CopyMuch();

  // Makes the ranks disagree: an allreduce to which `odd` brings another number of elements.
  Status Disagree(Rank odd);

  // Where the program stands. What was made since a mark is no part of the model after ForgetSince:
  // the commands were not executed.
  uint64_t Mark() const { return made_; }
  void ForgetSince(uint64_t mark);
  // What registers held on ranks whose worker was replaced is no part of the model any more.
  // kDataLoss unless the session says that exactly `ranks` have lost what was made before.
  Status ForgetLost(const std::vector<Rank>& ranks);

 private:
  struct Register {
    uint64_t number = 0;  // counts the registers that were made
    DRef ref;
    int64_t elements = 0;
    std::vector<std::optional<int64_t>> values;  // by rank; none: it holds nothing there
    bool IsComplete() const;
  };

  Rank AnyRank() { return static_cast<Rank>(Between(random_, 0, session_.num_workers() - 1)); }
  // One that every rank holds; null if there is none.
  const Register* AnyComplete();
  Register NewRegister(int64_t elements) const;
  Status Keep(Register made);

  Status MakeFull();
  Status MakeRanks();
  Status CopyIn();
  Status DropOne();
  Status Sleep();
  Status Collective();
  Status Check(const Register& expected, Rank rank);

  Session& session_;
  Random random_;
  std::vector<Register> registers_;
  uint64_t made_ = 0;
};

}  // namespace lockstep::chaos
