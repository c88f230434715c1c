#include "runtime/collective/nccl/endings.h"

#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/cuda/await.h"

namespace lockstep::collective::nccl {
namespace {

// As far as peers may be behind with what they have begun.
constexpr std::chrono::seconds kForPeers{1};
constexpr std::chrono::hours kAsLongAsItTakes{24 * 365};

struct Ending {
  std::thread thread;
  bool is_over = false;
};

struct Endings {
  std::mutex mutex;
  std::condition_variable changed;
  std::list<Ending> all;
  std::vector<std::shared_ptr<void>> left_behind;

  static Endings& OfThisProcess() {
    static auto* const endings = new Endings;  // outlives the endings that are not awaited
    return *endings;
  }
  // With the mutex held. Those threads do nothing any more but end.
  void ForgetWhatIsOver() {
    for (auto ending = all.begin(); ending != all.end();) {
      if (!ending->is_over) {
        ++ending;
        continue;
      }
      ending->thread.join();
      ending = all.erase(ending);
    }
  }
};

}  // namespace

void EndOnThread(std::function<void()> end) {
  Endings& endings = Endings::OfThisProcess();
  std::lock_guard lock(endings.mutex);
  endings.ForgetWhatIsOver();
  Ending& ending = endings.all.emplace_back();
  const auto shared = std::make_shared<std::function<void()>>(std::move(end));
  try {
    ending.thread = std::thread([&endings, &ending, work = shared]() mutable {
      (*work)();
      work.reset();
      std::lock_guard ending_lock(endings.mutex);
      ending.is_over = true;
      endings.changed.notify_all();
    });
  } catch (const std::system_error& error) {
    log::Error("an NCCL communicator does not end: there is no thread for it: ", error.what());
    endings.all.pop_back();
    endings.left_behind.push_back(shared);
  }
}

void AbortAfter(std::shared_ptr<DeviceConnection> connection, std::shared_ptr<cuda::Gpu> gpu,
                std::shared_ptr<DeviceEvent> before, Status cause) {
  EndOnThread([connection = std::move(connection), gpu = std::move(gpu), before = std::move(before),
               cause = std::move(cause)] {
    Status awaited = gpu->Bind();
    if (awaited.ok() && before != nullptr) {
      awaited = cuda::Await(*before, {Deadline::After(kAsLongAsItTakes)}, "a collective");
    }
    if (awaited.ok()) std::this_thread::sleep_for(kForPeers);
    connection->Abort(cause);
  });
}

void LeaveBehind(std::shared_ptr<void> kept) {
  Endings& endings = Endings::OfThisProcess();
  std::lock_guard lock(endings.mutex);
  endings.left_behind.push_back(std::move(kept));
}

bool AwaitEndings(Deadline deadline) {
  Endings& endings = Endings::OfThisProcess();
  std::unique_lock lock(endings.mutex);
  return endings.changed.wait_until(lock, deadline.when(), [&] {
    endings.ForgetWhatIsOver();
    return endings.all.empty();
  });
}

}  // namespace lockstep::collective::nccl
