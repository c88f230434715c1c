#include "runtime/collective/mpi/job.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>

#include "runtime/base/log.h"
#include "runtime/collective/mpi/library.h"

namespace lockstep::collective::mpi {
namespace {

using std::chrono::milliseconds;

// MPI_Init takes a second where many ranks share few processors.
constexpr std::chrono::seconds kLongestBeginning{60};
constexpr milliseconds kLookAfter{2};
// While no operation waits for frames, they are looked after this often: what a rank has sent last
// should arrive, and what comes be taken, though it is busy with something else.
constexpr milliseconds kBusyPause{1};
constexpr milliseconds kIdlePause{20};
// For others to take what is on its way to them.
constexpr milliseconds kLastWords{1000};

}  // namespace

// How far the job is. Never destroyed: its thread may outlive main().
class Job::State {
 public:
  static State& OfThisProcess() {
    static auto* const state = new State;
    return *state;
  }

  enum class Stage { kNone, kBegins, kRuns, kEnds, kEnded };

  std::mutex mutex;
  std::condition_variable changed;
  Stage stage = Stage::kNone;
  Status failure;  // of beginning or ending
  std::unique_ptr<Job> job;
};

StatusOr<Job*> Job::Enter(const std::atomic<bool>* cancelled, Deadline deadline) {
  State& state = State::OfThisProcess();
  std::unique_lock lock(state.mutex);
  if (state.stage == State::Stage::kNone) {
    LOCKSTEP_ASSIGN_OR_RETURN(const lockstep_mpi* const mpi, LoadLibrary());
    state.job.reset(new Job(*mpi));
    state.stage = State::Stage::kBegins;
    // The thread that begins ends as well: MPI asks for that.
    std::thread([&state] {
      Status status = state.job->Begin();
      const auto enter = [&state](State::Stage stage, const Status& failure) {
        std::lock_guard lock(state.mutex);
        state.stage = stage;
        state.failure = failure;
        state.changed.notify_all();
      };
      enter(status.ok() ? State::Stage::kRuns : State::Stage::kEnded, status);
      if (!status.ok()) return;
      state.job->KeepGoing(state);
      status = state.job->End();
      enter(State::Stage::kEnded, status);
    }).detach();
  }
  deadline = deadline.Earlier(Deadline::After(kLongestBeginning));
  while (state.stage == State::Stage::kBegins) {
    if (cancelled != nullptr && *cancelled) return Aborted("connecting the ranks was cancelled");
    if (deadline.Expired()) {
      return DeadlineExceeded(
          "MPI does not begin: not all processes of this MPI job have come to it");
    }
    state.changed.wait_for(lock, kLookAfter);
  }
  if (state.stage == State::Stage::kRuns) return state.job.get();
  if (!state.failure.ok()) return state.failure;
  return Unavailable("this process has left its MPI job, and MPI begins only once");
}

Status Job::Leave(Deadline deadline) {
  State& state = State::OfThisProcess();
  std::unique_lock lock(state.mutex);
  if (state.stage == State::Stage::kNone) return OkStatus();
  if (state.stage == State::Stage::kRuns) {
    state.stage = State::Stage::kEnds;
    state.changed.notify_all();
  }
  if (state.changed.wait_until(lock, deadline.when(),
                               [&] { return state.stage == State::Stage::kEnded; })) {
    return state.failure;
  }
  return DeadlineExceeded("MPI does not end: other processes of the MPI job go on");
}

Status Job::Begin() {
  if (const int code = mpi_.init(); code != 0) {
    return Unavailable("MPI cannot begin: ", Explain(mpi_, code));
  }
  std::random_device random;
  id_ = uint64_t{random()} << 32 | random();
  int code = mpi_.rank_and_size(&process_, &size_);
  if (code == 0) code = mpi_.share(&id_, sizeof id_);
  if (code != 0) return Unavailable("MPI cannot begin: ", Explain(mpi_, code));
  frames_ = std::make_unique<Frames>(mpi_);
  char description[256] = {};
  mpi_.describe(description, sizeof description);
  log::Info("process ", process_, " of ", size_, " in an MPI job, ", description);
  return OkStatus();
}

void Job::KeepGoing(State& state) {
  milliseconds pause = kBusyPause;
  std::unique_lock lock(state.mutex);
  while (!state.changed.wait_for(lock, pause, [&] { return state.stage == State::Stage::kEnds; })) {
    // The thread that holds it does the same.
    std::unique_lock frames_lock(frames_->mutex(), std::try_to_lock);
    if (!frames_lock.owns_lock()) continue;
    const bool busy = frames_->Progress() || !frames_->IsQuiet();
    pause = busy ? kBusyPause : kIdlePause;
  }
}

Status Job::End() {
  const Deadline deadline = Deadline::After(kLastWords);
  for (bool quiet = false; !quiet && !deadline.Expired(); std::this_thread::sleep_for(kBusyPause)) {
    std::lock_guard lock(frames_->mutex());
    frames_->Progress();
    quiet = frames_->IsQuiet() || !frames_->failure().ok();
  }
  {
    std::lock_guard lock(frames_->mutex());
    if (!frames_->failure().ok()) return frames_->failure();
    frames_->End();
  }
  const int code = mpi_.finalize();
  return code == 0 ? OkStatus() : Unavailable("MPI cannot end: ", Explain(mpi_, code));
}

}  // namespace lockstep::collective::mpi
