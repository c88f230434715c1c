// Copying large blocks at the speed of the memory.
#pragma once

#include <cstddef>

namespace lockstep {

// As memcpy. Blocks beyond the caches are written past them (non-temporal stores), which spares
// reading the destination first; middle-sized ones go by `rep movsb`, which takes ownership of the
// destination's lines without fetching them.
void FastCopy(void* to, const void* from, size_t size_bytes);

}  // namespace lockstep
