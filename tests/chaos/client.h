// A client in a round of chaos.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/client/session.h"
#include "tests/chaos/random_program.h"
#include "tests/integration/cluster.h"
#include "tests/support/tcp_proxy.h"

namespace lockstep::chaos {

// No call of a client may take longer, whatever happens, on a machine that is busy with the tests.
constexpr std::chrono::seconds kLongestCall{5};

template <typename... Parts>
Status Violation(const Parts&... parts) {
  return MakeStatus(StatusCode::kInternal, parts...);
}

// A client: its session, its program, and the thread that runs it.
class Client {
 public:
  static StatusOr<std::unique_ptr<Client>> Start(testing::Cluster& cluster, const std::string& name,
                                                 uint64_t seed, support::TcpProxy* wire) {
    SessionOptions options;
    options.name = name;
    options.connect_timeout = std::chrono::seconds(30);
    // Longer than any call may take: a wait that nothing ends shows.
    options.timeout = 6 * kLongestCall;
    options.endpoint = wire == nullptr ? cluster.endpoint() : wire->endpoint();
    LOCKSTEP_ASSIGN_OR_RETURN(Session session, Session::Connect(options));
    std::unique_ptr<Client> client(new Client(std::move(session), seed));
    client->wire = wire;
    return client;
  }
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
  Status TakeSteps(int steps) {
    for (int i = 0; i < steps; ++i) LOCKSTEP_RETURN_IF_ERROR(Timed([&] { return program.Step(); }));
    return OkStatus();
  }
  Status SyncAll() {
    return Timed([&] { return session.SyncAll(); });
  }
  // Calls that take longer than anything may are violations, whatever they return.
  template <typename Call>
  Status Timed(Call call) {
    const auto begin = Deadline::Clock::now();
    const Status status = call();
    const auto took = Deadline::Clock::now() - begin;
    if (took > kLongestCall) {
      violation = Violation("a call took ", std::chrono::duration<double>(took).count(),
                            " s and returned ", status.ToString());
    }
    return status;
  }

  Session session;
  RandomProgram program;
  support::TcpProxy* wire = nullptr;  // null: nobody can cut its connection
  Status violation;

 private:
  Client(Session s, uint64_t seed) : session(std::move(s)), program(session, seed) {}

  std::thread thread_;
  Status result_;
};

}  // namespace lockstep::chaos
