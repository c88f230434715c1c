// Lets a newer clang read Cap'n Proto 0.9's headers in C++20 (clang-tidy has it included first).
// Since P2468, which clang obeys from 16 on, an operator== with an operator!= beside it is not
// taken with its operands the other way round; capnp/blob.h compares a const char* to a StringPtr
// in that way.
#pragma once

#ifdef __cplusplus  // it is included into sources in C, too

#include <kj/string.h>

namespace kj {

inline bool operator==(const char* a, const StringPtr& b) { return b == a; }
inline bool operator!=(const char* a, const StringPtr& b) { return !(b == a); }

}  // namespace kj

#endif
