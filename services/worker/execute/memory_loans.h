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
  bool Has(RegisterId name) const { return loans_.contains(name.Packed()); }

  // `tensor` is what the register `of` holds; no loan is of that name yet.
  void Lend(RegisterId name, RegisterId of, const tensor::Tensor& tensor);
  // That loan is over, if there is one. With the last of a tensor its memory is kept no more.
  void End(RegisterId name);
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

  std::unordered_map<uint64_t, std::shared_ptr<Kept>> loans_;         // by packed name
  std::unordered_map<uint32_t, std::shared_ptr<Kept>> in_registers_;  // not apart; by index
  size_t bytes_apart_ = 0;
};

}  // namespace lockstep::worker
