// What a worker needs of an accelerator (a GPU, say): memory and a processor for tensors, the order
// of what is under way there, and what there is to tell of it. Collectives among accelerators are
// in device_communicator.h: apart, because runtime/cuda implements some of this header, and depends
// on no communicator.
//
// An implementation is a folder of its own (nccl/, on runtime/cuda), and is named by the list of
// backends alone. Work is put into two streams: one computes, one communicates. A call returns when
// its work is put in; what the work has done is there in the streams' order.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/types/span.h"
#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/tensor/processor.h"
#include "runtime/tensor/storage.h"

namespace lockstep::collective {

// Some memory, of a device or of the host.
struct MemoryRange {
  const void* begin = nullptr;
  size_t size_bytes = 0;

  bool Meets(const MemoryRange& other) const {
    const auto* mine = static_cast<const std::byte*>(begin);
    const auto* theirs = static_cast<const std::byte*>(other.begin);
    return mine < theirs + other.size_bytes && theirs < mine + size_bytes;
  }
};

// A point in a stream's work.
//
// Threads: IsDone() from any; the rest one at a time.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
  // True once everything before the point where it was recorded last is done. The error of work on
  // this device that failed, whichever work that was.
  virtual StatusOr<bool> IsDone() const = 0;
  // Device time from `earlier` to this one; both timed, done, and of the same device.
  virtual StatusOr<std::chrono::nanoseconds> Since(const DeviceEvent& earlier) const = 0;
};

// From when to when a device did some communication; both are null if there was none.
struct CommunicationSpan {
  std::shared_ptr<DeviceEvent> began;
  std::shared_ptr<DeviceEvent> ended;
};

// When a wait for a device ends without what it waits for: a kernel may never end, and cannot be
// made to.
struct WaitLimit {
  Deadline deadline;
  // Asked now and then; not OK: the wait ends with it. May be empty.
  std::function<Status()> interrupted = {};
};

// A kernel that was loaded onto a device. Unloaded when it is destroyed, which waits for what runs
// of it.
class DeviceKernel {
 public:
  virtual ~DeviceKernel() = default;
};

// One run of it. All is borrowed for the call that puts it in; memory, until it is done.
struct KernelLaunch {
  DeviceKernel& kernel;
  uint64_t threads = 0;  // at least so many run it
  // Where each parameter lies: its value, or a device address.
  absl::Span<void* const> parameters;
  // What it reads and writes.
  absl::Span<const MemoryRange> memory;
};

// Works on tensors in the device's memory. Everything goes into the compute stream, after
// communication that uses the same memory.
//
// Threads: one. Waits for the device where host memory is given back, within its limit.
class DeviceProcessor : public tensor::Processor {
 public:
  // Puts it in. The errors of the device.
  virtual Status Launch(const KernelLaunch& launch) = 0;

  // For the waits from now on.
  virtual void SetWaitLimit(WaitLimit limit) = 0;
  // True if the device was given anything to do since this was asked last.
  virtual bool TakeWasUsed() = 0;
};

// What was put into both streams once, to be done again at once. Nothing of it is under way when it
// is destroyed, and communicators that it uses are destroyed after it.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  // What it has allocated, and keeps, because it works there.
  virtual size_t held_bytes() const = 0;
};

// What a device is.
struct DeviceFacts {
  int index = 0;                    // among those that this process sees
  std::string name;                 // "NVIDIA H200"
  std::string bus_id;               // "0000:3b:00.0"; parts of a device may share it
  std::string uuid;                 // of this device or part of one, unique among all
  std::string capability;           // what it can do, as its maker counts: "9.0"
  std::string driver_api;           // the newest interface that its driver knows: "13.0"
  std::string collectives_library;  // the version of what connects devices: "2.28.9"
  size_t memory_bytes = 0;
};

// What is not set, this device does not tell.
struct DeviceHealth {
  std::optional<double> temperature_celsius;
  std::optional<double> power_watts;
  std::optional<double> sm_clock_hertz;
  std::optional<double> memory_clock_hertz;
  // Since the driver was loaded.
  std::optional<uint64_t> corrected_ecc_errors;
  std::optional<uint64_t> uncorrected_ecc_errors;
  // It was slowed down when it was asked: by its own protection, or by the board's.
  std::optional<bool> is_slowed_by_heat;
  std::optional<bool> is_slowed_by_power;
};

// How long the streams stood still for each other, on the device.
struct StreamWaits {
  std::chrono::nanoseconds compute{0};        // for communication to be done
  std::chrono::nanoseconds communication{0};  // for what it is to send to be computed
};

