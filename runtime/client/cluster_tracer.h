// Has a whole cluster record a timeline, and collects it. A connection of its own, no session.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/client/address.h"
#include "runtime/client/trace.h"
#include "runtime/control/channel.h"
#include "runtime/control/zmq/zmq_context.h"
#include "runtime/trace/clock.h"
#include "runtime/trace/events_codec.h"
#include "runtime/trace/ring.h"
#include "schemas/session.capnp.h"

namespace lockstep {

// There is one at a time in a cluster. What is recorded stays with those who record until it is
// collected; when this object goes away, or its process, it is forgotten.
//
// Threads: one at a time.
class ClusterTracer {
 public:
  // Returns when all workers record that answer within options.timeout. kFailedPrecondition:
  // another client has a trace; kPermissionDenied: a key that only looks; kUnavailable: no
  // controller answers. `context` is needed for inproc endpoints.
  static StatusOr<std::unique_ptr<ClusterTracer>> Start(
      const ControllerAddress& controller, const TraceOptions& options,
      std::shared_ptr<control::ZmqContext> context = nullptr);
  ~ClusterTracer();

  // Why there will be no trace (the cluster has ended, the controller has given it up), as far as
  // that is known; else OK.
  Status Check();

  // Ends the recording and collects it. Ranks that are lost or do not answer are missing, which the
  // trace says; an error only if the controller does not answer, or has given the trace up. Once.
  // `own` is what this process has recorded itself: it has been stopped; may be null.
  StatusOr<Trace> Stop(const trace::Ring* own = nullptr);

 private:
  // An answer of the controller, or one that it has passed on.
  struct Reply {
    Status error;
    uint64_t trace = 0;
    uint32_t lease_millis = 0;
    uint32_t workers = 0;
    int64_t received = 0;  // of a clock's
    int64_t answered = 0;
    control::Frame body;
  };
  using Replies = std::map<uint64_t, std::optional<Reply>>;
  using Fill = absl::FunctionRef<void(wire::TraceRequest::Builder)>;

  ClusterTracer(std::unique_ptr<control::ClientChannel> channel, std::string endpoint,
                const TraceOptions& options);

  // All below: with mutex_ held.
  // What has come, which nobody waits for. An error ends the trace.
  Status TakeInAll();
  StatusOr<uint64_t> Send(Fill fill);
  // Takes in what comes until all `wanted` requests are answered, or the time is over.
  Status Await(Replies& wanted, Deadline deadline);
  // Has the controller forget it, and waits a moment until it has.
  void End();
  Status TakeIn(const control::Message& message, Replies& wanted);
  // Tells that this client is there.
  void Renew();
  StatusOr<Reply> Ask(Fill fill);
  Status Begin();
  // Asks all ranks for the first of what they have recorded.
  StatusOr<std::vector<StatusOr<trace::Events>>> AskRanks();
  StatusOr<trace::Events> Fetch(Rank rank, uint16_t thread, uint64_t from);
  // All that a process has recorded; `first` is the first of it.
  TraceProcess Collect(Rank rank, StatusOr<trace::Events> first, trace::ClockReport& clock);
  // How this process's clock compares with the controller's.
  Status CompareClocks();
  // Ends the thread that tells that this client is there.
  void StopKeeper();
  void Keep();

  const std::string endpoint_;
  const TraceOptions options_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  const std::unique_ptr<control::ClientChannel> channel_;
  uint64_t last_request_ = 0;
  uint64_t last_renewal_ = 0;
  uint64_t trace_ = 0;
  uint32_t workers_ = 0;
  std::chrono::milliseconds lease_{0};
  std::vector<trace::ClockSample> own_clock_;
  std::thread keeper_;
};

}  // namespace lockstep
