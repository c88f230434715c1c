// A client made by hand, which says what no Session would.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "runtime/base/deadline.h"
#include "runtime/base/host_identity.h"
#include "runtime/base/ids.h"
#include "runtime/base/version.h"
#include "runtime/client/address.h"
#include "runtime/control/batch.h"
#include "runtime/control/channel.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/input_waiter.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "schemas/session.capnp.h"

namespace lockstep::testing {

// A batch after which rank 1 sleeps for an hour, and the others wait for it in a barrier, until
// they are aborted.
inline constexpr uint32_t kStuckCommands = 3;
inline control::Frame StuckBody() {
  const uint64_t sleep = RegisterId{0, 1}.Packed();
  control::BatchWriter writer;
  EXPECT_TRUE(writer
                  .Add([&](wire::Command::Builder command) {
                    auto get = command.initGetFunction();
                    get.setName("lockstep.sleep");
                    get.setResult(sleep);
                  })
                  .ok());
  EXPECT_TRUE(writer
                  .Add([&](wire::Command::Builder command) {
                    auto call = command.initCall();
                    call.setFunction(sleep);
                    auto args = call.initArgs(2);
                    args[0].setFloat64(3600);
                    args[1].setInt64(1);
                  })
                  .ok());
  EXPECT_TRUE(writer
                  .Add([](wire::Command::Builder command) {
                    command.initCollective().setKind(wire::CollectiveKind::BARRIER);
                  })
                  .ok());
  return writer.Take();
}

class WireClient {
 public:
  explicit WireClient(const ControllerAddress& controller) {
    control::ZmqOptions options;
    options.credentials = *control::CredentialsFrom(controller.key, controller.controller_key);
    channel_ = std::move(
        *control::ZmqConnect(control::ZmqContext::Create(), controller.endpoint, options));
  }

  void SendFrames(const control::Message& message) { ASSERT_TRUE(channel_->Send(message).ok()); }
  template <typename Fill>
  void Send(Fill fill, control::Frame body = {}) {
    control::Message message = {control::EncodeMessage<wire::ClientMessage>(fill)};
    if (body.size() > 0) message.push_back(std::move(body));
    SendFrames(message);
  }

  // Waits for a message that `use` returns true for; false if none comes.
  template <typename Use>
  bool WaitFor(Use use, std::chrono::milliseconds patience = std::chrono::seconds(20)) {
    const Deadline deadline = Deadline::After(patience);
    control::InputWaiter waiter{std::chrono::microseconds(0)};
    control::Channel* const channels[] = {channel_.get()};
    while (waiter.Wait(channels, {}, deadline)) {
      control::Message message;
      while (channel_->Receive(&message)) {
        bool found = false;
        EXPECT_TRUE(control::DecodeMessage<wire::ControllerMessage>(
                        message[0],
                        [&](wire::ControllerMessage::Reader reader) {
                          found = use(reader);
                          return OkStatus();
                        })
                        .ok());
        if (found) return true;
      }
    }
    return false;
  }

