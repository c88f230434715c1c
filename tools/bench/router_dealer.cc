// The rival of the control plane: a bare ZeroMQ ROUTER that fans commands out to DEALERs.
//
// No encoding, no order, no registers: one message of 150 bytes per command and worker, one of 8
// bytes back. Whatever talks to workers over ZeroMQ pays at least this.
//
//     router_dealer WORKERS ipc|tcp       prints sync_p50_us, sync_p99_us, commands_per_s
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tools/bench/report.h"
#include "tools/bench/rival_process.h"

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kLifeSeconds = 60;
constexpr int kWarmUps = 300;
constexpr int kCommands = 60'000;
constexpr std::chrono::milliseconds kSyncTime{400};

// What a command asks for; it is the first byte.
enum class Ask : uint8_t { kNothing, kAnswer, kEnd };
using Command = std::array<uint8_t, 150>;

// A worker's name. ZeroMQ reserves names that begin with a zero byte.
using Name = std::array<char, 2>;
Name NameOf(int worker) { return {'w', static_cast<char>(worker)}; }

void* OpenSocket(void* context, int type) {
  void* socket = zmq_socket(context, type);
  Require(socket != nullptr, "open a socket");
  const int unlimited = 0;
  zmq_setsockopt(socket, ZMQ_SNDHWM, &unlimited, sizeof unlimited);
  zmq_setsockopt(socket, ZMQ_RCVHWM, &unlimited, sizeof unlimited);
  return socket;
}

[[noreturn]] void Work(const std::string& endpoint, int worker) {
  LimitLife(kLifeSeconds);
  void* context = zmq_ctx_new();
  void* socket = OpenSocket(context, ZMQ_DEALER);
  const Name name = NameOf(worker);
  zmq_setsockopt(socket, ZMQ_ROUTING_ID, name.data(), name.size());
  Require(zmq_connect(socket, endpoint.c_str()) == 0, "connect");
  uint64_t executed = 0;
  Require(zmq_send(socket, &executed, sizeof executed, 0) == sizeof executed, "say hello");
  for (Command command{}; static_cast<Ask>(command[0]) != Ask::kEnd;) {
    Require(zmq_recv(socket, command.data(), command.size(), 0) == int{sizeof command},
            "receive a command");
    ++executed;
    if (static_cast<Ask>(command[0]) == Ask::kNothing) continue;
    Require(zmq_send(socket, &executed, sizeof executed, 0) == sizeof executed, "answer");
  }
  zmq_close(socket);
  zmq_ctx_term(context);
  std::_Exit(0);
}

class FanOut {
 public:
  FanOut(void* socket, int workers) : socket_(socket), workers_(workers) {}

  void Send(Ask ask) {
    Command command{};
    command[0] = static_cast<uint8_t>(ask);
    for (int worker = 0; worker < workers_; ++worker) {
      const Name name = NameOf(worker);
      Require(zmq_send(socket_, name.data(), name.size(), ZMQ_SNDMORE) == int{sizeof name} &&
                  zmq_send(socket_, command.data(), command.size(), 0) == int{sizeof command},
              "send a command");
    }
    ++sent_;
  }

  // Waits for one answer of each worker.
  void Gather() {
    for (int i = 0; i < workers_; ++i) {
      Name name{};
      uint64_t executed = 0;
      Require(zmq_recv(socket_, name.data(), name.size(), 0) == int{sizeof name} &&
                  zmq_recv(socket_, &executed, sizeof executed, 0) == int{sizeof executed},
              "receive an answer");
      Require(executed == sent_, "a worker has executed every command");
    }
  }

 private:
  void* const socket_;
  const int workers_;
  uint64_t sent_ = 0;
};

void MeasureSync(FanOut& workers) {
  for (int i = 0; i < kWarmUps; ++i) {
    workers.Send(Ask::kAnswer);
    workers.Gather();
  }
  std::vector<double> micros;
  const auto end = Clock::now() + kSyncTime;
  for (auto start = Clock::now(); start < end;) {
    workers.Send(Ask::kAnswer);
    workers.Gather();
    const auto now = Clock::now();
    micros.push_back(std::chrono::duration<double, std::micro>(now - start).count());
    start = now;
  }
  std::printf("sync_p50_us %.3f\nsync_p99_us %.3f\n", Percentile(micros, 0.5),
              Percentile(micros, 0.99));
}

void MeasureRate(FanOut& workers) {
  const auto start = Clock::now();
  for (int i = 1; i < kCommands; ++i) workers.Send(Ask::kNothing);
  workers.Send(Ask::kAnswer);
  workers.Gather();
  const std::chrono::duration<double> elapsed = Clock::now() - start;
  std::printf("commands_per_s %.0f\n", kCommands / elapsed.count());
}

// A port that is free now, for processes that are forked before any of them listens: no thread of
// ZeroMQ's would survive that.
int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  Require(fd >= 0 && bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
              getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0,
          "find a free port");
  close(fd);
  return ntohs(address.sin_port);
}

int Main(int worker_count, bool tcp) {
  LimitLife(kLifeSeconds);
  // The abstract namespace: nothing is left behind in the file system.
  const std::string endpoint = tcp ? "tcp://127.0.0.1:" + std::to_string(FreePort())
                                   : "ipc://@lockstep-bench-" + std::to_string(getpid());
  for (int worker = 0; worker < worker_count; ++worker) {
    const pid_t pid = fork();
    Require(pid >= 0, "fork");
    if (pid == 0) Work(endpoint, worker);
  }
  void* context = zmq_ctx_new();
  void* socket = OpenSocket(context, ZMQ_ROUTER);
  Require(zmq_bind(socket, endpoint.c_str()) == 0, "bind");
  FanOut workers(socket, worker_count);
  workers.Gather();  // their hellos
  MeasureSync(workers);
  MeasureRate(workers);
  workers.Send(Ask::kEnd);
  workers.Gather();
  zmq_close(socket);
  zmq_ctx_term(context);
  for (int worker = 0; worker < worker_count; ++worker) Require(wait(nullptr) > 0, "wait");
  return 0;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  const int workers = argc == 3 ? std::atoi(argv[1]) : 0;
  const std::string transport = argc == 3 ? argv[2] : "";
  if (workers < 1 || workers > 100 || (transport != "ipc" && transport != "tcp")) {
    std::fprintf(stderr, "usage: router_dealer WORKERS ipc|tcp\n");
    return 2;
  }
  return lockstep::bench::Main(workers, transport == "tcp");
}
