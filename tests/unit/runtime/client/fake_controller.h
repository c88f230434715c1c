// A controller and its workers in one object, for tests of a session without a cluster.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/client/link.h"
#include "runtime/client/session_core.h"
#include "runtime/control/batch.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/message_codec.h"
#include "schemas/control.capnp.h"
#include "schemas/session.capnp.h"
#include "tests/support/fake_channel.h"

namespace lockstep::client {

// Answers at once what is sent to it, on the thread that sends.
class FakeController {
 public:
  // Of a session that is open, in generation 0.
  std::unique_ptr<Link> Connect() {
    auto channel = std::make_unique<support::FakeChannel>();
    channel_ = channel.get();
    Say([&](wire::ControllerMessage::Builder message) {
      auto opened = message.initSessionOpened();
      opened.setSession(1);
      opened.setLeaseMillis(static_cast<uint32_t>(lease.count()));
      opened.setFlowWindowBytes(flow_window_bytes);
      opened.setMaxBatchBytes(1 << 20);
      opened.initRecord().setNumGroups(static_cast<uint32_t>(num_groups));
      auto workers = opened.initWorkers(static_cast<unsigned>(num_workers));
      for (unsigned rank = 0; rank < workers.size(); ++rank) {
        workers[rank].setRank(static_cast<int32_t>(rank));
        workers[rank].setPid(static_cast<int32_t>(17 + rank));
      }
    });
    channel_->on_sent = [this](const control::Message& message) { Take(message); };
    OpenRequest request;
    request.timeout = std::chrono::seconds(20);
    auto link = Link::Open(request, std::move(channel));
    EXPECT_TRUE(link.ok()) << link.status();
    return *std::move(link);
  }
  std::unique_ptr<SessionCore> Open() {
    return std::make_unique<SessionCore>(Connect(), std::chrono::seconds(20), nullptr);
  }

  // It sends the message that `fill` writes.
  template <typename Fill>
  void Say(Fill fill) {
    channel_->Arrive({control::EncodeMessage<wire::ControllerMessage>(fill)});
  }
  void SayFailed(uint32_t generation, const Status& why) {
    Say([&](wire::ControllerMessage::Builder message) {
      auto failed = message.initSessionFailed();
      failed.setGeneration(generation);
      control::WriteError(failed.initError(), control::ErrorOf(why));
    });
  }

