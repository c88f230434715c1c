#include "tests/unit/services/controller/parts_fixture.h"

#include <algorithm>

#include "runtime/base/version.h"
#include "runtime/control/batch.h"
#include "runtime/control/value_codec.h"

namespace lockstep::controller {
namespace {

std::string Describe(wire::Error::Reader reader) {
  const control::RemoteError error = control::ReadError(reader);
  std::string text = absl::StatusCodeToString(error.code);
  if (error.rank >= 0) text += " rank " + std::to_string(error.rank);
  if (error.command > 0) text += " command " + std::to_string(error.command);
  return text + ": " + error.message;
}

std::string Describe(wire::ControllerMessage::Reader reader) {
  switch (reader.which()) {
    case wire::ControllerMessage::SESSION_OPENED:
      return "opened " + std::to_string(reader.getSessionOpened().getSession()) +
             (reader.getSessionOpened().getUnderWayBytes() == 0
                  ? ""
                  : ", " + std::to_string(reader.getSessionOpened().getUnderWayBytes()) +
                        " bytes under way");
    case wire::ControllerMessage::REFUSED:
      return std::string(reader.getRefused().getResume() ? "refused to resume " : "refused ") +
             Describe(reader.getRefused().getError());
    case wire::ControllerMessage::ANSWER: {
      auto answer = reader.getAnswer();
      return "answer " + std::to_string(answer.getRequest()) + " " +
             (answer.hasError() ? Describe(answer.getError()) : "OK");
    }
    case wire::ControllerMessage::SESSION_FAILED:
      return "failed " + std::to_string(reader.getSessionFailed().getSession()) + "." +
             std::to_string(reader.getSessionFailed().getGeneration()) + " " +
             Describe(reader.getSessionFailed().getError());
    case wire::ControllerMessage::CREDIT:
      return "credit " + std::to_string(reader.getCredit().getConsumedBytes());
    case wire::ControllerMessage::CLUSTER_STATUS:
      return "status";
    case wire::ControllerMessage::SHUTDOWN:
      return "shutdown: " + control::ToString(reader.getShutdown());
    case wire::ControllerMessage::KEEP_ALIVE:
      return "alive, has sent " + std::to_string(reader.getKeepAlive().getSent()) +
             (reader.getKeepAlive().getMissing() ? ", misses some" : "");
    case wire::ControllerMessage::WORKERS_REPLACED: {
      std::string text = "replaced";
      for (auto one : reader.getWorkersReplaced().getReplaced()) {
        text += " rank " + std::to_string(one.getRank()) + " from command " +
                std::to_string(one.getFromCommand());
      }
      return text;
    }
    case wire::ControllerMessage::OUTPUT:
      return "output of rank " + std::to_string(reader.getOutput().getRank()) + ", dropped " +
             std::to_string(reader.getOutput().getDropped());
    case wire::ControllerMessage::TRACE:
      return "trace " + (reader.getTrace().hasError() ? Describe(reader.getTrace().getError())
                                                      : std::string("OK"));
    case wire::ControllerMessage::REGISTER_LISTING: {
      std::string text = "registers";
      for (auto rank : reader.getRegisterListing().getRanks()) {
        text += " rank " + std::to_string(rank.getRank()) +
                (rank.hasHeld() ? " held" : ": " + control::ToString(rank.getWhy()));
      }
      return text;
    }
  }
  return "?";
}

std::string Describe(const control::Message& message) {
  std::string text;
  const Status read = control::DecodeMessage<wire::ControllerMessage>(message[0], [&](auto reader) {
    text = Describe(reader);
    return OkStatus();
  });
  if (!read.ok()) text = Message(read);
  return message.size() > 1 ? text + " with a body" : text;
}

std::string DescribeBody(const control::Frame& body) {
  std::string text;
  control::BatchReader reader(body);
  (void)reader.Next([&](wire::Command::Reader command) {
    switch (command.which()) {
      case wire::Command::OPEN_SESSION:
        text = "open";
        break;
      case wire::Command::CLOSE_SESSION:
        text = command.getCloseSession().getClientLost() ? "close, client lost" : "close";
        break;
      case wire::Command::RESET:
        text = "reset from " + std::to_string(command.getReset().getFailedFrom());
        break;
      case wire::Command::NAME_REGISTER:
        text = "name " + control::ToString(command.getNameRegister().getName());
        break;
      case wire::Command::LOAD_FRAGMENT:
        text = "load " + control::ToString(command.getLoadFragment().getName());
        break;
      case wire::Command::ADOPT:
        text = "adopt client " + std::to_string(command.getAdopt().getClientNumber());
        break;
      default:
        text = "other";
    }
    return OkStatus();
  });
  return text;
}

std::string DescribeEnvelope(const control::Message& message) {
  std::string text;
  const Status read =
      control::DecodeMessage<wire::Envelope>(message[0], [&](wire::Envelope::Reader reader) {
        switch (reader.which()) {
          case wire::Envelope::WELCOME: {
            auto welcome = reader.getWelcome();
            text = "welcome rank " + std::to_string(welcome.getRank()) + " epoch " +
                   std::to_string(reader.getEpoch());
            for (auto session : welcome.getSessions()) {
              text += " session " + std::to_string(session.getSession()) + "." +
                      std::to_string(session.getGeneration()) + " at " +
                      std::to_string(session.getNextCommand());
            }
            if (welcome.getForget()) text += " forget";
            if (welcome.hasRingNonce()) {
              text += " ring at " + control::ToString(welcome.getRingAddress()) + ": " +
                      control::ToString(welcome.getRingNonce());
            }
            if (welcome.hasRelayTree()) text += " place in tree";
            break;
          }
          case wire::Envelope::REFUSED:
            text = "refused " + Describe(reader.getRefused().getError());
            break;
          case wire::Envelope::SHUTDOWN:
            text = "shutdown: " + control::ToString(reader.getShutdown());
            break;
          case wire::Envelope::WAITING:
            text = "wait";
            break;
          case wire::Envelope::OUT_OF_REACH:
            text = "out of reach: " + control::ToString(reader.getOutOfReach());
            break;
          case wire::Envelope::BATCH:
            text = std::to_string(reader.getSequence()) + ": session " +
                   std::to_string(reader.getSession()) + "." +
                   std::to_string(reader.getGeneration()) +
                   (reader.getFirstCommand() == 0
                        ? " " + DescribeBody(message[1])
                        : " command " + std::to_string(reader.getFirstCommand()));
            break;
        }
        // A worker that has joined takes a message of another epoch than its own for an error.
        if (reader.getEpoch() == 0) text += " without an epoch";
        return OkStatus();
      });
  if (!read.ok()) text = Message(read);
  return text;
}

}  // namespace

PartsFixture::PartsFixture() {
  options_.cluster = "test";
  options_.workers = 2;
  liveness_.on_abort = [this](const FakeLiveness::Aborted& abort) {
    Collect();
    said_.push_back(
        {{},
         std::to_string(abort.session.value) + "." + std::to_string(abort.generation.value) +
             " from " + std::to_string(abort.from_command) + ": " + abort.cause.message +
             (abort.only.has_value() ? " (rank " + std::to_string(*abort.only) + ")" : "")});
  };
}

void PartsFixture::Start(Epoch incarnation) {
  Forget();
  metrics_ = std::make_unique<Metrics>(options_, clock_);
  dispatcher_ = std::make_unique<Dispatcher>(
      Surroundings{options_,
                   clock_,
                   processes_,
                   liveness_,
                   reachability_,
                   client_rings_,
                   rings_,
                   tree_,
                   *metrics_,
                   gate_,
                   {"tcp://liveness", incarnation, "tcp://controller:1", "tcp://controller:2"}},
      [this](const std::string& reason) { shutdowns_.push_back(reason); });
  dispatcher_->HandleTimers();
}

void PartsFixture::StartReady() {
  Start();
  for (Rank rank = 0; rank < options_.workers; ++rank) Hello("w" + std::to_string(rank), rank);
  for (Rank rank = 0; rank < options_.workers; ++rank) {
    // It gets what it is sent.
    liveness_.heard[rank].activity.received = uint64_t{1} << 40;
    Ready("w" + std::to_string(rank));
  }
  Forget();
}

Status PartsFixture::FromClient(const control::PeerName& client, const Fill& fill) {
  const control::Message message = {control::EncodeMessage<wire::ClientMessage>(fill)};
  return dispatcher_->HandleClient(client, sender_.has_value() ? &*sender_ : nullptr, message);
}

Status PartsFixture::FromWorker(const control::PeerName& worker, const FillWorker& fill,
                                const std::string& body) {
  control::Message message = {control::EncodeMessage<wire::WorkerMessage>(fill)};
  if (!body.empty()) message.push_back(control::Frame::Copy(body.data(), body.size()));
  return dispatcher_->HandleWorker(worker, message);
}

void PartsFixture::Hello(const control::PeerName& worker, Rank rank,
                         const std::function<void(wire::Hello::Builder)>& fill) {
  ASSERT_EQ(FromWorker(worker,
                       [&](auto message) {
                         auto hello = message.initHello();
                         hello.setMinVersion(kOldestProtocolVersion);
                         hello.setMaxVersion(kProtocolVersion);
                         hello.setRank(rank);
                         hello.initHost().setName("node");
                         hello.setPid(100 + std::max(rank, 0));
                         if (fill) fill(hello);
                       }),
            OkStatus());
}

void PartsFixture::Ready(const control::PeerName& worker) {
  ASSERT_EQ(FromWorker(worker,
                       [&](auto message) {
                         auto ready = message.initReady();
                         ready.setBackend("shm");
                         ready.setEpoch(parts().membership.epoch().value);
                       }),
            OkStatus());
}

void PartsFixture::Lose(Rank rank, const std::string& reason) {
  liveness_.losses.push_back(
      {rank, parts().membership.member(rank).watch, reason, liveness_.heard[rank]});
  dispatcher_->HandleLosses();
}

void PartsFixture::Pass(std::chrono::milliseconds time) {
  const TimePoint end = clock_.now + time;
  while (clock_.now < end) {
    clock_.now = std::clamp(dispatcher_->next_timer().when(),
                            clock_.now + std::chrono::milliseconds(1), end);
    if (dispatcher_->next_timer().when() <= clock_.now) dispatcher_->HandleTimers();
  }
}

SessionId PartsFixture::Open(const control::PeerName& client,
                             const std::function<void(wire::OpenSession::Builder)>& fill) {
  EXPECT_EQ(FromClient(client,
                       [&](auto message) {
                         auto open = message.initOpenSession();
                         open.setMinVersion(kOldestProtocolVersion);
                         open.setMaxVersion(kProtocolVersion);
                         open.setName("program");
                         open.initHost().setName("node");
                         open.setPid(7);
                         if (fill) fill(open);
                       }),
            OkStatus());
  Forget();
  const std::vector<SessionId> ids = parts().sessions.Ids();
  return ids.empty() ? SessionId() : ids.back();
}

Status PartsFixture::Batch(const control::PeerName& client, SessionId id, Generation generation,
                           uint64_t first, uint64_t request, uint32_t count, size_t body_bytes) {
  const std::string body(body_bytes, 'b');
  const control::Message message = {
      control::EncodeMessage<wire::ClientMessage>([&](wire::ClientMessage::Builder builder) {
        auto batch = builder.initBatch();
        batch.setSession(id.value);
        batch.setGeneration(generation.value);
        batch.setFirstCommand(first);
        batch.setCommandCount(count);
        batch.setRequest(request);
        batch.setTimeoutMillis(5000);
      }),
      control::Frame::Copy(body.data(), body.size())};
  return dispatcher_->HandleClient(client, sender_.has_value() ? &*sender_ : nullptr, message);
}

Status PartsFixture::Reset(const control::PeerName& client, SessionId id, uint32_t generation,
                           uint64_t request, uint64_t next_command, uint64_t sent_bytes) {
  return FromClient(client, [&](auto message) {
    auto reset = message.initResetSession();
    reset.setSession(id.value);
    reset.setGeneration(generation);
    reset.setRequest(request);
    reset.setTimeoutMillis(5000);
    reset.setNextCommand(next_command);
    reset.setSentBytes(sent_bytes);
  });
}

void PartsFixture::Close(const control::PeerName& client, SessionId id, uint64_t request,
                         uint64_t timeout_millis) {
  EXPECT_EQ(FromClient(client,
                       [&](auto message) {
                         auto close = message.initCloseSession();
                         close.setSession(id.value);
                         close.setRequest(request);
                         close.setTimeoutMillis(timeout_millis);
                       }),
            OkStatus());
}

void PartsFixture::Reply(Rank rank, SessionId id, uint64_t request, StatusCode code,
                         uint32_t generation) {
  EXPECT_EQ(FromWorker("w" + std::to_string(rank),
                       [&](auto message) {
                         auto reply = message.initReply();
                         reply.setSession(id.value);
                         reply.setRequest(request);
                         reply.setGeneration(generation);
                         if (code == StatusCode::kOk) return;
                         control::RemoteError error;
                         error.code = code;
                         error.rank = rank;
                         error.message = "of rank " + std::to_string(rank);
                         control::WriteError(reply.initError(), error);
                       }),
            OkStatus());
}

void PartsFixture::ReplyAll(SessionId id, uint64_t request) {
  for (Rank rank = 0; rank < options_.workers; ++rank) Reply(rank, id, request);
}

void PartsFixture::Fail(Rank rank, SessionId id, uint64_t command, const std::string& message,
                        uint32_t generation, StatusCode code) {
  EXPECT_EQ(FromWorker("w" + std::to_string(rank),
                       [&](auto builder) {
                         auto failure = builder.initFailure();
                         failure.setGeneration(generation);
                         control::RemoteError error;
                         error.code = code;
                         error.session = id;
                         error.command = command;
                         error.message = message;
                         control::WriteError(failure.initError(), error);
                       }),
            OkStatus());
}

void PartsFixture::Consume(Rank rank, SessionId id, uint64_t bytes) {
  EXPECT_EQ(FromWorker("w" + std::to_string(rank),
                       [&](auto builder) {
                         auto consumed = builder.initConsumed();
                         consumed.setSession(id.value);
                         consumed.setBytes(bytes);
                       }),
            OkStatus());
}

void PartsFixture::Collect() {
  if (dispatcher_ == nullptr) return;
  for (const Outbox::Item& item : parts().outbox.items()) said_.push_back({item, ""});
  parts().outbox.Clear();
}

void PartsFixture::Forget() {
  Collect();
  said_.clear();
}

void PartsFixture::TakeItems(const std::function<bool(const Outbox::Item&)>& take) {
  Collect();
  std::erase_if(said_, [&](const Said& said) { return said.abort.empty() && take(said.item); });
}

std::vector<std::string> PartsFixture::ToClient(const control::PeerName& client) {
  std::vector<std::string> lines;
  TakeItems([&](const Outbox::Item& item) {
    if (item.to != Outbox::Item::To::kClient || item.peer != client) return false;
    lines.push_back(Describe(item.message));
    return true;
  });
  return lines;
}

std::vector<std::string> PartsFixture::ToWorker(const control::PeerName& worker) {
  std::vector<std::string> lines;
  TakeItems([&](const Outbox::Item& item) {
    if (item.to != Outbox::Item::To::kWorker || item.peer != worker) return false;
    lines.push_back(DescribeEnvelope(item.message));
    return true;
  });
  return lines;
}

std::vector<std::string> PartsFixture::ToAllWorkers() {
  std::vector<std::string> lines;
  TakeItems([&](const Outbox::Item& item) {
    if (item.to != Outbox::Item::To::kAllWorkers) return false;
    lines.push_back(DescribeEnvelope(item.message));
    return true;
  });
  return lines;
}

std::vector<std::string> PartsFixture::Aborts() {
  Collect();
  std::vector<std::string> lines;
  std::erase_if(said_, [&](const Said& said) {
    if (said.abort.empty()) return false;
    lines.push_back(said.abort);
    return true;
  });
  return lines;
}

std::vector<std::string> PartsFixture::Journal() {
  Collect();
  std::vector<std::string> lines;
  for (const auto& [item, abort] : std::exchange(said_, {})) {
    if (!abort.empty()) {
      lines.push_back("abort " + abort);
    } else if (item.to == Outbox::Item::To::kClient) {
      lines.push_back(item.peer + ": " + Describe(item.message));
    } else {
      lines.push_back((item.to == Outbox::Item::To::kWorker ? item.peer : "all") + ": " +
                      DescribeEnvelope(item.message));
    }
  }
  return lines;
}

}  // namespace lockstep::controller
