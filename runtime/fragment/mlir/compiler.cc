#include "runtime/fragment/mlir/compiler.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "runtime/fragment/mlir/boundary.h"
#include "runtime/fragment/mlir/buffers.h"
#include "runtime/fragment/mlir/errors.h"
#include "runtime/fragment/mlir/guards.h"
#include "runtime/fragment/mlir/loops.h"
#include "runtime/fragment/mlir/lowering.h"
#include "runtime/fragment/mlir/object.h"
#include "runtime/fragment/mlir/polls.h"
#include "runtime/fragment/mlir/sizes.h"
#include "runtime/fragment/mlir/source.h"
#include "runtime/fragment/mlir/tensors.h"
#include "runtime/fragment/mlir/text_bounds.h"
#include "runtime/fragment/mlir/undefined.h"

namespace lockstep::fragment {
namespace {

mlir::DialectRegistry MakeRegistry() {
  mlir::DialectRegistry registry;
  RegisterSourceDialects(registry);
  RegisterBufferDialects(registry);
  registry.insert<mlir::LLVM::LLVMDialect>();
  mlir::registerBuiltinDialectTranslation(registry);
  mlir::registerLLVMDialectTranslation(registry);
  return registry;
}

// Read where a signal has ended one.
const char* volatile current_stage = "reading the request";

// The steps of one compilation; each fails with an error in `errors`.
class Compilation {
 public:
  Compilation(const Request& request, const Target& target)
      : request_(request),
        target_(target),
        context_(MakeRegistry(), mlir::MLIRContext::Threading::DISABLED),
        errors_(&context_, IsBytecode(request.fragment) ? std::string_view() : request.fragment) {}

  Answer Run() {
    Answer answer;
    if (failed(ReadSource(answer)) || (request_.wants_object && failed(MakeFunctions(answer))) ||
        (request_.wants_object && failed(Lower()))) {
      answer = Answer();
      answer.failure = errors_.Take(stage_);
      return answer;
    }
    if (!request_.wants_object) return answer;
    const StatusOr<std::string> object = MakeObject();
    if (object.ok()) {
      answer.object = *object;
      return answer;
    }
    answer = Answer();
    answer.failure = Failure{object.status().code(), Message(object.status())};
    if (errors_.any()) answer.failure = errors_.Take(stage_);
    return answer;
  }

 private:
  mlir::LogicalResult ReadSource(Answer& answer) {
    Enter("parsing");
    // Not only what the text names: every step uses some of them.
    context_.loadAllAvailableDialects();
    module_ = ParseSource(request_, &context_, errors_);
    if (!module_) return mlir::failure();
    function_ = CheckSource(*module_, errors_);
    if (!function_ || failed(ReadSignature(function_, answer.signature, errors_)))
      return mlir::failure();
    names_ = NamesByPlace(function_);
    if (failed(SpecializeArguments(function_, request_.argument_types, errors_)))
      return mlir::failure();
    // The signature says which sizes can be told before.
    AddSizesFunction(function_, answer.signature.results);
    errors_.set_code(StatusCode::kUnimplemented);
    return mlir::success();
  }

  mlir::LogicalResult MakeFunctions(const Answer& answer) {
    Enter("optimising tensors");
    PollWhileLoops(function_);
    compute_.parameters = ParametersOf(function_);
    sizes_.parameters = compute_.parameters;
    sizes_.parameters.push_back({Parameter::Kind::kSizes});
    ReturnInPlace(function_, answer.signature.results);
    for (size_t i = 0; i < answer.signature.results.size(); ++i) {
      compute_.parameters.push_back({Parameter::Kind::kResult, static_cast<int>(i)});
    }
    return OptimizeTensors(function_);
  }

  mlir::LogicalResult Lower() {
    Enter("giving tensors memory");
    if (failed(Bufferize(*module_))) return mlir::failure();
    compute_.types = ArgumentTypes(kComputeFunction);
    sizes_.types = ArgumentTypes(kSizesFunction);
    Enter("making loops");
    if (failed(LowerToLoops(*module_, request_.blas_threshold))) return mlir::failure();
    for (auto function : module_->getOps<mlir::func::FuncOp>()) {
      if (function.getSymName() == kComputeFunction || function->hasAttr(kApartAttribute))
        AddPolls(function);
    }
    ReplaceAsserts(*module_);
    Enter("lowering to LLVM");
    if (failed(LowerToLlvm(*module_, errors_)) || failed(DefineAll(*module_)) ||
        failed(AddGuards(*module_, names_, errors_))) {
      return mlir::failure();
    }
    AddEntries(*module_, compute_, sizes_);
    return mlir::success();
  }

  StatusOr<std::string> MakeObject() {
    Enter("generating code");
    errors_.set_code(StatusCode::kInternal);
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string object, GenerateObject(*module_, target_));
    LOCKSTEP_ASSIGN_OR_RETURN(std::string shared, LinkShared(object));
    if (shared.size() > request_.max_object_bytes) {
      return ResourceExhausted("the compiled fragment has ", shared.size(),
                               " bytes, more than the ", request_.max_object_bytes,
                               " that are allowed");
    }
    return shared;
  }

  llvm::SmallVector<mlir::Type> ArgumentTypes(const char* function) {
    return llvm::to_vector(module_->lookupSymbol<mlir::func::FuncOp>(function).getArgumentTypes());
  }

  void Enter(const char* stage) {
    stage_ = stage;
    current_stage = stage;
  }

  const Request& request_;
  const Target& target_;
  mlir::MLIRContext context_;
  Errors errors_;
  std::string stage_;
  mlir::OwningOpRef<mlir::ModuleOp> module_;
  mlir::func::FuncOp function_;
  OperationNames names_;
  Callee compute_;
  Callee sizes_;
};

}  // namespace

const char* CurrentStage() { return current_stage; }

Answer Compile(const Request& request, const Target& target) {
  if (std::optional<Failure> failure = CheckTextBounds(request.fragment); failure.has_value()) {
    Answer answer;
    answer.failure = std::move(failure);
    return answer;
  }
  return Compilation(request, target).Run();
}

}  // namespace lockstep::fragment
