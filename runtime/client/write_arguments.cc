#include <algorithm>

#include "runtime/client/session_core.h"
#include "runtime/control/value_codec.h"

namespace lockstep::client {
namespace {

// Inlined, so that `out` is taken apart into registers: passed in memory, it would be read sooner
// than the processor can forward what was written, five times per call.
[[gnu::always_inline]] inline void WriteArgument(wire::Value::Builder out,
                                                 const Argument& argument) {
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
    case Argument::Kind::kText: {
      const std::string_view text = argument.text();
      std::copy(text.begin(), text.end(), out.initText(static_cast<unsigned>(text.size())).begin());
      return;
    }
    case Argument::Kind::kDType:
      return out.setDtype(control::ToWire(static_cast<DType>(argument.integer())));
    case Argument::Kind::kDRef:
      return out.setRegister(argument.object<DRef>().id().Packed());
    case Argument::Kind::kShape: {
      const Shape& shape = argument.object<Shape>();
      return control::WriteDims(out.initShape(static_cast<unsigned>(shape.ndim())), shape);
    }
    case Argument::Kind::kTensor:
      return control::WriteHostTensor(out.initTensor(), argument.object<HostTensor>());
    case Argument::Kind::kBytes:
      return control::WriteValue(out, argument.object<Bytes>());
    case Argument::Kind::kDevice:
      return control::WriteValue(out, argument.object<Device>());
    case Argument::Kind::kValue:
      return control::WriteValue(out, argument.object<Value>());
  }
}

}  // namespace

void WriteArguments(capnp::List<wire::Value>::Builder list, absl::Span<const Argument> arguments) {
  for (unsigned i = 0; i < list.size(); ++i) WriteArgument(list[i], arguments[i]);
}

}  // namespace lockstep::client
