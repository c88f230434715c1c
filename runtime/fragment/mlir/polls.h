// Where compiled code asks whether it should stop.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace lockstep::fragment {

// Puts polls (kPoll, guards.h) into loops so that between two of them lie at most kWorkBetweenPolls
// operations, however large the tensors are, and at least some thousand where the loops are long: a
// loop whose iterations are small is cut into chunks with a poll for each, and its inner part stays
// as it is for the vectorizer. In every iteration of scf.while there is one. A body (loops.h) then
// knows its grain.
inline constexpr int64_t kWorkBetweenPolls = 1 << 20;
void AddPolls(mlir::func::FuncOp function);

// Puts that of each scf.while there before anything is optimised. It is an effect: without one,
// MLIR drops a loop that may never end, if nothing needs what it computes, and no deadline would
// tell.
void PollWhileLoops(mlir::func::FuncOp function);

}  // namespace lockstep::fragment
