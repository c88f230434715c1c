// Copying large blocks at the speed of the memory.
#pragma once

#include <cstddef>

namespace lockstep {

// How results are written. kStream bypasses the caches (non-temporal stores), which spares reading
// the destination first: for results larger than them.
enum class Stores : bool { kCached = false, kStream = true };

// As memcpy.
void FastCopy(void* to, const void* from, size_t size_bytes, Stores stores);

// As memcpy, for who knows no more than the size: blocks beyond the caches are streamed.
void FastCopy(void* to, const void* from, size_t size_bytes);

// True if an operation that touches this many bytes in all leaves the last-level cache.
bool ExceedsCaches(size_t touched_bytes);

}  // namespace lockstep
