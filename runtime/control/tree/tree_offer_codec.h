// The wire form of a place in the tree (schemas/membership.capnp, RelayTree).
#pragma once

#include "runtime/control/tree/tree_note.h"
#include "schemas/membership.capnp.h"

namespace lockstep::control {

void WriteTreeOffer(const TreeOffer& offer, wire::RelayTree::Builder builder);
// One of another form is none: `world` is 0.
TreeOffer ReadTreeOffer(wire::RelayTree::Reader reader);

}  // namespace lockstep::control
