#include "runtime/module/builtins.h"

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

namespace lockstep::module {
namespace {

class BuiltinFunction final : public Function {
 public:
  explicit BuiltinFunction(const Builtin& builtin)
      : name_(builtin.name), body_(builtin.body), target_(builtin.target) {}

  const std::string& name() const override { return name_; }

  bool UsesGpuByItself() const override { return false; }
  bool MayWriteTo(size_t argument) const override { return static_cast<int>(argument) == target_; }

  Status Call(const CallContext& context, absl::Span<const registers::Value> args,
              registers::Value* result) override {
    ArgReader in(args, context.gpu != nullptr);
    *result = registers::None();
    return body_(context, in, result);
  }

 private:
  const std::string name_;
  decltype(Builtin::body) const body_;
  const int target_;
};

}  // namespace

void AddBuiltins(FunctionTable& table) {
  for (const auto family : {CreationBuiltins(), TransformBuiltins(), ControlBuiltins()}) {
    for (const Builtin& builtin : family) {
      // Two built-in functions of one name are a bug of this folder; its tests would not start.
      if (!table.Add(std::make_shared<BuiltinFunction>(builtin)).ok()) std::abort();
    }
  }
}

}  // namespace lockstep::module
