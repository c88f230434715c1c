// What connects this worker with the other ranks of a world: their CPUs, and their GPUs.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/collective/communicator.h"
#include "runtime/collective/device_communicator.h"
#include "runtime/collective/rendezvous.h"
#include "runtime/tensor/arena.h"
#include "services/worker/execute/session_state.h"
#include "services/worker/gpu_setup.h"
#include "services/worker/join/membership.h"
#include "services/worker/options.h"

namespace lockstep::worker {

// Threads: the executing thread.
class WorldConnection {
 public:
  // `options` are borrowed. `describe_memory_use`: see OpenDevice().
  WorldConnection(const WorkerOptions& options, std::shared_ptr<tensor::Arena> arena,
                  std::function<std::string()> describe_memory_use)
      : options_(options),
        arena_(std::move(arena)),
        gpu_setup_(options, std::move(describe_memory_use)) {}

  // The world has lost a rank: it is not closed together with the others. Before sessions let go of
  // what they have of it.
  void Abandon() {
    if (gpus_ != nullptr) gpus_->Abandon();
  }
  // Once no session has anything of it any more.
  void Close() {
    gpus_.reset();
    cpus_.reset();
  }

  // Connects this rank with all others of `membership`. As long as they do not reach each other,
  // all try again, after `on_trouble` is told. The errors of ConnectWorld().
  Status Connect(const Membership& membership, std::shared_ptr<collective::Rendezvous> rendezvous,
                 const std::atomic<bool>& cancelled, const GpuSetup::Users& users,
                 std::function<void(const Status& why)> on_trouble);

  // What is connected; borrowed until Close().
  WorldLinks links() const { return {cpus_.get(), gpus_.get(), nodes_}; }
  // How the communicator was chosen, for people.
  const std::string& why() const { return why_; }
  // Null: this worker has none.
  collective::Accelerator* gpu() const { return gpu_setup_.gpu(); }

 private:
  const WorkerOptions& options_;
  const std::shared_ptr<tensor::Arena> arena_;
  GpuSetup gpu_setup_;
  std::unique_ptr<collective::Communicator> cpus_;  // null: the ranks are not connected
  std::unique_ptr<collective::DeviceWorld> gpus_;   // null: no rank has a GPU
  std::vector<int> nodes_;
  std::string why_;
};

}  // namespace lockstep::worker