// What was seen of a device last.
struct DeviceReport {
  tensor::AllocatorStats memory;
  // Memory that is registered with the library of collectives.
  size_t registered_bytes = 0;
  size_t registered_live_bytes = 0;
  // With other devices, by the library of collectives: the world's, and those of sessions.
  int communicators = 0;
  StreamWaits waits;
  bool is_monitored = false;   // what follows is not known without
  std::string driver_version;  // "580.65.06"
  DeviceHealth health;
  std::map<uint64_t, uint64_t> faults;  // how often each was reported, by its maker's number
};

// Threads: one, of its own: a device that has failed may keep every call waiting, so nothing waits
// for that thread.
class DeviceMonitor {
 public:
  virtual ~DeviceMonitor() = default;
  // Brings `*report` up to date, which is that of the last call; logs new faults.
  virtual void Read(DeviceReport* report) = 0;
};

// What of a communicator is on a device.
//
// What has put operations there may hold it until they are done, also when the communicator is
// gone: it ends with its last holder, in order if all ranks end theirs within a moment, else by an
// abort, and nothing waits for that. An operation that is not done a moment after is cut off.
//
// Threads: Abort() and is_aborted() from any; the rest one at a time.
class DeviceConnection {
 public:
  virtual ~DeviceConnection() = default;
  // What has gone wrong in the background, with what was begun.
  virtual Status Health() = 0;
  // Ends what it does on the device and in the network, and every wait here; returns at once. What
  // operations that were not done have written is of no worth.
  virtual void Abort(const Status& cause) = 0;
  virtual bool is_aborted() const = 0;
};

// One accelerator, as one worker uses it.
//
// Threads: processor().allocator(), Bind(), LoadKernel(), Loss() and AbortAfter() are safe;
// processors and monitors as they say themselves; all else belongs to the executing thread.
//
// Errors:
//   kResourceExhausted  no memory
//   kInternal           the device refused, or is lost to this process
class Accelerator {
 public:
  virtual ~Accelerator() = default;

  virtual const DeviceFacts& facts() const = 0;

  // Makes this device the calling thread's, for modules' calls of its libraries too. Each thread
  // that uses it calls this first.
  virtual Status Bind() = 0;
  // Not OK once an error has been seen after which nothing works on this device in this process any
  // more. The first such error. All that is left is to end the process.
  virtual Status Loss() const = 0;

  // The executing thread's, and with it the allocator of tensors.
  virtual DeviceProcessor& processor() = 0;
  // Another one, for another thread.
  virtual StatusOr<std::unique_ptr<DeviceProcessor>> NewProcessor() = 0;
  // Holds what it needs of the device.
  virtual std::unique_ptr<DeviceMonitor> NewMonitor() = 0;

  // The kernel `name` of what a compiler for this device has made. For any thread that has called
  // Bind(); loading may wait for what the device does. kUnimplemented: it is for another one.
  virtual StatusOr<std::unique_ptr<DeviceKernel>> LoadKernel(absl::Span<const std::byte> image,
                                                             const std::string& name) = 0;

  // The compute stream, as modules of this kind of device know it (CUDA: a cudaStream_t).
  virtual void* compute_stream() const = 0;
  // What is put into the compute stream from now on, by whatever means, may use this memory, or
  // any.
  virtual Status BeforeCompute(const MemoryRange& memory) = 0;
  virtual Status BeforeComputeOnAnything() = 0;
  // Has `*event` done when all is done that was put into the compute stream until now. Makes it, if
  // it is null; else what it stood for before is forgotten. After an error it may be made, too.
  virtual Status MarkCompute(std::shared_ptr<DeviceEvent>* event) = 0;
  // What was put into the communication stream since this was asked last.
  virtual CommunicationSpan TakeLastCommunication() = 0;

  // What the calling thread puts into the streams between the two, by whatever means, is not done,
  // but becomes a graph, which holds the memory that is allocated meanwhile. Until the end, that
  // thread asks no event, and the compute stream is another one: see compute_stream(). An error of
  // the end: nothing was captured.
  virtual Status BeginCapture() = 0;
  virtual StatusOr<std::unique_ptr<DeviceGraph>> EndCapture() = 0;
  // Does it as one piece of communication (TakeLastCommunication()): after all that was computed
  // until now, and before what uses this memory, which it reads or writes, besides its own.
  virtual Status Launch(DeviceGraph& graph, absl::Span<const MemoryRange> memory) = 0;

  // Aborts `connection` when the device has come to `before` (null: at once), so that what was put
  // in until then is not cut off here; and a moment later, for its peers may be behind. Returns at
  // once.
  virtual void AbortAfter(std::shared_ptr<DeviceConnection> connection,
                          std::shared_ptr<DeviceEvent> before, Status cause) = 0;
};

}  // namespace lockstep::collective
