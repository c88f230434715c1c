#include "runtime/control/protocol.h"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/version.h"
#include "runtime/control/message_codec.h"
#include "schemas/bulk.capnp.h"
#include "schemas/control.capnp.h"
#include "schemas/membership.capnp.h"
#include "schemas/protocol.capnp.h"
#include "schemas/session.capnp.h"

namespace lockstep::control {
namespace {

using ::testing::HasSubstr;

// A message of one protocol, and what reads it.
struct Spoken {
  std::string name;
  Protocol protocol;
  Frame frame;
  std::function<Status(const Frame&)> read;
};

template <typename Schema>
Spoken Speaks(std::string name, void (*fill)(typename Schema::Builder)) {
  return {std::move(name), kProtocolOf<Schema>, EncodeMessage<Schema>(fill),
          [](const Frame& frame) {
            return DecodeMessage<Schema>(frame, [](typename Schema::Reader) { return OkStatus(); });
          }};
}

// Each with the kind of message that is least likely to be refused by another's reader.
std::vector<Spoken> AllProtocols() {
  return {
      Speaks<wire::ClientMessage>("client", [](auto message) { message.setStatus(1); }),
      Speaks<wire::ControllerMessage>("controller to client",
                                      [](auto message) { message.initClusterStatus(); }),
      Speaks<wire::WorkerMessage>("worker", [](auto message) { message.initHello(); }),
      Speaks<wire::Envelope>("controller to worker", [](auto message) { message.initWelcome(); }),
      Speaks<wire::LivenessMessage>("liveness", [](auto message) { message.initHeartbeat(); }),
      Speaks<wire::BulkRequest>("bulk request", [](auto message) { message.setTicket(73); }),
      Speaks<wire::BulkReply>("bulk reply", [](auto message) { message.setTicket(73); }),
      Speaks<wire::WrongProtocol>("wrong protocol", [](auto message) { message.setSpeaker("a"); }),
  };
}

// As processes sent it before messages had tags.
template <typename Schema>
Frame WithoutTag(void (*fill)(typename Schema::Builder)) {
  const Frame frame = EncodeMessage<Schema>(fill);
  return Frame::Copy(frame.data() + kTagBytes, frame.size() - kTagBytes);
}

Frame WithByte(const Frame& frame, size_t at, uint8_t value) {
  std::string bytes(reinterpret_cast<const char*>(frame.data()), frame.size());
  bytes[at] = static_cast<char>(value);
  return Frame::Copy(bytes.data(), bytes.size());
}

TEST(ProtocolTest, AMessageIsReadByItsOwnProtocolAndByNoOther) {
  for (const Spoken& sent : AllProtocols()) {
    for (const Spoken& receiver : AllProtocols()) {
      const Status read = receiver.read(sent.frame);
      if (sent.protocol == receiver.protocol) {
        EXPECT_EQ(read, OkStatus()) << sent.name;
      } else {
        EXPECT_EQ(read.code(), StatusCode::kFailedPrecondition)
            << sent.name << " read as " << receiver.name;
      }
    }
  }
}

TEST(ProtocolTest, AMessageOfAnotherProtocolIsAnErrorThatNamesItsSender) {
  const Frame reply =
      EncodeMessage<wire::BulkReply>([](wire::BulkReply::Builder m) { m.setTicket(73); });
  const std::string error =
      lockstep::Message(CheckProtocol(reply, Protocol::kControllerToClient, "tcp://10.0.0.1:7000"));
  EXPECT_EQ(error, std::string("a worker's bulk socket of Lockstep ") + kBuildVersion +
                       " answers at tcp://10.0.0.1:7000, not a controller's client port");
}

TEST(ProtocolTest, BytesFromBeforeThereWereTagsAreReadByNoProtocol) {
  const std::vector<Frame> old = {
      WithoutTag<wire::ClientMessage>([](auto message) { message.setStatus(1); }),
      WithoutTag<wire::ControllerMessage>([](auto message) { message.initClusterStatus(); }),
      WithoutTag<wire::WorkerMessage>([](auto message) { message.initHello(); }),
      WithoutTag<wire::Envelope>([](auto message) { message.initWelcome(); }),
      WithoutTag<wire::LivenessMessage>([](auto message) { message.initHeartbeat(); }),
      WithoutTag<wire::BulkRequest>([](auto message) { message.setTicket(73); }),
      WithoutTag<wire::BulkReply>([](auto message) { message.setTicket(73); }),
  };
  for (const Frame& frame : old) {
    for (const Spoken& receiver : AllProtocols()) {
      const Status read = receiver.read(frame);
      EXPECT_EQ(read.code(), StatusCode::kInvalidArgument) << receiver.name;
      EXPECT_THAT(lockstep::Message(read), HasSubstr("older")) << receiver.name;
    }
  }
}

// A process from before there were tags takes the tag for the number of segments.
TEST(ProtocolTest, AReaderFromBeforeThereWereTagsReadsNoMessage) {
  for (const Spoken& sent : AllProtocols()) {
    const AlignedWords words(sent.frame);
    EXPECT_ANY_THROW(capnp::FlatArrayMessageReader(words.words()).getRoot<wire::BulkReply>())
        << sent.name;
  }
}

TEST(ProtocolTest, AnOlderVersionIsRefusedAndANewerOneIsRead) {
  const Spoken client = AllProtocols().front();
  constexpr size_t kVersionAt = 4;
  const Status older = client.read(WithByte(client.frame, kVersionAt, kOldestProtocolVersion - 1));
  EXPECT_EQ(older.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(lockstep::Message(older), HasSubstr("protocol version"));
  // It says itself which versions it understands, in its first message.
  EXPECT_EQ(client.read(WithByte(client.frame, kVersionAt, kProtocolVersion + 1)), OkStatus());
}

TEST(ProtocolTest, AProtocolThatIsNotKnownIsAnError) {
  const Spoken client = AllProtocols().front();
  constexpr size_t kProtocolAt = 3;
  for (const int protocol : {0, 9, 200, 255}) {
    const Status read =
        client.read(WithByte(client.frame, kProtocolAt, static_cast<uint8_t>(protocol)));
    EXPECT_EQ(read.code(), StatusCode::kFailedPrecondition) << protocol;
  }
}

TEST(ProtocolTest, ATagWithoutAMessageIsCutOff) {
  const Spoken client = AllProtocols().front();
  for (size_t size = 0; size < client.frame.size(); size += 4) {
    const Status read = client.read(Frame::Copy(client.frame.data(), size));
    EXPECT_EQ(read.code(), StatusCode::kInvalidArgument) << size;
  }
}

// What a message carries in its other frames, and what is kept, needs no tag.
TEST(ProtocolTest, PartsOfMessagesHaveNoTag) {
  const Frame part = EncodeMessage<wire::Hello>([](wire::Hello::Builder) {});
  EXPECT_FALSE(HasTag(part, Protocol::kWorkerToController));
  EXPECT_EQ(kProtocolOf<wire::Hello>, Protocol::kNone);
}

TEST(ProtocolTest, AListenerAnswersAStrangerWithWhoItIs) {
  for (const Spoken& sent : AllProtocols()) {
    const std::optional<Frame> answer =
        AnswerToStranger(sent.frame, Protocol::kBulkRequest, Protocol::kBulkReply,
                         "the controller's client port is tcp://10.0.0.1:7000");
    // Its own clients get their answers; what answers a stranger is not answered.
    if (sent.protocol == Protocol::kBulkRequest || sent.protocol == Protocol::kWrongProtocol) {
      EXPECT_FALSE(answer.has_value()) << sent.name;
      continue;
    }
    ASSERT_TRUE(answer.has_value()) << sent.name;
    const Status read =
        CheckProtocol(*answer, Protocol::kControllerToClient, "tcp://10.0.0.1:9000");
    EXPECT_EQ(lockstep::Message(read),
              std::string("a worker's bulk socket of Lockstep ") + kBuildVersion +
                  " answers at tcp://10.0.0.1:9000, not a controller's client "
                  "port; the controller's client port is tcp://10.0.0.1:7000");
  }
  const Frame garbage = Frame::Copy("GET / HTTP/1.1\r\n", 16);
  EXPECT_FALSE(
      AnswerToStranger(garbage, Protocol::kBulkRequest, Protocol::kBulkReply, "").has_value());
}

TEST(ProtocolTest, WhatAStrangerSaysAboutItselfIsCut) {
  const Frame frame = EncodeMessage<wire::WrongProtocol>([](wire::WrongProtocol::Builder answer) {
    answer.setSpeaker(std::string(100'000, 'x'));
    answer.setHint(std::string(100'000, 'y'));
  });
  const std::string error =
      lockstep::Message(CheckProtocol(frame, Protocol::kControllerToClient, "tcp://a"));
  EXPECT_LT(error.size(), 2000u);
}

}  // namespace
}  // namespace lockstep::control
