// What this process may use: descriptors, a reserve of them, and its share of the processors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep {

// More are not asked for, however many the machine would give: where the hard limit is a thousand
// million, as in many containers, programs that look at every descriptor they could have, such as
// those that close all before they start another, take minutes.
inline constexpr uint64_t kMostDescriptors = 65'536;

// The soft limit that RaiseDescriptorLimit() makes of these two.
constexpr uint64_t RaisedDescriptorLimit(uint64_t soft, uint64_t hard) {
  const uint64_t most = hard < kMostDescriptors ? hard : kMostDescriptors;
  return soft < most ? most : soft;
}

// Raises this process's soft limit to the hard one, at most to kMostDescriptors; never lowers it.
// The usual 1024 is there for programs that call select(), which cannot name a higher descriptor;
// nothing of ours does. To be called before other threads exist. What the process starts inherits
// it.
void RaiseDescriptorLimit();

// Descriptors that are kept for the moment when a process has none left.
//
// Peers may use up what a process can open: each connection takes a descriptor. Work that must go
// on nevertheless releases the reserve, opens what it needs, and fills the reserve again
// afterwards.
//
// Several, because another thread may take what is released: a listener that has no descriptor for
// the next connection tries again all the time, and may be faster. What was lost so is taken again
// when there is some.
//
// Threads: one at a time.
class DescriptorReserve {
 public:
  explicit DescriptorReserve(size_t count) : count_(count) { Refill(); }
  DescriptorReserve(const DescriptorReserve&) = delete;
  DescriptorReserve& operator=(const DescriptorReserve&) = delete;
  ~DescriptorReserve() { Release(); }

  // Gives all back. False if there was none.
  bool Release();
  // Takes as many as are missing and can be had.
  void Refill();

  // Whether this errno says that no descriptor is left, to the process or to the machine.
  static bool IsExhausted(int error);

 private:
  const size_t count_;
  std::vector<int> held_;
};

// For background work: the calling thread, and those that it starts from now on, run after all
// other threads. They still get about a tenth of a busy processor, and all of an idle one.
void LowerThreadPriority();

}  // namespace lockstep
