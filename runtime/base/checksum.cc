#include "runtime/base/checksum.h"

#include <xxhash.h>

namespace lockstep {

uint64_t Checksum(const void* data, size_t size_bytes) { return XXH3_64bits(data, size_bytes); }

}  // namespace lockstep
