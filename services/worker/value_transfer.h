// Values between the wire and the registers.
#pragma once

#include "runtime/base/status.h"
#include "runtime/registers/register_file.h"
#include "runtime/registers/value.h"
#include "runtime/tensor/storage.h"
#include "schemas/values.capnp.h"

namespace lockstep::worker {

// Reads an argument: DRefs become the values of the session's registers, host tensors are copied
// into memory of `allocator`. Errors of RegisterFile::Read and of the allocator.
StatusOr<registers::Value> FromWire(wire::Value::Reader reader,
                                    const registers::RegisterFile& registers,
                                    tensor::Allocator& allocator);

// Writes a register's value for a client; what cannot leave the worker is described. Tensors are
// written by value: kResourceExhausted if they are together larger than `max_tensor_bytes`.
Status ToWire(const registers::Value& value, size_t max_tensor_bytes, wire::Value::Builder builder);

}  // namespace lockstep::worker
