#include "llvm/ADT/StringMap.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/SubtargetFeature.h"
#include "runtime/fragment/mlir/compiler.h"

namespace lockstep::fragment {
namespace {

// Changes with every change of what is compiled to what.
constexpr int kVersion = 2;

}  // namespace

std::string CompilerVersion() {
  return "lockstep-compiler " + std::to_string(kVersion) + ", LLVM " LLVM_VERSION_STRING;
}

Target HostTarget() {
  std::string features;
  const llvm::StringMap<bool> found = llvm::sys::getHostCPUFeatures();
  std::vector<std::string> names;
  for (const auto& entry : found)
    names.push_back((entry.getValue() ? "+" : "-") + entry.getKey().str());
  // A map of hashes has no order of its own, and caches compare texts.
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return a.compare(1, a.npos, b, 1, b.npos) < 0;
  });
  for (const std::string& name : names) features += (features.empty() ? "" : ",") + name;
  return {llvm::sys::getHostCPUName().str(), features};
}

StatusOr<Target> FindTarget(const std::string& processor, const std::string& features) {
  llvm::InitializeNativeTarget();
  const std::string triple = llvm::sys::getProcessTriple();
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (target == nullptr) return Internal("LLVM has no target ", triple, ": ", error);
  const std::unique_ptr<llvm::MCSubtargetInfo> known(target->createMCSubtargetInfo(triple, "", ""));
  if (!known->isCPUStringValid(processor)) {
    return InvalidArgument("LLVM ", LLVM_VERSION_STRING, " knows no processor \"", processor,
                           "\" of ", triple);
  }
  const llvm::SubtargetFeatures asked_for(features);
  for (const std::string& feature : asked_for.getFeatures()) {
    const bool signed_name = feature.size() > 1 && (feature[0] == '+' || feature[0] == '-');
    bool found = false;
    for (const llvm::SubtargetFeatureKV& entry : known->getAllProcessorFeatures()) {
      found |= signed_name && feature.substr(1) == entry.Key;
    }
    if (!found) {
      return InvalidArgument("\"", feature, "\" is no feature of ", triple,
                             ": LLVM writes them as \"+avx2,-avx512f\"");
    }
  }
  return Target{processor, features};
}

}  // namespace lockstep::fragment
