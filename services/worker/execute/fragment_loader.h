// What the controller grants to sessions: fragments are handed to the thread that has them
// compiled, and requests are answered when it is done.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/collective/device.h"
#include "runtime/fragment/fragment.h"
#include "runtime/fragment/load.h"
#include "runtime/fragment/signature.h"
#include "runtime/module/function.h"
#include "schemas/control.capnp.h"
#include "services/worker/execute/controller_reports.h"
#include "services/worker/execute/session_directory.h"
#include "services/worker/execute/session_state.h"
#include "services/worker/fragment/compile_thread.h"
#include "services/worker/fragment/object_cache.h"
#include "services/worker/join/envelope.h"
#include "services/worker/report/recorder.h"

namespace lockstep::worker {

// Threads: the executing thread.
class FragmentLoader {
 public:
  // The function of that name, as the session's calls find it.
  using FindFunction = std::function<StatusOr<std::shared_ptr<module::Function>>(
      const SessionState& session, const std::string& name)>;

  // All is borrowed. Without a recorder nothing is counted.
  FragmentLoader(const ObjectCacheOptions& options, FindFunction find_function,
                 SessionDirectory& sessions, ControllerReports& reports, Recorder* recorder)
      : thread_(options),
        find_function_(std::move(find_function)),
        sessions_(sessions),
        reports_(reports),
        recorder_(recorder) {}

  // See ObjectCache::UseDevice().
  void UseGpu(std::shared_ptr<collective::Accelerator> gpu) { thread_.UseDevice(std::move(gpu)); }
  // This rank's answers are those of `rank` from now on.
  void SetRank(Rank rank) { rank_ = rank; }

  // Does not wait. Whatever becomes of it, the request of `batch` is answered once.
  void Load(SessionState& session, const BatchContext& batch, wire::FragmentSource::Reader source);
  // The session forgets its fragments: what is yet to be compiled is given up.
  void Forget(SessionState& session);

  // Readable while answers wait to be sent.
  int fd() const { return thread_.fd(); }
  // Sends them.
  void AnswerCompiled() {
    if (thread_.IsAnyDone()) [[unlikely]]
      AnswerAll();
  }

 private:
  // Answers at once: there is nothing to compile.
  void LoadFunction(SessionState& session, const BatchContext& batch,
                    const fragment::Fragment& fragment);
  void AnswerAll();
  // `load`: of one that is done; its rank is filled in.
  void Answer(const BatchContext& batch, const StatusOr<fragment::Signature>& done,
              fragment::Load load = {});

  CompileThread thread_;
  const FindFunction find_function_;
  SessionDirectory& sessions_;
  ControllerReports& reports_;
  Recorder* const recorder_;
  Rank rank_ = 0;
};

}  // namespace lockstep::worker
