// Signatures, and how workers have come by them, on the wire (schemas/fragment.capnp,
// schemas/fragment_call.capnp).
#pragma once

#include <string>

#include "runtime/base/status.h"
#include "runtime/fragment/load.h"
#include "runtime/fragment/signature.h"
#include "schemas/fragment.capnp.h"
#include "schemas/fragment_call.capnp.h"

namespace lockstep::fragment {

void WriteType(wire::FragmentType::Builder builder, const TensorType& type);
// kInvalidArgument: no dtype, or too many dimensions. Extents are as they come.
StatusOr<TensorType> ReadType(wire::FragmentType::Reader reader);

void WriteSignature(wire::FragmentSignature::Builder builder, const Signature& signature);
// In a compiler's answer it has no struct of its own.
void WriteSignature(wire::CompileAnswer::Success::Builder builder, const Signature& signature);

// kInvalidArgument for what is none (Signature::Validate). It may come from anywhere.
StatusOr<Signature> ReadSignature(std::string function,
                                  capnp::List<wire::FragmentArgument>::Reader arguments,
                                  capnp::List<wire::FragmentResult>::Reader results);
StatusOr<Signature> ReadSignature(wire::FragmentSignature::Reader reader);

void WriteLoad(wire::FragmentLoaded::Builder builder, const Load& load);
// kInvalidArgument: there is no such origin.
StatusOr<Load> ReadLoad(wire::FragmentLoaded::Reader reader);

}  // namespace lockstep::fragment
