// Who else holds the tensors of a session's registers: bound plans, whose inputs they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace lockstep::worker {

class InputHolder {
 public:
  virtual ~InputHolder() = default;
  // The register of this index loses its tensor, or may do so: the holder gives it up.
  virtual void LetGo(uint32_t register_index) = 0;
};

// A plan keeps the tensors of its inputs at hand, and lets go of them with their registers: memory
// counts as its registers', and is free when these are.
//
// Threads: one at a time.
class InputHolders {
 public:
  bool IsEmpty() const { return by_index_.empty(); }
  // Some of them may be gone.
  size_t size() const { return count_; }
  // For as long as the holder lives.
  void Add(uint32_t register_index, std::weak_ptr<InputHolder> holder);
  void LetGo(uint32_t register_index);
  void LetGoOfAll();

 private:
  using Holders = std::vector<std::weak_ptr<InputHolder>>;

  void ForgetThoseThatAreGone();

  std::unordered_map<uint32_t, Holders> by_index_;
  size_t count_ = 0;
  size_t forget_at_ = 64;  // so many are looked through for those that are gone
};

}  // namespace lockstep::worker
