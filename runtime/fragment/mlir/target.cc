#include <elf.h>
#include <link.h>

#include <cstring>
#include <string_view>

#include "llvm/ADT/StringExtras.h"
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

// The build id that the linker gave this program (a hash of all that is in it), in hexadecimal.
// Another compiler makes other objects, so that those of an older one in a cache are not for it.
std::string BuildId() {
  std::string id;
  const auto read = [](dl_phdr_info* program, size_t /*size*/, void* result) {
    for (int i = 0; i < program->dlpi_phnum; ++i) {
      const auto& segment = program->dlpi_phdr[i];
      if (segment.p_type != PT_NOTE) continue;
      const char* note = reinterpret_cast<const char*>(program->dlpi_addr + segment.p_vaddr);
      const char* const end = note + segment.p_memsz;
      while (note + sizeof(ElfW(Nhdr)) <= end) {
        ElfW(Nhdr) header;
        std::memcpy(&header, note, sizeof(header));
        const auto padded = [](size_t size) { return (size + 3) / 4 * 4; };
        const char* const name = note + sizeof(header);
        const char* const content = name + padded(header.n_namesz);
        if (header.n_type == NT_GNU_BUILD_ID &&
            std::string_view(name, header.n_namesz) == std::string_view("GNU\0", 4)) {
          *static_cast<std::string*>(result) =
              llvm::toHex(llvm::StringRef(content, header.n_descsz), /*LowerCase=*/true);
        }
        note = content + padded(header.n_descsz);
      }
    }
    return 1;  // The program is the first; its libraries have ids of their own.
  };
  dl_iterate_phdr(read, &id);
  return id;
}

}  // namespace

std::string CompilerVersion() {
  return "lockstep-compiler " + BuildId() + ", LLVM " LLVM_VERSION_STRING;
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
