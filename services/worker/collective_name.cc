#include "services/worker/collective_name.h"

#include "runtime/control/value_codec.h"

namespace lockstep::worker {

const char* Name(wire::CollectiveKind kind) {
  const OperationFacts* const facts = control::FindOperation(kind);
  return facts == nullptr ? "collective" : facts->name.data();
}

}  // namespace lockstep::worker
