// Values between the wire and the registers.
#pragma once

#include "runtime/base/status.h"
#include "runtime/control/plain_call.h"
#include "runtime/registers/register_file.h"
#include "runtime/registers/value.h"
#include "runtime/tensor/processor.h"
#include "schemas/values.capnp.h"

namespace lockstep::worker {

// Reads an argument: DRefs become the values of the session's registers, host tensors are copied
// to where the worker works (`places`). kInvalidArgument beyond kMaxValueDepth levels, those of the
// registers included; errors of RegisterFile::Read and of the places.
StatusOr<registers::Value> FromWire(const wire::Value::Reader& reader,
                                    const registers::RegisterFile& registers,
                                    const tensor::Processors& places);

// The same, made behind `values`: to move one takes as long as to make it.
Status AddFromWire(const wire::Value::Reader& reader, const registers::RegisterFile& registers,
                   const tensor::Processors& places, registers::List* values);
Status AddFromWire(const control::PlainArgument& argument, const registers::RegisterFile& registers,
                   const tensor::Processors& places, registers::List* values);

// Writes a register's value for a client; what cannot leave the worker is described.
// kResourceExhausted if that is more than `max_bytes` of tensors, text, and elements of lists.
Status ToWire(const registers::Value& value, size_t max_bytes, const tensor::Processors& places,
              wire::Value::Builder builder);

}  // namespace lockstep::worker
