// Layouts on the wire.
#pragma once

#include "runtime/base/status.h"
#include "runtime/plan/layout.h"
#include "schemas/plan.capnp.h"

namespace lockstep::plan {

void WriteLayout(wire::Layout::Builder builder, const Layout& layout);

// kInvalidArgument for what is no layout (Layout::Make, Mesh::Make), or of ranks that a world of
// `world_size` does not have.
StatusOr<Layout> ReadLayout(wire::Layout::Reader reader, int world_size);

}  // namespace lockstep::plan
