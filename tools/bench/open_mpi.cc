#include "tools/bench/open_mpi.h"

#include <initializer_list>
#include <utility>

#include "runtime/base/child_process.h"

namespace lockstep::bench {
namespace {

// Large temporaries of its algorithms would be mapped, touched and unmapped at every call.
constexpr char kKeepMemory[] =
    "GLIBC_TUNABLES=glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=17179869184";

std::vector<std::string> Mca(std::initializer_list<std::pair<const char*, const char*>> settings) {
  std::vector<std::string> options;
  for (const auto& [name, value] : settings) {
    options.insert(options.end(), {"--mca", name, value});
  }
  return options;
}

}  // namespace

const std::vector<MpiTuning>& MpiTunings() {
  static const std::vector<MpiTuning> tunings = {
      {"as installed", {}, {}},
      // Copying through shared memory instead of by system calls (CMA), in a segmented ring.
      {"no CMA, segments",
       Mca({{"pml", "ob1"},
            {"btl", "self,vader"},
            {"btl_vader_single_copy_mechanism", "none"},
            {"btl_vader_max_send_size", "131072"},
            {"coll_tuned_use_dynamic_rules", "1"},
            {"coll_tuned_allreduce_algorithm", "5"},
            {"coll_tuned_allreduce_algorithm_segmentsize", "1048576"}}),
       {kKeepMemory}},
      // Small messages: recursive doubling over the same shared memory.
      {"no CMA, recursive doubling",
       Mca({{"pml", "ob1"},
            {"btl", "self,vader"},
            {"btl_vader_single_copy_mechanism", "none"},
            {"coll_tuned_use_dynamic_rules", "1"},
            {"coll_tuned_allreduce_algorithm", "3"}}),
       {kKeepMemory}},
      // The component made for ranks of one host.
      {"coll/sm",
       Mca({{"pml", "ob1"},
            {"btl", "self,vader"},
            {"btl_vader_single_copy_mechanism", "none"},
            {"coll_sm_priority", "90"}}),
       {kKeepMemory}},
      {"UCX, shared memory",
       Mca({{"pml", "ucx"}, {"pml_ucx_tls", "any"}, {"pml_ucx_devices", "any"}}),
       {kKeepMemory, "UCX_TLS=posix,sysv,self"}},
  };
  return tunings;
}

const MpiTuning& MpiOverTcp() {
  static const MpiTuning tuning = {
      "tcp", Mca({{"pml", "ob1"}, {"btl", "self,tcp"}}), {kKeepMemory}};
  return tuning;
}

StatusOr<OpenMpi> OpenMpi::Find() {
  OpenMpi mpi;
  StatusOr<std::string> mpirun = FindProgram("mpirun.openmpi", "LOCKSTEP_MPIRUN", "");
  if (!mpirun.ok()) mpirun = FindProgram("mpirun", "LOCKSTEP_MPIRUN", "");
  const StatusOr<std::string> ranks =
      FindProgram("collective_mpi", "LOCKSTEP_COLLECTIVE_MPI", "tools/bench/collectives");
  if (!mpirun.ok() || !ranks.ok()) {
    return Unavailable("no Open MPI here: ",
                       Message(mpirun.ok() ? ranks.status() : mpirun.status()));
  }
  mpi.mpirun_ = *mpirun;
  mpi.ranks_program_ = *ranks;
  return mpi;
}

ProgramRun OpenMpi::Run(int ranks, const MpiTuning& tuning,
                        const std::vector<std::string>& arguments,
                        const std::string& scratch) const {
  ProgramRun run{.argv = {mpirun_, "--oversubscribe", "-np", std::to_string(ranks)},
                 .environment = {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                                 "OMPI_MCA_btl_base_warn_component_unused=0",
                                 // For its session directory, which has to have a short name.
                                 "TMPDIR=" + scratch},
                 .scratch = scratch};
  run.argv.insert(run.argv.end(), tuning.options.begin(), tuning.options.end());
  run.argv.push_back(ranks_program_);
  run.argv.insert(run.argv.end(), arguments.begin(), arguments.end());
  run.environment.insert(run.environment.end(), tuning.environment.begin(),
                         tuning.environment.end());
  return run;
}

}  // namespace lockstep::bench
