#include "runtime/collective/mpi/library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "runtime/base/load_once.h"

namespace lockstep::collective::mpi {
namespace {

constexpr char kVariable[] = "LOCKSTEP_MPI_LIBRARY";
constexpr char kFile[] = "liblockstep_mpi.so";
constexpr char kRemedy[] =
    "; build it with `mpicc -shared -fPIC -o liblockstep_mpi.so shim.c` and put it beside the "
    "program, or name it in $LOCKSTEP_MPI_LIBRARY";

std::vector<std::string> Candidates() {
  const char* const given = std::getenv(kVariable);
  if (given != nullptr && *given != '\0') return {given};
  std::vector<std::string> files;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) files.push_back(program.parent_path() / kFile);
  files.emplace_back(kFile);
  return files;
}

StatusOr<const lockstep_mpi*> Load() {
  std::string tried;
  for (const std::string& file : Candidates()) {
    // Plugins of Open MPI look for its symbols among the global ones.
    void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library != nullptr) {
      const auto entry = reinterpret_cast<lockstep_mpi_entry>(dlsym(library, LOCKSTEP_MPI_ENTRY));
      if (entry != nullptr) return entry();
      tried += "; " + file + " is of another version, it has no " + LOCKSTEP_MPI_ENTRY;
    } else {
      tried += std::string("; ") + dlerror();
    }
  }
  return Unavailable("there is no MPI here", tried, kRemedy);
}

}  // namespace

StatusOr<const lockstep_mpi*> LoadLibrary() {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto* const loaded, LoadOnce<const lockstep_mpi*>(Load));
  return *loaded;
}

std::string Explain(const lockstep_mpi& mpi, int code) {
  char text[1024] = {};
  mpi.explain(code, text, sizeof text);
  return text;
}

}  // namespace lockstep::collective::mpi
