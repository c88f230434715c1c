// Which tensors of this worker a session's client reads and writes where they lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/registers/value.h"
#include "runtime/tensor/tensor.h"

namespace lockstep::worker {

// A loan is of a register's tensor, and has a name of its own, or the register's. It keeps the
// tensor's memory, so that no other data comes to where the client still writes: also when the
// register holds something else by then, or nothing.
//
// Threads: one.
class MemoryLoans {
 public:
  bool IsEmpty() const { return loans_.empty(); }
  bool Has(RegisterId name) const {
    const auto loan = loans_.find(name.index);
    return loan != loans_.end() && loan->second.generation == name.generation;
  }
  // Whether what the register of that index holds is lent.
  bool HoldsValueOf(uint32_t register_index) const {
    return in_registers_.contains(register_index);
  }

  // `tensor` is what the register `of` holds; no loan is of that name yet.
  void Lend(RegisterId name, RegisterId of, const tensor::Tensor& tensor);
  // That loan is over, if there is one. With the last of a tensor its memory is kept no more.
  void End(RegisterId name);
  // The same for one of an earlier name than `name` of that index: it was given back, although the
  // word of it was lost with the controller. True if there was one.
  bool EndEarlier(RegisterId name);
  // The value of the register of that index, whichever its generation, is gone. Returns true if its
  // memory is kept here from now on, and was not before.
  bool Outlive(uint32_t register_index);

  // What is kept of values that their registers do not hold any more, in HeldBytes(); once, however
  // often it is lent.
  size_t bytes_apart() const { return bytes_apart_; }

  // Ends all. Returns the tensors: the client may still write to them.
  std::vector<registers::Value> TakeAll();

 private:
  struct Kept {
    registers::Value tensor;
    uint32_t register_index = 0;
    size_t loans = 0;
    bool is_apart = false;  // its register does not hold it any more
  };

  struct Loan {
    uint32_t generation = 0;
    std::shared_ptr<Kept> kept;
  };
  using Loans = std::unordered_map<uint32_t, Loan>;
  void End(Loans::iterator loan);

  Loans loans_;                                                       // by the name's index
  std::unordered_map<uint32_t, std::shared_ptr<Kept>> in_registers_;  // not apart; by index
  size_t bytes_apart_ = 0;
};

}  // namespace lockstep::worker
