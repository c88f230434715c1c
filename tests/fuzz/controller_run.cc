#include "tests/fuzz/controller_run.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "runtime/base/deadline.h"
#include "runtime/base/log.h"
#include "runtime/base/version.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/value_codec.h"
#include "schemas/control.capnp.h"
#include "schemas/protocol.capnp.h"
#include "schemas/session.capnp.h"
#include "services/controller/controller.h"

namespace lockstep::fuzz {
namespace {

using namespace std::chrono_literals;

constexpr int kWorkerCount = 2;
constexpr size_t kTokenWord = sizeof(uint64_t);

// The controller connects to where a worker says that it listens: no peer is to be connected to
// here.
bool NamesANetworkEndpoint(const control::Message& message) {
  for (const control::Frame& frame : message) {
    const std::string_view text(reinterpret_cast<const char*>(frame.data()), frame.size());
    if (text.find("tcp:") != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace

ControllerRun::ControllerRun()
    : script_([this](const control::Message& message) { return Fill(message, known_); }) {
  log::Silence();
}

void ControllerRun::FromClient(int number, control::Message message) {
  script_.Add({kClients, "client " + std::to_string(number), std::move(message)});
}

void ControllerRun::FromWorker(int number, control::Message message) {
  if (NamesANetworkEndpoint(message)) return;
  script_.Add({kWorkers, "worker " + std::to_string(number), std::move(message)});
}

void ControllerRun::JoinWorkers() {
  for (int rank = 0; rank < kWorkerCount; ++rank) {
    FromWorker(rank, {control::EncodeMessage<wire::WorkerMessage>([&](auto message) {
                 auto hello = message.initHello();
                 hello.setMinVersion(kOldestProtocolVersion);
                 hello.setMaxVersion(kProtocolVersion);
                 hello.setRank(rank);
                 hello.initHost().setName("elsewhere");
                 hello.setBulkEndpoint("inproc://bulk");
               })});
  }
}

void ControllerRun::OpenSession(int client) {
  FromClient(client, {control::EncodeMessage<wire::ClientMessage>([](auto message) {
               auto open = message.initOpenSession();
               open.setMinVersion(kOldestProtocolVersion);
               open.setMaxVersion(kProtocolVersion);
               open.setName("a client");
               open.setTimeoutMillis(60'000);
               open.setKeepMillis(60'000);
               open.setForwardOutput(true);
             })});
}

void ControllerRun::HearWorkerBeingTold(const control::PeerName& to,
                                        const control::Message& message) {
  (void)control::DecodeMessage<wire::Envelope>(message[0], [&](wire::Envelope::Reader envelope) {
    if (envelope.isWelcome()) {
      known_["EPOCH---"] = envelope.getEpoch();
      known_["INCARNAT"] = envelope.getWelcome().getController();
      script_.Insert({kWorkers, to, {control::EncodeMessage<wire::WorkerMessage>([&](auto answer) {
                        auto ready = answer.initReady();
                        ready.setRank(envelope.getWelcome().getRank());
                        ready.setEpoch(envelope.getEpoch());
                      })}});
    }
    if (envelope.isBatch() && envelope.getRequest() != 0) {
      script_.Insert({kWorkers, to, {control::EncodeMessage<wire::WorkerMessage>([&](auto answer) {
                        auto reply = answer.initReply();
                        reply.setSession(envelope.getSession());
                        reply.setGeneration(envelope.getGeneration());
                        reply.setRequest(envelope.getRequest());
                      })}});
    }
    return OkStatus();
  });
}

void ControllerRun::HearClientBeingTold(const control::Message& message) {
  // What the controller says can be read: its answer to a peer that speaks another protocol too.
  if (control::HasTag(message[0], control::Protocol::kWrongProtocol)) {
    const Status introduced = control::DecodeMessage<wire::WrongProtocol>(
        message[0], [](wire::WrongProtocol::Reader) { return OkStatus(); });
    if (!introduced.ok()) std::abort();
    return;
  }
  const Status read = control::DecodeMessage<wire::ControllerMessage>(
      message[0], [&](wire::ControllerMessage::Reader reader) {
        if (!reader.isSessionOpened()) return OkStatus();
        const std::string token = control::ToString(reader.getSessionOpened().getToken());
        for (size_t i = 0; (i + 1) * kTokenWord <= token.size(); ++i) {
          std::memcpy(&known_["TOKEN--" + std::to_string(i)], token.data() + i * kTokenWord,
                      kTokenWord);
        }
        return OkStatus();
      });
  if (!read.ok()) std::abort();
}

void ControllerRun::Run() {
  controller::ControllerOptions options;
  options.workers = kWorkerCount;
  options.heartbeat_interval = 1min;
  options.worker_timeout = 10min;
  options.poll_before_sleep = 0us;
  auto controller = controller::Controller::Start(
      options,
      {std::make_unique<ScriptedServerChannel>(
           script_, kClients,
           [this](const control::PeerName&, const control::Message& message) {
             HearClientBeingTold(message);
           }),
       std::make_unique<ScriptedServerChannel>(
           script_, kWorkers,
           [this](const control::PeerName& to, const control::Message& message) {
             HearWorkerBeingTold(to, message);
           }),
       std::make_unique<ScriptedServerChannel>(
           liveness_script_, 0, [](const control::PeerName&, const control::Message&) {})});
  if (!controller.ok()) std::abort();
  script_.WaitUntilDone();
  (*controller)->RequestStop("the input has ended");
  if (!(*controller)->Wait(Deadline::After(1min)).ok()) std::abort();
}

}  // namespace lockstep::fuzz
