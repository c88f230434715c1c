// Collectives among accelerators, after the CPUs of their ranks have agreed on each.
#pragma once

#include <cstdint>
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

// What the ranks have found out when they agreed on an operation. It holds for as long as all of
// them call the same, on buffers that lie where they lay as far as PlaceOf() tells.
struct Agreed {
  bool is_known = false;
  bool all_even = false;     // of an all-to-all: all parts of all ranks are equally large
  bool as_they_are = false;  // the buffers need no copies, wherever they lie
};

// Connects the devices of some ranks. An operation returns when all ranks have agreed on it and it
// is put into the communication stream; what goes wrong from then on, connection()->Health() tells.
//
// The devices are connected when an operation needs them first: what is done in host memory, and
// barriers, do without.
class DeviceCommunicator : public Communicator {
 public:
  // Connects the devices, unless they are; all ranks call it at the same point. Operations of all
  // ranks on device memory do so by themselves. Before a message, in whatever memory, all ranks
  // call it: only two of them know where the data of a message lies. Errors, on all ranks alike:
  // kResourceExhausted names a rank that has as many connections as it may have; those of the
  // library that connects.
  virtual Status Connect(Deadline deadline) = 0;
  // Null: they are not connected.
  virtual std::shared_ptr<DeviceConnection> connection() const = 0;
  // Ends what the ranks tell each other by their CPUs, as Abort() does, so that nothing more
  // reaches the device. What is there goes on. Any thread, at any time.
  virtual void AbortHost(const Status& cause) = 0;
  // Before an operation `what` on host memory, by the ranks' host communicator: OK if no rank means
  // to do one on its device instead. As Communicator's operations otherwise.
  virtual Status AgreeOnHostMemory(const std::string& what, Deadline deadline) = 0;

  // What the ranks agree on in the operations from now on is noted there; if it is known already,
  // they do not ask each other again: the caller answers for that all ranks come to the operation,
  // and that each call is the one that was agreed on. Null: they agree each time, on all of it.
  // Borrowed.
  virtual void UseAgreed(Agreed* agreed) = 0;
  // Where a rank's buffers lie, as far as it matters to the others; 0: it does not.
  virtual uint64_t PlaceOf(ConstBuffer send, ConstBuffer recv) const = 0;
  // False: PlaceOf() is always 0.
  virtual bool HasPlaces() const = 0;
};

// The devices of the world's ranks.
class DeviceWorld {
 public:
  virtual ~DeviceWorld() = default;
  // A communicator for the devices of `host`'s ranks, some or all of the world's, which all call
  // this; no rank waits for another. Calls of `host` by others come between its operations, not
  // beside them. Null if one of the ranks has no device.
  virtual std::unique_ptr<DeviceCommunicator> Over(std::shared_ptr<Communicator> host) = 0;
  // A rank was lost, so the ranks do not end this together: nothing waits for the others to.
  virtual void Abandon() = 0;
  // The first of these ranks that has no device; none: all have one.
  virtual std::optional<Rank> WithoutDevice(absl::Span<const Rank> ranks) const = 0;
};

}  // namespace lockstep::collective
