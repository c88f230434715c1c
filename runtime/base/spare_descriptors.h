// Descriptors that are kept for the moment when a process has none left.
#pragma once

#include <cstddef>
#include <vector>

namespace lockstep {

// Others may use up what a process can open: whoever connects takes a descriptor. What must go on
// nevertheless gives these back, opens what it needs, and takes them again afterwards.
//
// Several, because what is given back is anybody's: a listener that has no descriptor for the next
// connection tries again all the time, and may be faster. What was lost so is taken again when
// there is some.
//
// Threads: one at a time.
class SpareDescriptors {
 public:
  explicit SpareDescriptors(size_t count) : count_(count) { Refill(); }
  SpareDescriptors(const SpareDescriptors&) = delete;
  SpareDescriptors& operator=(const SpareDescriptors&) = delete;
  ~SpareDescriptors() { Release(); }

  // Gives all back. False if there was none.
  bool Release();
  // Takes as many as are missing and can be had.
  void Refill();

  // Whether this errno says that no descriptor is left, to the process or to the machine.
  static bool AreWanted(int error);

 private:
  const size_t count_;
  std::vector<int> held_;
};

}  // namespace lockstep
