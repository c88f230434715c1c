#include "services/compiler/codec.h"

#include <capnp/message.h>

#include "runtime/fragment/abi.h"
#include "runtime/fragment/signature_codec.h"

namespace lockstep::compiler {
namespace {

void EncodeFailure(const fragment::Failure& failure,
                   wire::CompileAnswer::Failure::Builder message) {
  message.setCode(static_cast<uint16_t>(failure.code));
  message.setMessage(failure.message);
  message.setLine(failure.line);
  message.setColumn(failure.column);
  message.setOperation(failure.operation);
}

void EncodeSuccess(const fragment::Answer& answer, wire::CompileAnswer::Success::Builder message) {
  fragment::WriteSignature(message, answer.signature);
  message.setObject(
      kj::arrayPtr(reinterpret_cast<const kj::byte*>(answer.object.data()), answer.object.size()));
  message.setAbiVersion(LOCKSTEP_FRAGMENT_ABI_VERSION);
}

}  // namespace

StatusOr<DecodedRequest> Decode(wire::CompileRequest::Reader message,
                                const fragment::Target& host) {
  DecodedRequest decoded;
  fragment::Request& request = decoded.request;
  const auto text = message.getFragment();
  request.fragment = std::string_view(reinterpret_cast<const char*>(text.begin()), text.size());
  if (message.getName().size() > 0) request.name = message.getName().cStr();
  switch (message.getWant()) {
    case wire::CompileRequest::Want::SIGNATURE:
      request.wants_object = false;
      break;
    case wire::CompileRequest::Want::OBJECT:
      request.wants_object = true;
      break;
    default:
      return InvalidArgument("this compiler knows no want ", static_cast<int>(message.getWant()));
  }
  for (const wire::FragmentType::Reader type : message.getArgumentTypes()) {
    LOCKSTEP_ASSIGN_OR_RETURN(fragment::TensorType decoded_type, fragment::ReadType(type));
    request.argument_types.push_back(std::move(decoded_type));
  }
  request.blas_threshold = message.getBlasThreshold();
  request.max_object_bytes = message.getMaxObjectBytes();
  decoded.target = host;
  if (message.getProcessor().size() > 0) {
    LOCKSTEP_ASSIGN_OR_RETURN(decoded.target, fragment::FindTarget(message.getProcessor().cStr(),
                                                                   message.getFeatures().cStr()));
  }
  return decoded;
}

std::string Encode(const fragment::Answer& answer, const fragment::Target& target) {
  capnp::MallocMessageBuilder builder;
  auto message = builder.initRoot<wire::CompileAnswer>();
  message.setCompiler(fragment::CompilerVersion());
  message.setProcessor(target.processor);
  message.setFeatures(target.features);
  if (answer.failure.has_value()) {
    EncodeFailure(*answer.failure, message.initFailure());
  } else {
    EncodeSuccess(answer, message.initSuccess());
  }
  const kj::Array<capnp::word> words = capnp::messageToFlatArray(builder);
  const auto bytes = words.asBytes();
  return std::string(reinterpret_cast<const char*>(bytes.begin()), bytes.size());
}

}  // namespace lockstep::compiler
