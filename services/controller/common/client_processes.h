// The processes of clients, as the controller's parts see them. sessions/watched_clients.h is the
// real one.
#pragma once

#include <memory>
#include <string>

namespace lockstep::controller {

// One of them, for as long as it is held.
class ClientProcess {
 public:
  virtual ~ClientProcess() = default;
  virtual bool HasEnded() const = 0;
};

class ClientProcesses {
 public:
  virtual ~ClientProcesses() = default;

  // The process `pid` of the host (and the process-id namespace) `host_id`, as a client says of
  // itself, which is alive at this moment. Null if its end cannot be seen from here: its silence
  // must do.
  virtual std::shared_ptr<const ClientProcess> Watch(const std::string& host_id, int pid) = 0;
};

}  // namespace lockstep::controller
