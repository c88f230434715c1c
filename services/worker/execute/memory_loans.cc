#include "services/worker/execute/memory_loans.h"

#include <algorithm>

namespace lockstep::worker {

void MemoryLoans::Lend(RegisterId id, const tensor::Tensor& tensor) {
  Loans& loans = loans_[id.index];
  auto loan = std::find_if(loans.begin(), loans.end(),
                           [&](const Loan& each) { return each.generation == id.generation; });
  if (loan == loans.end()) {
    loan = loans.emplace(loan);
    loan->generation = id.generation;
  }
  ++loan->count;
  // The register holds it still, if it did when it was lent before.
  const bool is_kept = !loan->kept.empty() && !loan->kept.back().is_apart;
  if (!is_kept) loan->kept.push_back({.tensor = tensor});
}

void MemoryLoans::End(RegisterId id) {
  const auto loans = loans_.find(id.index);
  if (loans == loans_.end()) return;
  for (auto loan = loans->second.begin(); loan != loans->second.end(); ++loan) {
    if (loan->generation != id.generation) continue;
    // Which of several tensors it is does not matter: while any is lent, all are kept.
    if (--loan->count == 0) Drop(loans->second, loan);
    break;
  }
  if (loans->second.empty()) loans_.erase(loans);
}

void MemoryLoans::EndAll(RegisterId id) {
  const auto loans = loans_.find(id.index);
  if (loans == loans_.end()) return;
  for (auto loan = loans->second.begin(); loan != loans->second.end(); ++loan) {
    if (loan->generation != id.generation) continue;
    Drop(loans->second, loan);
    break;
  }
  if (loans->second.empty()) loans_.erase(loans);
}

bool MemoryLoans::Outlive(uint32_t register_index) {
  const auto loans = loans_.find(register_index);
  if (loans == loans_.end()) return false;
  const size_t before = bytes_apart_;
  for (Loan& loan : loans->second) {
    for (Kept& kept : loan.kept) {
      if (kept.is_apart) continue;
      kept.is_apart = true;
      bytes_apart_ += kept.tensor.size_bytes();
    }
  }
  return bytes_apart_ > before;
}

void MemoryLoans::Drop(Loans& loans, Loans::iterator loan) {
  for (const Kept& kept : loan->kept) {
    if (kept.is_apart) bytes_apart_ -= kept.tensor.size_bytes();
  }
  loans.erase(loan);
}

std::vector<registers::Value> MemoryLoans::TakeAll() {
  std::vector<registers::Value> lent;
  for (auto& [index, loans] : loans_) {
    for (Loan& loan : loans) {
      for (Kept& kept : loan.kept) lent.emplace_back(std::move(kept.tensor));
    }
  }
  loans_.clear();
  bytes_apart_ = 0;
  return lent;
}

}  // namespace lockstep::worker
