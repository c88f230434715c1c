#include "runtime/fragment/call_codec.h"

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <cstdint>
#include <utility>

#include "runtime/fragment/message_bytes.h"
#include "runtime/plan/layout_codec.h"
#include "schemas/fragment_call.capnp.h"

namespace lockstep::fragment {
namespace {

void WriteExtents(capnp::List<int64_t>::Builder list, const Shape& shape) {
  for (unsigned d = 0; d < list.size(); ++d) list.set(d, shape[static_cast<int>(d)]);
}

StatusOr<Shape> ReadExtents(capnp::List<int64_t>::Reader list, DType dtype) {
  if (list.size() > static_cast<unsigned>(Shape::kMaxDims)) {
    return InvalidArgument("a shape of ", list.size(), " dimensions");
  }
  std::vector<int64_t> extents;
  for (const int64_t extent : list) extents.push_back(extent);
  Shape shape{absl::MakeConstSpan(extents)};
  LOCKSTEP_RETURN_IF_ERROR(shape.Validate(SizeOf(dtype)));
  return shape;
}

StatusOr<std::vector<Rank>> ReadHolders(wire::FragmentCall::Input::Reader reader, int world_size) {
  const auto list = reader.getHolders();
  if (list.size() > static_cast<unsigned>(world_size)) {
    return InvalidArgument(list.size(), " ranks have it, and there are ", world_size);
  }
  std::vector<Rank> holders;
  for (const Rank rank : list) holders.push_back(rank);
  return holders;
}

StatusOr<Input> ReadInput(wire::FragmentCall::Input::Reader reader, int world_size) {
  Input input;
  LOCKSTEP_ASSIGN_OR_RETURN(input.dtype, DTypeFromNumber(static_cast<int>(reader.getDtype())));
  LOCKSTEP_ASSIGN_OR_RETURN(input.shape, ReadExtents(reader.getShape(), input.dtype));
  if (reader.getSplit() >= kSplitCount) {
    return InvalidArgument("there is no split number ", +reader.getSplit());
  }
  input.split = static_cast<Split>(reader.getSplit());
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<Rank> holders, ReadHolders(reader, world_size));
  if (reader.getAsItIs()) {
    return Input{DType::kFloat32, {}, Split::kAsPlaced, {}, true, std::move(holders)};
  }
  input.holders = std::move(holders);
  if (reader.hasLayout()) {
    LOCKSTEP_ASSIGN_OR_RETURN(input.layout, plan::ReadLayout(reader.getLayout(), world_size));
  }
  return input;
}

StatusOr<Output> ReadOutput(wire::FragmentCall::Output::Reader reader) {
  if (reader.getCombine() >= kCombineCount) {
    return InvalidArgument("there is no combine number ", +reader.getCombine());
  }
  Output output{static_cast<Combine>(reader.getCombine())};
  if (reader.getShapeIsGiven()) {
    // Its size in bytes is checked against the signature.
    LOCKSTEP_ASSIGN_OR_RETURN(output.shape, ReadExtents(reader.getShape(), DType::kBool));
  }
  if (reader.getDtypeIsGiven()) {
    LOCKSTEP_ASSIGN_OR_RETURN(output.dtype, DTypeFromNumber(static_cast<int>(reader.getDtype())));
  }
  return output;
}

StatusOr<CallParts> ReadCall(wire::FragmentCall::Reader reader, int world_size) {
  constexpr auto kMost = static_cast<unsigned>(Signature::kMaxValues);
  if (reader.getInputs().size() > kMost || reader.getOutputs().size() > kMost) {
    return InvalidArgument("a call with ", reader.getInputs().size(), " arguments and ",
                           reader.getOutputs().size(), " results");
  }
  CallParts call;
  for (const auto input : reader.getInputs()) {
    LOCKSTEP_ASSIGN_OR_RETURN(Input read, ReadInput(input, world_size));
    call.inputs.push_back(std::move(read));
  }
  for (const auto output : reader.getOutputs()) {
    LOCKSTEP_ASSIGN_OR_RETURN(Output read, ReadOutput(output));
    call.outputs.push_back(std::move(read));
  }
  return call;
}

}  // namespace

std::string EncodeCall(const CallParts& call) {
  capnp::MallocMessageBuilder message;
  auto root = message.initRoot<wire::FragmentCall>();
  auto inputs = root.initInputs(static_cast<unsigned>(call.inputs.size()));
  for (unsigned i = 0; i < inputs.size(); ++i) {
    const Input& input = call.inputs[i];
    inputs[i].setDtype(static_cast<wire::DType>(input.dtype));
    WriteExtents(inputs[i].initShape(static_cast<unsigned>(input.shape.ndim())), input.shape);
    inputs[i].setSplit(static_cast<uint8_t>(input.split));
    inputs[i].setAsItIs(input.as_it_is);
    if (!input.holders.empty()) {
      auto holders = inputs[i].initHolders(static_cast<unsigned>(input.holders.size()));
      for (unsigned h = 0; h < holders.size(); ++h) holders.set(h, input.holders[h]);
    }
    if (input.split == Split::kAsPlaced && input.layout.has_value()) {
      plan::WriteLayout(inputs[i].initLayout(), *input.layout);
    }
  }
  auto outputs = root.initOutputs(static_cast<unsigned>(call.outputs.size()));
  for (unsigned i = 0; i < outputs.size(); ++i) {
    const Output& output = call.outputs[i];
    outputs[i].setCombine(static_cast<uint8_t>(output.combine));
    if (output.dtype.has_value()) {
      outputs[i].setDtypeIsGiven(true);
      outputs[i].setDtype(static_cast<wire::DType>(*output.dtype));
    }
    if (!output.shape.has_value()) continue;
    outputs[i].setShapeIsGiven(true);
    WriteExtents(outputs[i].initShape(static_cast<unsigned>(output.shape->ndim())), *output.shape);
  }
  const auto words = capnp::messageToFlatArray(message);
  const auto bytes = words.asChars();
  return {bytes.begin(), bytes.size()};
}

StatusOr<CallParts> DecodeCall(absl::Span<const std::byte> bytes, int world_size) {
  if (bytes.empty() || bytes.size() % sizeof(capnp::word) != 0 || bytes.size() > kMaxCallBytes) {
    return InvalidArgument("the call of a fragment has ", bytes.size(),
                           " bytes: it is empty, cut off, or too large");
  }
  CallParts call;
  const Status read =
      ReadMessage<wire::FragmentCall>(bytes, [&](wire::FragmentCall::Reader reader) -> Status {
        LOCKSTEP_ASSIGN_OR_RETURN(call, ReadCall(reader, world_size));
        return OkStatus();
      });
  if (read.ok()) return call;
  if (read.code() != StatusCode::kDataLoss) return Annotate(read, "the call of a fragment");
  return InvalidArgument("the call of a fragment cannot be read: ", Message(read));
}

}  // namespace lockstep::fragment
