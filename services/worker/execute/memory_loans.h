// Which tensors of this worker a session's client reads and writes where they lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/registers/value.h"
#include "runtime/tensor/tensor.h"

namespace lockstep::worker {

// A loan is of a register's tensor, and has the register's name. It keeps the tensor's memory, so
// that no other data comes to where the client still writes: also when the register holds something
// else by then, or nothing.
//
// Threads: one.
class MemoryLoans {
 public:
  bool IsEmpty() const { return loans_.empty(); }

  // `tensor` is what the register holds. A register whose tensor is lent may be lent once more.
  void Lend(RegisterId id, const tensor::Tensor& tensor);
  // One loan of that name is over. When all of them are, their memory is kept no more.
  void End(RegisterId id);
  // They all are: the client has dropped the name.
  void EndAll(RegisterId id);
  // The value of the register of that index, whichever its generation, goes. Returns true if its
  // memory is kept here from now on, and was not before.
  bool Outlive(uint32_t register_index);

  // What is kept of values that their registers do not hold any more.
  size_t bytes_apart() const { return bytes_apart_; }

  // Ends all. Returns the tensors: the client may still write to them.
  std::vector<registers::Value> TakeAll();

 private:
  struct Kept {
    tensor::Tensor tensor;
    bool is_apart = false;  // its register does not hold it any more
  };
  struct Loan {
    uint32_t generation = 0;
    size_t count = 0;  // how often it was lent, and has not ended
    std::vector<Kept> kept;
  };
  using Loans = std::vector<Loan>;

  void Drop(Loans& loans, Loans::iterator loan);

  std::unordered_map<uint32_t, Loans> loans_;  // by register index; hardly ever more than one
  size_t bytes_apart_ = 0;
};

}  // namespace lockstep::worker
