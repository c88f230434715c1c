// Collectives among accelerators, after the CPUs of their ranks have agreed on each.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "absl/types/span.h"
#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/collective/communicator.h"
#include "runtime/collective/device.h"

namespace lockstep::collective {

// Connects the devices of some ranks. An operation returns when all ranks have agreed on it and it
// is put into the communication stream; what goes wrong from then on, connection()->Health() tells.
class DeviceCommunicator : public Communicator {
 public:
  virtual std::shared_ptr<DeviceConnection> connection() const = 0;
  // Ends what the ranks tell each other by their CPUs, as Abort() does, so that nothing more
  // reaches the device. What is there goes on. Any thread, at any time.
  virtual void AbortHost(const Status& cause) = 0;
  // Before an operation `what` on host memory, by the ranks' host communicator: OK if no rank means
  // to do one on its device instead. As Communicator's operations otherwise.
  virtual Status AgreeOnHostMemory(const std::string& what, Deadline deadline) = 0;
};

// The devices of the world's ranks.
class DeviceWorld {
 public:
  virtual ~DeviceWorld() = default;
  // A communicator for the devices of `host`'s ranks, some or all of the world's, which all call
  // this at the same time. Calls of `host` by others come between its operations, not beside them.
  // Null if one of the ranks has no device.
  virtual StatusOr<std::unique_ptr<DeviceCommunicator>> Over(
      std::shared_ptr<Communicator> host, Deadline deadline,
      const std::atomic<bool>* cancelled = nullptr) = 0;
  // A rank was lost, so the ranks do not end this together: nothing waits for the others to.
  virtual void Abandon() = 0;
  // The first of these ranks that has no device; none: all have one.
  virtual std::optional<Rank> WithoutDevice(absl::Span<const Rank> ranks) const = 0;
};

}  // namespace lockstep::collective
