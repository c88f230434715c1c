#include "runtime/client/session_core.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "runtime/client/link.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/message_codec.h"
#include "schemas/control.capnp.h"
#include "schemas/session.capnp.h"
#include "tests/support/fake_channel.h"

namespace lockstep::client {
namespace {

using namespace std::chrono_literals;

template <typename Fill>
control::Frame Encode(Fill fill) {
  return control::EncodeMessage<wire::ControllerMessage>(fill);
}

// The thread that hands lines over may have read the error, too, before any call asks for it.
TEST(SessionCoreTest, WhatWasPrintedBeforeAnErrorIsHandedOverBeforeACallReturnsIt) {
  auto channel = std::make_unique<support::FakeChannel>();
  channel->Arrive(
      {Encode([](auto message) { message.initSessionOpened().setLeaseMillis(60'000); })});
  channel->Arrive({Encode([](auto message) { message.initOutput().setRank(2); }),
                   control::EncodeMessage<wire::OutputLines>([](wire::OutputLines::Builder lines) {
                     constexpr char kText[] = "last words";
                     lines.initLines(1)[0].setText(
                         kj::arrayPtr(reinterpret_cast<const kj::byte*>(kText), sizeof kText - 1));
                   })});
  channel->Arrive({Encode([](auto message) {
    control::WriteError(message.initSessionFailed().initError(),
                        control::ErrorOf(Internal("boom")));
  })});
  channel->Arrive({Encode([](auto message) { message.setShutdown("enough"); })});
  OpenRequest request;
  request.timeout = 20s;
  auto link = Link::Open(request, std::move(channel));
  ASSERT_TRUE(link.ok()) << link.status();

  std::atomic<bool> is_handed_over{false};
  SessionCore core(*std::move(link), 1s, [&](const WorkerOutput& output) {
    std::this_thread::sleep_for(100ms);  // a callback takes its time
    is_handed_over = output.text == "last words";
  });
  while (core.Flush().ok()) std::this_thread::yield();
  EXPECT_TRUE(is_handed_over);
}

}  // namespace
}  // namespace lockstep::client
