#include "runtime/fragment/mlir/object.h"

#include <memory>
#include <set>

#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "mlir/Target/LLVMIR/Export.h"

namespace lockstep::fragment {
namespace {

StatusOr<std::unique_ptr<llvm::TargetMachine>> MakeMachine(const Target& target) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  const std::string triple = llvm::sys::getProcessTriple();
  std::string error;
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(triple, error);
  if (found == nullptr) return Internal("LLVM has no target ", triple, ": ", error);
  llvm::TargetOptions options;
  // a * b + c stays two roundings.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return std::unique_ptr<llvm::TargetMachine>(
      found->createTargetMachine(triple, target.processor, target.features, options,
                                 llvm::Reloc::PIC_, {}, llvm::CodeGenOptLevel::Aggressive));
}

// exp and its like on vectors, from glibc.
llvm::TargetLibraryInfoImpl Libraries(const llvm::Triple& triple) {
  llvm::TargetLibraryInfoImpl libraries(triple);
  if (triple.getArch() == llvm::Triple::x86_64) {
    libraries.addVectorizableFunctionsFromVecLib(llvm::TargetLibraryInfoImpl::LIBMVEC_X86, triple);
  }
  return libraries;
}

void Optimize(llvm::Module& module, llvm::TargetMachine* machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager call_graph;
  llvm::ModuleAnalysisManager modules;
  llvm::PipelineTuningOptions tuning;
  // That of LLVM 19 computes something else where it may use registers of 512 bits: of a
  // batch_matmul of 2x5x4 by 2x4x3 f64, the second product.
  tuning.SLPVectorization = false;
  llvm::PassBuilder builder(machine, tuning);
  functions.registerPass(
      [&] { return llvm::TargetLibraryAnalysis(Libraries(machine->getTargetTriple())); });
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(call_graph);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, call_graph, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3).run(module, modules);
}

// What code may call. A name that nothing defines would be found when the object is loaded, in the
// worker.
bool MayBeCalled(llvm::StringRef name) {
  static const auto* const kNames = new std::set<std::string>{
      "memcpy", "memmove",   "memset", "acos",  "acosh",     "asin",  "asinh",  "atan",
      "atan2",  "atanh",     "cbrt",   "ceil",  "copysign",  "cos",   "cosh",   "erf",
      "exp",    "exp10",     "exp2",   "expm1", "fabs",      "floor", "fma",    "fmax",
      "fmin",   "fmod",      "ldexp",  "log",   "log10",     "log1p", "log2",   "nearbyint",
      "pow",    "remainder", "rint",   "round", "roundeven", "sin",   "sincos", "sinh",
      "sqrt",   "tan",       "tanh",   "trunc"};
  if (name.starts_with("_ZGV")) return true;  // libmvec
  return kNames->count(name.str()) > 0 ||
         (name.ends_with("f") && kNames->count(name.drop_back().str()) > 0);
}

Status CheckSymbols(const std::string& object) {
  auto file =
      llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(object, "fragment.o"));
  if (!file) return Internal("the object file cannot be read: ", llvm::toString(file.takeError()));
  for (const llvm::object::SymbolRef& symbol : (*file)->symbols()) {
    auto flags = symbol.getFlags();
    auto name = symbol.getName();
    if (!flags || !name) {
      return Internal("the object file's symbols cannot be read");
    }
    if ((*flags & llvm::object::SymbolRef::SF_Undefined) == 0 || name->empty()) continue;
    if (!MayBeCalled(*name)) {
      return Unimplemented("the fragment needs the function ", name->str(),
                           ", which neither the C library nor libm has");
    }
  }
  return OkStatus();
}

}  // namespace

StatusOr<std::string> GenerateObject(mlir::ModuleOp module, const Target& target) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<llvm::TargetMachine> machine,
                            MakeMachine(target));
  llvm::LLVMContext context;
  const std::unique_ptr<llvm::Module> translated = mlir::translateModuleToLLVMIR(module, context);
  if (translated == nullptr) return Internal("translating to LLVM failed");
  translated->setDataLayout(machine->createDataLayout());
  translated->setTargetTriple(machine->getTargetTriple().str());
  for (llvm::Function& function : *translated) {
    function.addFnAttr("target-cpu", target.processor);
    function.addFnAttr("target-features", target.features);
    function.setDoesNotThrow();
  }
  Optimize(*translated, machine.get());
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out(bytes);
  llvm::legacy::PassManager passes;
  passes.add(new llvm::TargetLibraryInfoWrapperPass(Libraries(machine->getTargetTriple())));
  if (machine->addPassesToEmitFile(passes, out, nullptr, llvm::CodeGenFileType::ObjectFile)) {
    return Internal("LLVM cannot write object files for ", machine->getTargetTriple().str());
  }
  passes.run(*translated);
  std::string object(bytes.begin(), bytes.end());
  LOCKSTEP_RETURN_IF_ERROR(CheckSymbols(object));
  return object;
}

}  // namespace lockstep::fragment
