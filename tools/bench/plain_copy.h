// The ways to copy memory on this machine, to find the best: the rivals of copies to workers.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace lockstep::bench {

struct PlainCopy {
  std::string name;
  void (*copy)(void* to, const void* from, size_t size_bytes);
};

// Those that this processor can do. Sizes are multiples of 4 KiB, addresses of 64.
std::vector<PlainCopy> PlainCopies();

}  // namespace lockstep::bench
