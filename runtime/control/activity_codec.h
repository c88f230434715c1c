// Activities on the wire.
#pragma once

#include "runtime/control/activity.h"
#include "schemas/membership.capnp.h"

namespace lockstep::control {

void WriteActivity(const WorkerActivity& activity, wire::Activity::Builder builder);
WorkerActivity ReadActivity(wire::Activity::Reader reader);

}  // namespace lockstep::control