  // Of the session, when it is opened.
  int num_workers = 1;
  int num_groups = 1;
  std::chrono::milliseconds lease{60'000};
  uint64_t flow_window_bytes = 1 << 20;
  // Called with each message of the client that keeps the lease, on the thread that sends it. None
  // is answered: the controller is silent unless it is asked.
  std::function<void()> on_keep_alive;
  // What the next resets are answered with, and whether they are: else they wait for the next one
  // that is.
  Status reset_answer;
  bool answers_resets = true;
  // What the next batches that ask are answered with, and whether they are: else they wait for
  // AnswerBatches().
  Status batch_answer;
  bool answers_batches = true;
  void AnswerBatches() {
    for (const uint64_t request : std::exchange(waiting_batches_, {})) {
      Answer(request, OkStatus());
    }
  }
  // Called before the next batch is answered, once.
  std::function<void()> on_next_batch;
  // Called before a reset of that generation is answered.
  std::function<void(uint32_t generation)> on_reset;
  // Where worker-0 says that every register is, and that what it lends is.
  std::function<Status(wire::TensorLocation::Builder)> locate =
      [](wire::TensorLocation::Builder) -> Status { return NotFound("the register was freed"); };

  // What has come.
  struct Batch {
    uint32_t generation = 0;
    uint64_t first_command = 0;
    std::vector<wire::Command::Which> commands;
    uint64_t waited_nanos = 0;
  };
  std::vector<Batch> batches;
  // How many: for threads that do not send them.
  std::atomic<int> num_batches{0};
  std::atomic<int> num_made{0};  // commands that make an empty tensor
  // How the commands that bind a program have named it.
  std::vector<wire::Binding::Which> bindings;
  // Of the last collective: whether its root gives the source away.
  bool gives_source = false;
  // The names of the loans that were asked for (0: the register's), and of registers that were let
  // go.
  std::vector<uint64_t> loans;
  std::vector<uint64_t> released;
  std::vector<uint32_t> resets;
  int locates = 0;
  wire::BytesWish bytes_wish{};  // of the last that asked where a register is

 private:
  void Take(const control::Message& message) {
    EXPECT_TRUE(control::DecodeMessage<wire::ClientMessage>(
                    message[0],
                    [&](wire::ClientMessage::Reader reader) {
                      if (reader.isBatch()) TakeBatch(reader.getBatch(), message[1]);
                      if (reader.isKeepAlive() && on_keep_alive) on_keep_alive();
                      if (reader.isResetSession()) TakeReset(reader.getResetSession());
                      if (reader.isCloseSession()) {
                        Answer(reader.getCloseSession().getRequest(), OkStatus());
                      }
                      return OkStatus();
                    })
                    .ok());
  }
  void TakeBatch(wire::Batch::Reader batch, const control::Frame& body) {
    Batch taken{batch.getGeneration(), batch.getFirstCommand(), {}, batch.getWaitedNanos()};
    bool is_located = false;
    control::BatchReader commands(body);
    while (!commands.AtEnd()) {
      EXPECT_TRUE(commands
                      .Next([&](wire::Command::Reader command) {
                        taken.commands.push_back(command.which());
                        is_located = is_located || command.isLocate() || command.isLend();
                        if (command.isLocate()) bytes_wish = command.getLocate().getBytes();
                        if (command.isCollective()) {
                          gives_source = command.getCollective().getGivesSource();
                        }
                        if (command.isEmpty()) ++num_made;
                        if (command.isLend()) loans.push_back(command.getLend().getLoan());
                        if (command.isRelease()) {
                          for (const uint64_t name : command.getRelease().getRegisters()) {
                            released.push_back(name);
                          }
                        }
                        if (command.isBind()) {
                          bindings.push_back(command.getBind().getBinding().which());
                        }
                        return OkStatus();
                      })
                      .ok());
    }
    batches.push_back(std::move(taken));
    ++num_batches;
    if (on_next_batch) std::exchange(on_next_batch, nullptr)();
    if (batch.getRequest() == 0) return;
    if (!answers_batches) return waiting_batches_.push_back(batch.getRequest());
    if (!is_located || !batch_answer.ok()) return Answer(batch.getRequest(), batch_answer);
    ++locates;
    Status status;
    const control::Frame location = control::EncodeMessage<wire::TensorLocation>(
        [&](wire::TensorLocation::Builder builder) { status = locate(builder); });
    Answer(batch.getRequest(), status, location);
  }
  void TakeReset(wire::ResetSession::Reader reset) {
    resets.push_back(reset.getGeneration());
    if (on_reset) on_reset(reset.getGeneration());
    waiting_resets_.push_back(reset.getRequest());
    if (!answers_resets) return;
    for (const uint64_t request : std::exchange(waiting_resets_, {})) Answer(request, reset_answer);
  }
  void Answer(uint64_t request, const Status& status,
              const std::optional<control::Frame>& body = std::nullopt) {
    control::Message answer = {control::EncodeMessage<wire::ControllerMessage>(
        [&](wire::ControllerMessage::Builder message) {
          auto reply = message.initAnswer();
          reply.setRequest(request);
          if (!status.ok()) control::WriteError(reply.initError(), control::ErrorOf(status));
        })};
    if (status.ok() && body.has_value()) answer.push_back(*body);
    channel_->Arrive(std::move(answer));
  }

  support::FakeChannel* channel_ = nullptr;  // the link's
  std::vector<uint64_t> waiting_resets_;     // by request
  std::vector<uint64_t> waiting_batches_;    // the same
};

}  // namespace lockstep::client
