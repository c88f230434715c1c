#include "runtime/client/call_encoding.h"

#include <cstddef>
#include <cstdint>
#include <optional>

#include "runtime/control/plain_call.h"
#include "runtime/control/value_codec.h"

namespace lockstep::client {
namespace {

using control::PlainCallWriter;

// The words that texts and shapes of a plain call take; nothing if this is none.
std::optional<size_t> PlainPayloadWords(absl::Span<const Argument> arguments) {
  if (arguments.size() > PlainCallWriter::kMostArguments) return std::nullopt;
  size_t words = 0;
  for (const Argument& argument : arguments) {
    switch (argument.kind()) {
      case Argument::Kind::kNone:
      case Argument::Kind::kBool:
      case Argument::Kind::kInt64:
      case Argument::Kind::kFloat64:
      case Argument::Kind::kDType:
      case Argument::Kind::kDRef:
        break;
      case Argument::Kind::kText:
        words += PlainCallWriter::TextWords(argument.text().size());
        break;
      case Argument::Kind::kShape:
        words += PlainCallWriter::ShapeWords(argument.object<Shape>().ndim());
        break;
      default:
        return std::nullopt;
    }
  }
  return words;
}

void WritePlain(PlainCallWriter& call, const Argument& argument) {
  switch (argument.kind()) {
    case Argument::Kind::kNone:
      return call.AddNone();
    case Argument::Kind::kBool:
      return call.AddBool(argument.integer() != 0);
    case Argument::Kind::kInt64:
      return call.AddInt64(argument.integer());
    case Argument::Kind::kFloat64:
      return call.AddFloat64(argument.real());
    case Argument::Kind::kText:
      return call.AddText(argument.text());
    case Argument::Kind::kDType:
      return call.AddDType(static_cast<DType>(argument.integer()));
    case Argument::Kind::kDRef:
      return call.AddRegister(argument.object<DRef>().id());
    case Argument::Kind::kShape:
      return call.AddShape(argument.object<Shape>());
    case Argument::Kind::kTooLarge:
    case Argument::Kind::kBytes:
    case Argument::Kind::kDevice:
    case Argument::Kind::kTensor:
    case Argument::Kind::kValue:
      return;  // PlainPayloadWords() lets none of these pass
  }
}

void WriteAny(wire::Value::Builder out, const Argument& argument) {
  switch (argument.kind()) {
    case Argument::Kind::kNone:
      return out.setNone();
    case Argument::Kind::kBool:
      return out.setBool(argument.integer() != 0);
    case Argument::Kind::kTooLarge:  // refused before anything is written
    case Argument::Kind::kInt64:
      return out.setInt64(argument.integer());
    case Argument::Kind::kFloat64:
      return out.setFloat64(argument.real());
    case Argument::Kind::kText:
      return control::WriteValue(out, std::string(argument.text()));
    case Argument::Kind::kBytes:
      return control::WriteValue(out, argument.object<Bytes>());
    case Argument::Kind::kDType:
      return out.setDtype(control::ToWire(static_cast<DType>(argument.integer())));
    case Argument::Kind::kDevice:
      return control::WriteValue(out, argument.object<Device>());
    case Argument::Kind::kDRef:
      return out.setRegister(argument.object<DRef>().id().Packed());
    case Argument::Kind::kShape:
      return control::WriteValue(out, argument.object<Shape>());
    case Argument::Kind::kTensor:
      return control::WriteHostTensor(out.initTensor(), argument.object<HostTensor>());
    case Argument::Kind::kValue:
      return control::WriteValue(out, argument.object<Value>());
  }
}

}  // namespace

Status WriteCall(control::BatchWriter& writer, RegisterId function, RegisterId result,
                 absl::Span<const Argument> arguments) {
  if (const auto payload_words = PlainPayloadWords(arguments)) [[likely]] {
    const size_t words = PlainCallWriter::Words(arguments.size(), *payload_words);
    return writer.AddPlainCall(words, [&](uint64_t* at) {
      PlainCallWriter call(at, words, function, result, arguments.size());
      for (const Argument& argument : arguments) WritePlain(call, argument);
    });
  }
  return writer.Add([&](wire::Command::Builder command) {
    auto call = command.initCall();
    call.setFunction(function.Packed());
    call.setResult(result.Packed());
    auto list = call.initArgs(static_cast<unsigned>(arguments.size()));
    for (unsigned i = 0; i < list.size(); ++i) WriteAny(list[i], arguments[i]);
  });
}

}  // namespace lockstep::client
