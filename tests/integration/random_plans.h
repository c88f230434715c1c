// Reshards and programs drawn at random, which the workers of a session move and run: what they
// hold then is compared with what was meant. The same ones for a seed.
#pragma once

#include <cstdint>

#include "runtime/client/session.h"

namespace lockstep::testing {

// `count` pairs of layouts of a tensor on ranks below `world`. Each is placed by the first, moved
// to the second and collected; each rank has to hold its tile then, unless it is a partial value,
// and the source what it held.
void ExpectRandomReshards(Session& session, int world, uint32_t seed, int count);

// `count` programs of some twenty operations, each bound once and executed twice. They call
// built-in functions only.
void ExpectRandomPrograms(Session& session, int world, uint32_t seed, int count);

}  // namespace lockstep::testing
