// What calls of fragments are given: numbers, and this rank's parts of tensors.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "runtime/base/dtype.h"
#include "runtime/base/status.h"
#include "runtime/fragment/signature.h"
#include "runtime/tensor/tensor.h"
#include "schemas/values.capnp.h"
#include "services/worker/execute/session_state.h"
#include "services/worker/fragment/prepared_call.h"

namespace lockstep::worker {

// "argument 1 of `f`"
std::string ArgumentText(size_t number, const fragment::Signature& signature);

// A number as it lies in memory.
struct Scalar {
  alignas(8) std::array<std::byte, 8> bytes{};

  template <typename T>
  void Set(T value) {
    std::memcpy(bytes.data(), &value, sizeof value);
  }
};

// kInvalidArgument: it is no number of that dtype.
StatusOr<Scalar> ReadScalar(wire::Value::Reader value, DType dtype);

// What this rank has of an argument, in that register; valid until that is written or killed.
// kInvalidArgument: it is not what the call says.
StatusOr<const tensor::Tensor*> ReadPart(const SessionState& session, PreparedCall& call,
                                         size_t argument, uint64_t packed_register);

}  // namespace lockstep::worker
