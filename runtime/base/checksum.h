// A checksum of bytes that travel: it finds what was changed on the way by accident, not on
// purpose.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep {

// XXH3 (64 bits) of Yann Collet's xxHash, at the speed of the memory. The same on every machine.
uint64_t Checksum(const void* data, size_t size_bytes);

}  // namespace lockstep
