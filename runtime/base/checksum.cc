#include "runtime/base/checksum.h"

#if defined(__x86_64__)
// Chooses the widest vectors that the processor has, at run time.
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

namespace lockstep {

uint64_t Checksum(const void* data, size_t size_bytes) { return XXH3_64bits(data, size_bytes); }

}  // namespace lockstep
