// A session that computes without end and says when it cannot, and when it can again: what people's
// programs notice of what is done to a cluster.
//
//     steady_client --connect ENDPOINT [--key FILE --controller-key FILE]
//
// Prints a line "SECONDS EVENT ..." whenever that changes, with the seconds since 1970: `works`;
// `stood SECONDS` behind it, how long it had not; `fails` and the error. Ends with SIGTERM or ^C.
#include <signal.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "runtime/base/shape.h"
#include "runtime/base/status.h"
#include "runtime/client/session.h"

namespace lockstep::bench {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr std::chrono::milliseconds kBetweenBeats{2};
constexpr std::chrono::milliseconds kBetweenTries{20};
// For workers or a controller to come; then it is looked anew, with another session if need be.
constexpr std::chrono::seconds kPatience{2};

std::atomic<bool> stopping = false;

double Now() { return Seconds(std::chrono::system_clock::now().time_since_epoch()).count(); }

class Pulse {
 public:
  explicit Pulse(SessionOptions options) : options_(std::move(options)) {}

  void Run() {
    while (!stopping) {
      if (const Status status = Beat(); status.ok()) {
        TellWorks();
        std::this_thread::sleep_for(kBetweenBeats);
      } else {
        TellFails(status);
        Mend();
      }
    }
  }

 private:
  // All ranks compute with what they keep, and all have done so.
  Status Beat() {
    if (!session_.has_value()) return Unavailable("there is no session");
    LOCKSTEP_RETURN_IF_ERROR(session_->AllReduce(tensor_, Reduction::kMax).status());
    return session_->SyncAll();
  }

  // What a program does that has lost a worker; and, if that is no use, the controller.
  void Mend() {
    if (session_.has_value() && session_->AwaitWorkers(kPatience).ok() && session_->Reset().ok() &&
        Prepare().ok()) {
      return;
    }
    session_.reset();
    auto session = Session::Connect(options_);
    if (session.ok()) {
      session_.emplace(*std::move(session));
      if (Prepare().ok()) return;
    }
    std::this_thread::sleep_for(kBetweenTries);
  }

  Status Prepare() {
    LOCKSTEP_ASSIGN_OR_RETURN(tensor_, session_->Empty(Shape{1024}, DType::kFloat32));
    return OkStatus();
  }

  void TellWorks() {
    const double now = Now();
    if (!works_) std::printf("%.3f works stood %.3f\n", now, last_beat_ > 0 ? now - last_beat_ : 0);
    works_ = true;
    last_beat_ = now;
  }

  void TellFails(const Status& status) {
    if (works_) std::printf("%.3f fails %s\n", Now(), Message(status).c_str());
    works_ = false;
  }

  SessionOptions options_;
  std::optional<Session> session_;
  DRef tensor_;
  bool works_ = false;
  double last_beat_ = 0;
};

int Run(int argc, char** argv) {
  SessionOptions options;
  options.name = "steady_client";
  options.connect_timeout = kPatience;
  CLI::App app{"A session that says when it works and when it does not."};
  app.add_option("--connect", options.endpoint)->required();
  app.add_option("--key", options.key)->envname("LOCKSTEP_KEY");
  app.add_option("--controller-key", options.controller_key)->envname("LOCKSTEP_CONTROLLER_KEY");
  CLI11_PARSE(app, argc, argv);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  for (const int signal : {SIGTERM, SIGINT}) ::signal(signal, [](int) { stopping = true; });
  Pulse(std::move(options)).Run();
  return 0;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) { return lockstep::bench::Run(argc, argv); }
