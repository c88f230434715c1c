// The thread that waits for the compiler of fragments, so that the executing thread never does.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/collective/device.h"
#include "runtime/control/input_waiter.h"
#include "runtime/fragment/load.h"
#include "runtime/fragment/object_key.h"
#include "services/worker/fragment/loaded_object.h"
#include "services/worker/fragment/object_cache.h"

namespace lockstep::worker {

// What is asked of a session's fragment, and who waits for it.
struct CompileJob {
  SessionId session;
  Generation generation;
  uint32_t client;  // of the session (SessionRecord::client_number)
  RequestId request;
  fragment::ObjectKey key;  // by which the session names it
  fragment::CompileWork work;
};

struct CompiledJob {
  SessionId session;
  Generation generation;
  uint32_t client;
  RequestId request;
  fragment::ObjectKey key;
  StatusOr<std::shared_ptr<const LoadedObject>> object;
  fragment::Load load = {};  // how this worker has come by it
};

// One job at a time; sessions take turns. The thread is started with the first.
//
// Threads: use() is safe from any; all else belongs to the executing thread, which pays one relaxed
// load while nothing is done.
class CompileThread {
 public:
  // Of one session, what waits: the controller lets no more through, unless its client plays
  // tricks.
  static constexpr size_t kMostWaiting = 64;
  static constexpr size_t kMostWaitingBytes = size_t{16} << 20;

  explicit CompileThread(const ObjectCacheOptions& options) : cache_(options) {}
  // What is compiled is given up.
  ~CompileThread();
  CompileThread(const CompileThread&) = delete;
  CompileThread& operator=(const CompileThread&) = delete;

  // See ObjectCache::UseDevice(). Before the first job.
  void UseDevice(std::shared_ptr<collective::Accelerator> device) {
    cache_.UseDevice(std::move(device));
  }
  // One that is too many is answered with kResourceExhausted.
  void Add(CompileJob job);
  // Those of the session are answered with kAborted: it goes on without them.
  void GiveUp(SessionId session);

  bool IsAnyDone() const { return any_done_.load(std::memory_order_relaxed); }
  // Readable while something is done that was not taken.
  int fd() const { return done_.fd(); }
  std::vector<CompiledJob> TakeDone();

  ObjectCacheUse use() const { return cache_.use(); }

 private:
  void Run();
  // With mutex_ held: the next job, of the session whose turn it is.
  CompileJob TakeNext();
  void Finish(const CompileJob& job, StatusOr<std::shared_ptr<const LoadedObject>> object,
              const fragment::Load& load = {});

  ObjectCache cache_;
  control::WakeUp done_;
  control::WakeUp give_up_;  // of what is compiled now
  std::atomic<bool> any_done_{false};

  std::mutex mutex_;  // guards what follows, up to the thread
  std::condition_variable changed_;
  bool stopping_ = false;
  SessionId running_;   // whose job is compiled now; none: nothing is
  SessionId had_turn_;  // the last session that had one
  std::map<SessionId, std::deque<CompileJob>> waiting_;  // no queue is empty
  std::vector<CompiledJob> finished_;
  std::thread thread_;
};

}  // namespace lockstep::worker
