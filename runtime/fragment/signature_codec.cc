#include "runtime/fragment/signature_codec.h"

#include <algorithm>
#include <utility>

namespace lockstep::fragment {
namespace {

// Of a function's name that messages show.
constexpr size_t kMaxFunctionBytes = size_t{16} << 10;

// `builder`: of a struct with the fields of FragmentSignature.
template <typename Builder>
void Write(Builder builder, const Signature& signature) {
  builder.setFunction(signature.function);
  auto arguments = builder.initArguments(static_cast<unsigned>(signature.num_arguments()));
  for (unsigned i = 0; i < arguments.size(); ++i) {
    const Signature::Argument& argument = signature.arguments[i];
    WriteType(arguments[i].initType(), argument.type);
    arguments[i].setUsesOffset(argument.uses_offset);
    arguments[i].setUsesGlobalShape(argument.uses_global_shape);
  }
  auto results = builder.initResults(static_cast<unsigned>(signature.num_results()));
  for (unsigned i = 0; i < results.size(); ++i) {
    WriteType(results[i].initType(), signature.results[i].type);
    results[i].setSizesKnown(signature.results[i].sizes_known);
  }
}

}  // namespace

void WriteType(wire::FragmentType::Builder builder, const TensorType& type) {
  builder.setDtype(static_cast<wire::DType>(type.dtype));
  builder.setScalar(type.scalar);
  auto shape = builder.initShape(static_cast<unsigned>(type.ndim()));
  for (int d = 0; d < type.ndim(); ++d) shape.set(static_cast<unsigned>(d), type[d]);
}

StatusOr<TensorType> ReadType(wire::FragmentType::Reader reader) {
  LOCKSTEP_ASSIGN_OR_RETURN(const DType dtype,
                            DTypeFromNumber(static_cast<int>(reader.getDtype())));
  if (reader.getShape().size() > static_cast<unsigned>(Shape::kMaxDims)) {
    return InvalidArgument("a type of ", reader.getShape().size(), " dimensions");
  }
  TensorType type{dtype, {}, reader.getScalar()};
  for (const int64_t extent : reader.getShape()) type.extents.push_back(extent);
  return type;
}

void WriteSignature(wire::FragmentSignature::Builder builder, const Signature& signature) {
  Write(builder, signature);
}

void WriteSignature(wire::CompileAnswer::Success::Builder builder, const Signature& signature) {
  Write(builder, signature);
}

StatusOr<Signature> ReadSignature(std::string function,
                                  capnp::List<wire::FragmentArgument>::Reader arguments,
                                  capnp::List<wire::FragmentResult>::Reader results) {
  Signature signature;
  signature.function = std::move(function);
  constexpr auto kMax = static_cast<unsigned>(Signature::kMaxValues);
  if (arguments.size() > kMax || results.size() > kMax) {
    return InvalidArgument("a signature of ", arguments.size(), " arguments and ", results.size(),
                           " results; a fragment has at most ", kMax, " of each");
  }
  for (const auto argument : arguments) {
    LOCKSTEP_ASSIGN_OR_RETURN(TensorType type, ReadType(argument.getType()));
    signature.arguments.push_back(
        {std::move(type), argument.getUsesOffset(), argument.getUsesGlobalShape()});
  }
  for (const auto result : results) {
    LOCKSTEP_ASSIGN_OR_RETURN(TensorType type, ReadType(result.getType()));
    signature.results.push_back({std::move(type), result.getSizesKnown()});
  }
  LOCKSTEP_RETURN_IF_ERROR(signature.Validate());
  return signature;
}

StatusOr<Signature> ReadSignature(wire::FragmentSignature::Reader reader) {
  const auto function = reader.getFunction();
  return ReadSignature({function.begin(), std::min<size_t>(function.size(), kMaxFunctionBytes)},
                       reader.getArguments(), reader.getResults());
}

void WriteLoad(wire::FragmentLoaded::Builder builder, const Load& load) {
  builder.setRank(load.rank);
  builder.setOrigin(static_cast<wire::FragmentLoaded::Origin>(load.origin));
  builder.setCompilingMicros(static_cast<uint64_t>(std::max<int64_t>(0, load.compiling.count())));
}

StatusOr<Load> ReadLoad(wire::FragmentLoaded::Reader reader) {
  const auto origin = static_cast<int>(reader.getOrigin());
  if (origin >= kOriginCount) return InvalidArgument("a fragment comes from no place ", origin);
  return Load{reader.getRank(), static_cast<Origin>(origin),
              std::chrono::microseconds(reader.getCompilingMicros())};
}

}  // namespace lockstep::fragment
