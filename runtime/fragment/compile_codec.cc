#include "runtime/fragment/compile_codec.h"

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>

#include "runtime/fragment/abi.h"
#include "runtime/fragment/message_bytes.h"
#include "runtime/fragment/signature_codec.h"
#include "schemas/fragment.capnp.h"

namespace lockstep::fragment {
namespace {

// Of a compiler's text that messages show.
constexpr size_t kMaxTextBytes = size_t{16} << 10;

std::string ReadText(capnp::Text::Reader text) {
  return {text.begin(), std::min<size_t>(text.size(), kMaxTextBytes)};
}

Status ReadFailure(wire::CompileAnswer::Failure::Reader failure, const std::string& name) {
  std::ostringstream message;
  message << name;
  if (failure.getLine() != 0) message << ":" << failure.getLine() << ":" << failure.getColumn();
  message << ": ";
  if (failure.getOperation().size() > 0) {
    message << "'" << ReadText(failure.getOperation()) << "': ";
  }
  message << ReadText(failure.getMessage());
  switch (const auto code = static_cast<StatusCode>(failure.getCode())) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kUnimplemented:
    case StatusCode::kResourceExhausted:
      return Status(code, message.str());
    default:
      return Internal(message.str());
  }
}

StatusOr<Compiled> ReadSuccess(wire::CompileAnswer::Reader answer) {
  const auto success = answer.getSuccess();
  Compiled compiled;
  compiled.compiler = {ReadText(answer.getCompiler()), ReadText(answer.getProcessor()),
                       ReadText(answer.getFeatures())};
  LOCKSTEP_ASSIGN_OR_RETURN(
      compiled.signature,
      ReadSignature(ReadText(success.getFunction()), success.getArguments(), success.getResults()));
  const auto object = success.getObject();
  if (object.size() > kMaxObjectBytes) {
    return InvalidArgument("an object of ", object.size(), " bytes");
  }
  if (object.size() > 0 && success.getAbiVersion() != LOCKSTEP_FRAGMENT_ABI_VERSION) {
    return InvalidArgument("an object for version ", success.getAbiVersion(),
                           " of the ABI, and this is version ", LOCKSTEP_FRAGMENT_ABI_VERSION);
  }
  const auto* const bytes = reinterpret_cast<const std::byte*>(object.begin());
  compiled.object.assign(bytes, bytes + object.size());
  compiled.entry = ReadText(success.getEntry());
  return compiled;
}

StatusOr<CompilerAnswer> ReadAnswer(wire::CompileAnswer::Reader reader, const std::string& name) {
  switch (reader.which()) {
    case wire::CompileAnswer::FAILURE: {
      const Status failure = ReadFailure(reader.getFailure(), name);
      return CompilerAnswer{failure, failure.code() == StatusCode::kInvalidArgument ||
                                         failure.code() == StatusCode::kUnimplemented};
    }
    case wire::CompileAnswer::SUCCESS: {
      LOCKSTEP_ASSIGN_OR_RETURN(Compiled compiled, ReadSuccess(reader));
      return CompilerAnswer{std::move(compiled), true};
    }
  }
  return InvalidArgument("neither a success nor a failure");
}

}  // namespace

StatusOr<std::string> EncodeRequest(const CompileWork& work, Want want) {
  if (work.fragment.kind() == Kind::kFunction) {
    return Unimplemented("a module's function is not compiled");
  }
  capnp::MallocMessageBuilder message;
  auto request = message.initRoot<wire::CompileRequest>();
  const std::string& source = work.fragment.source();
  request.setFragment({reinterpret_cast<const kj::byte*>(source.data()), source.size()});
  request.setName(work.fragment.name());
  request.setEntry(work.fragment.entry());
  request.setWant(want == Want::kObject ? wire::CompileRequest::Want::OBJECT
                                        : wire::CompileRequest::Want::SIGNATURE);
  auto types = request.initArgumentTypes(static_cast<unsigned>(work.types.size()));
  for (size_t i = 0; i < work.types.size(); ++i) {
    WriteType(types[static_cast<unsigned>(i)], work.types[i]);
  }
  request.setBlasThreshold(work.blas_threshold);
  request.setMaxObjectBytes(kMaxObjectBytes);
  const auto words = capnp::messageToFlatArray(message);
  const auto bytes = words.asChars();
  return std::string(bytes.begin(), bytes.size());
}

StatusOr<CompilerAnswer> DecodeAnswer(absl::Span<const std::byte> bytes, const std::string& name) {
  const auto unreadable = [&](const std::string& why) {
    return DataLoss("an answer of the fragment compiler (", bytes.size(), " bytes) for ", name,
                    " cannot be read: ", why);
  };
  if (bytes.size() > kMaxAnswerBytes) return unreadable("it is too large");
  std::optional<CompilerAnswer> answer;
  const Status read =
      ReadMessage<wire::CompileAnswer>(bytes, [&](wire::CompileAnswer::Reader reader) -> Status {
        LOCKSTEP_ASSIGN_OR_RETURN(answer, ReadAnswer(reader, name));
        return OkStatus();
      });
  if (!read.ok()) return unreadable(Message(read));
  return *std::move(answer);
}

}  // namespace lockstep::fragment
