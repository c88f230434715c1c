// Copies of large blocks, and checksums over them, at the speed of the memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep {

// How results are written. kStream bypasses the caches (non-temporal stores), which spares reading
// the destination first: for results larger than them.
enum class Stores : bool { kCached = false, kStream = true };

// As memcpy.
void FastCopy(void* to, const void* from, size_t size_bytes, Stores stores);

// As memcpy, where no more is known than the size: blocks beyond the caches are streamed.
void FastCopy(void* to, const void* from, size_t size_bytes);

// True if an operation that touches this many bytes in all leaves the last-level cache.
bool ExceedsCaches(size_t touched_bytes);
// The smallest number of bytes of which that is true.
size_t LeastThatExceedsCaches();

// Finds what was changed on the way by accident, not on purpose.
//
// XXH3 (64 bits) of Yann Collet's xxHash, at the speed of the memory. The same on every machine.
uint64_t Checksum(const void* data, size_t size_bytes);

}  // namespace lockstep
