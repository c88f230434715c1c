#include "tests/support/mpirun.h"

#include <filesystem>
#include <utility>

#include "runtime/base/sanitizers.h"

namespace lockstep::support {
namespace {

constexpr char kLibraryVariable[] = "LOCKSTEP_MPI_LIBRARY";

StatusOr<std::string> FindMpirun() {
  StatusOr<std::string> found = FindProgram("mpirun.openmpi", "LOCKSTEP_MPIRUN", "");
  if (!found.ok()) found = FindProgram("mpirun", "LOCKSTEP_MPIRUN", "");
  if (!found.ok()) return found.status();
  // It takes "/bin/mpirun" to be installed under "/".
  const std::filesystem::path path = *found;
  return (std::filesystem::canonical(path.parent_path()) / path.filename()).string();
}

StatusOr<std::string> FindLibrary() {
  return FindProgram("liblockstep_mpi.so", kLibraryVariable, "services/worker");
}

}  // namespace

std::string Mpirun::WhyNot() {
  if (kSanitized) {
    return "sanitizers do not see into MPI's libraries, and report what is right there";
  }
  const Status mpirun = FindMpirun().status();
  if (!mpirun.ok()) return "no mpirun: " + Message(mpirun);
  const Status library = FindLibrary().status();
  return library.ok() ? "" : "built without MPI: " + Message(library);
}

ChildOptions Mpirun::Job(int ranks, const std::vector<std::string>& argv,
                         const std::string& scratch) {
  ChildOptions options;
  options.argv = {*FindMpirun(), "--oversubscribe",    "--bind-to", "none",
                  "-n",          std::to_string(ranks)};
  // Nothing leaves this host, nor asks for its name. What jobs name by their process ids is kept
  // apart: sandboxes share /dev/shm, and not these.
  for (const auto& [name, value] : {std::pair<const char*, const char*>{"btl", "self,vader,tcp"},
                                    {"btl_tcp_if_include", "lo"},
                                    {"btl_vader_backing_directory", scratch.c_str()},
                                    {"btl_vader_single_copy_mechanism", "none"},
                                    {"oob_tcp_if_include", "lo"},
                                    {"pml", "ob1"}}) {
    options.argv.insert(options.argv.end(), {"--mca", name, value});
  }
  options.argv.insert(options.argv.end(), argv.begin(), argv.end());
  options.environment = {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                         "OMPI_MCA_btl_base_warn_component_unused=0", "TMPDIR=" + scratch,
                         std::string(kLibraryVariable) + "=" + *FindLibrary()};
  options.log_path = scratch + "/log";
  return options;
}

}  // namespace lockstep::support
