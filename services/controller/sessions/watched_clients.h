// Client processes of this host, watched until they end.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "services/controller/common/client_processes.h"

namespace lockstep::controller {

// A process is held by a descriptor, not by its number, which the kernel gives away again. (Should
// it have done so before the client's message was read, another process is watched, and the
// client's silence must do.) The sessions of one process share a descriptor. Clients of other hosts
// and of other process-id namespaces (containers) are not watched, nor those in this process.
//
// Threads: one at a time.
class WatchedClients final : public ClientProcesses {
 public:
  // Descriptors are for connections first of all: clients beyond these fall silent.
  static constexpr size_t kMost = 256;

  std::shared_ptr<const ClientProcess> Watch(const std::string& host_id, int pid) override;

 private:
  std::map<int, std::weak_ptr<const ClientProcess>> watched_;  // by process id
};

}  // namespace lockstep::controller
