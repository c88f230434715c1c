// Unpredictable numbers: names that do not collide, tokens that cannot be guessed.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

// An unpredictable number that is not 0.
uint64_t RandomNumber();

// `count` unpredictable bytes, as lower-case hexadecimal digits.
std::string RandomHex(int count);

}  // namespace lockstep
