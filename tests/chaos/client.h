// A client in a round of chaos.
#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/client/address.h"
#include "runtime/client/session.h"
#include "tests/chaos/random_program.h"
#include "tests/support/tcp_proxy.h"

namespace lockstep::chaos {

template <typename... Parts>
Status Violation(const Parts&... parts) {
  return MakeStatus(StatusCode::kInternal, parts...);
}

struct ClientOptions {
  ControllerAddress controller;
  std::string name;
  uint64_t seed = 0;
  // No call may take longer, whatever happens, on a machine that is busy with the tests.
  std::chrono::milliseconds longest_call{0};
  // Borrowed; what can cut its connection. Null: nothing can.
  support::TcpProxy* wire = nullptr;
  // Copies much to worker 0 and back while it works.
  bool copies = false;
  // Becomes ready when what the fault has broken is there again, or on its way. Without one there
  // is nothing to wait for.
  std::shared_future<void> repaired = {};
};

// A client: its session, its program, and the thread that runs it.
class Client {
 public:
  // Waits for a cluster whose workers are all there.
  static StatusOr<std::unique_ptr<Client>> Start(ClientOptions options);
  ~Client() {
    if (thread_.joinable()) thread_.join();
  }

  // Runs `work` on a thread of the client's own.
  template <typename Work>
  void Run(Work work) {
    thread_ = std::thread([this, work] { result_ = work(*this); });
  }
  // What the work returned.
  Status Join() {
    thread_.join();
    return result_;
  }

  // Some steps; an error of the session, or of the model, ends them.
  Status TakeSteps(int steps);
  // The program goes on to its end, and everything that it made is right.
  Status RunToTheEnd(int steps);
  // Works as long as `goes_on()`, and returns the error that ended it before; `mark` becomes where
  // nothing was under way last.
  template <typename GoesOn>
  Status WorkWhile(GoesOn goes_on, uint64_t* mark) {
    Status status;
    while (status.ok() && goes_on()) {
      *mark = program.Mark();
      status = WorkOnce();
    }
    return status;
  }
  // Until the fault ends it, which it has to before long.
  Status WorkUntilItFails(uint64_t* mark);

  bool IsRepaired() const {
    return options.repaired.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  // Returns once what was broken may be waited for, and then when all workers are there.
  Status AwaitRepair();
  Status AwaitWorkers();
  // A session that has failed is usable again, and has all that was made before `mark`.
  Status Recover(uint64_t mark, int steps);

  Status SyncAll() {
    return Timed([&] { return session.SyncAll(); });
  }
  // Calls that take longer than anything may are violations, whatever they return.
  template <typename Call>
  Status Timed(Call call) {
    const auto begin = Deadline::Clock::now();
    const Status status = call();
    const auto took = Deadline::Clock::now() - begin;
    if (took > options.longest_call) {
      violation = Violation("a call took ", std::chrono::duration<double>(took).count(),
                            " s and returned ", status.ToString());
    }
    return status;
  }

  const ClientOptions options;
  Session session;
  RandomProgram program;
  Status violation;

 private:
  Client(ClientOptions o, Session s)
      : options(std::move(o)), session(std::move(s)), program(session, options.seed) {}
  Status WorkOnce();

  std::thread thread_;
  Status result_;
};

}  // namespace lockstep::chaos
