#include "services/worker/execute/memory_loans.h"

#include <utility>

namespace lockstep::worker {

void MemoryLoans::Lend(RegisterId name, RegisterId of, const tensor::Tensor& tensor) {
  std::shared_ptr<Kept>& kept = in_registers_[of.index];
  if (kept == nullptr) {
    kept = std::make_shared<Kept>(Kept{.tensor = tensor, .register_index = of.index});
  }
  ++kept->loans;
  loans_[name.index] = {name.generation, kept};
}

void MemoryLoans::End(RegisterId name) {
  const auto loan = loans_.find(name.index);
  if (loan != loans_.end() && loan->second.generation == name.generation) End(loan);
}

bool MemoryLoans::EndEarlier(RegisterId name) {
  const auto loan = loans_.find(name.index);
  if (loan == loans_.end() || loan->second.generation >= name.generation) return false;
  End(loan);
  return true;
}

void MemoryLoans::End(Loans::iterator loan) {
  const std::shared_ptr<Kept> kept = std::move(loan->second.kept);
  loans_.erase(loan);
  if (--kept->loans > 0) return;
  if (kept->is_apart) {
    bytes_apart_ -= registers::HeldBytes(kept->tensor);
  } else {
    in_registers_.erase(kept->register_index);
  }
}

bool MemoryLoans::Outlive(uint32_t register_index) {
  const auto found = in_registers_.find(register_index);
  if (found == in_registers_.end()) return false;
  found->second->is_apart = true;
  bytes_apart_ += registers::HeldBytes(found->second->tensor);
  in_registers_.erase(found);
  return true;
}

std::vector<registers::Value> MemoryLoans::TakeAll() {
  std::vector<registers::Value> lent;
  for (const auto& [index, loan] : loans_) {
    if (--loan.kept->loans == 0) lent.push_back(std::move(loan.kept->tensor));
  }
  loans_.clear();
  in_registers_.clear();
  bytes_apart_ = 0;
  return lent;
}

}  // namespace lockstep::worker