  // Opens a session, with the versions given; OK or why it was refused.
  Status Open(uint32_t min_version = kOldestProtocolVersion,
              uint32_t max_version = kProtocolVersion) {
    Send([&](wire::ClientMessage::Builder message) {
      auto open = message.initOpenSession();
      open.setMinVersion(min_version);
      open.setMaxVersion(max_version);
      open.setBuild("7.7.7");
      open.setName("made by hand");
      open.initHost().setId(ThisHost().id);
      open.setPid(getpid());
      open.setTimeoutMillis(20'000);
    });
    Status status = DeadlineExceeded("no answer to openSession");
    WaitFor([&](wire::ControllerMessage::Reader reader) {
      if (reader.isSessionOpened()) {
        session_ = SessionId(reader.getSessionOpened().getSession());
        bulk_endpoint_ = reader.getSessionOpened().getWorkers()[0].getBulkEndpoint().cStr();
        bulk_key_ = reader.getSessionOpened().getWorkers()[0].getBulkKey().cStr();
        status = OkStatus();
      } else if (reader.isRefused()) {
        status = control::ReadError(reader.getRefused().getError()).ToStatus();
      }
      return reader.isSessionOpened() || reader.isRefused();
    });
    return status;
  }

  // Sends a batch to a session (not always one's own).
  void SendBatch(SessionId session, const control::Frame& body, uint64_t first_command = 1,
                 uint64_t request = 0, Rank answer_from = -1, uint32_t command_count = 1,
                 std::chrono::milliseconds timeout = std::chrono::seconds(20),
                 uint32_t generation = 0) {
    control::Message message = {
        control::EncodeMessage<wire::ClientMessage>([&](wire::ClientMessage::Builder builder) {
          auto batch = builder.initBatch();
          batch.setSession(session.value);
          batch.setGeneration(generation);
          batch.setFirstCommand(first_command);
          batch.setCommandCount(command_count);
          batch.setRegisterGenerations(1);
          batch.setRequest(request);
          batch.setAnswerFrom(answer_from);
          batch.setTimeoutMillis(static_cast<uint64_t>(timeout.count()));
        }),
        body};
    SendFrames(message);
  }

  void SendClose(uint64_t request, std::chrono::milliseconds timeout) {
    Send([&](wire::ClientMessage::Builder message) {
      auto close = message.initCloseSession();
      close.setSession(session_.value);
      close.setRequest(request);
      close.setTimeoutMillis(static_cast<uint64_t>(timeout.count()));
    });
  }
  void SendReset(uint32_t generation, uint64_t request, uint64_t next_command = 0) {
    Send([&](wire::ClientMessage::Builder message) {
      auto reset = message.initResetSession();
      reset.setSession(session_.value);
      reset.setGeneration(generation);
      reset.setRequest(request);
      reset.setNextCommand(next_command);
      reset.setTimeoutMillis(20'000);
    });
  }
  // What the controller says of this session when it has handled all that was sent before; `look`
  // gets its SessionStatus. False if it says nothing.
  template <typename Look>
  bool Inspect(Look look, std::chrono::milliseconds patience = std::chrono::seconds(20)) {
    constexpr uint64_t kInspection = 4711;
    Send([](wire::ClientMessage::Builder message) { message.setStatus(kInspection); });
    bool found = false;
    const auto find = [&](wire::ControllerMessage::Reader reader) {
      if (!reader.isClusterStatus()) return false;
      for (auto session : reader.getClusterStatus().getSessions()) {
        if (session.getSession() != session_.value) continue;
        found = true;
        look(session);
      }
      return true;
    };
    return WaitFor(find, patience) && found;
  }

  // The error of the next refusal, failure of the session, or answer.
  Status NextVerdict() {
    Status status = DeadlineExceeded("no verdict came");
    WaitFor([&](wire::ControllerMessage::Reader reader) {
      if (reader.isRefused()) {
        status = control::ReadError(reader.getRefused().getError()).ToStatus();
        return true;
      }
      if (reader.isSessionFailed()) {
        status = control::ReadError(reader.getSessionFailed().getError()).ToStatus();
        return true;
      }
      if (reader.isAnswer()) {
        status = reader.getAnswer().hasError()
                     ? control::ReadError(reader.getAnswer().getError()).ToStatus()
                     : OkStatus();
        return true;
      }
      return false;
    });
    return status;
  }

  SessionId session() const { return session_; }
  // Worker-0's, as the answer to Open() has told.
  const std::string& bulk_endpoint() const { return bulk_endpoint_; }
  const std::string& bulk_key() const { return bulk_key_; }

 private:
  std::unique_ptr<control::ClientChannel> channel_;
  SessionId session_;
  std::string bulk_endpoint_;
  std::string bulk_key_;
};

}  // namespace lockstep::testing
