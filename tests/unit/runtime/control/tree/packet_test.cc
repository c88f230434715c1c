#include "runtime/control/tree/packet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "runtime/control/tree/flat_message.h"
#include "runtime/control/tree/replay_log.h"
#include "tests/unit/runtime/control/tree/tree_network.h"

namespace lockstep::control {
namespace {

using testing::ElementsAre;

std::vector<std::string> TextsOf(const Message& packet) {
  std::vector<std::string> texts;
  const Status read =
      ReadPacket(packet, [&](const Message& message) { texts.push_back(TextOfMessage(message)); });
  EXPECT_TRUE(read.ok()) << read;
  return texts;
}

// The same message with one bit changed.
Message WithBit(const Message& message, size_t frame, size_t byte) {
  Message changed = message;
  std::string bytes(reinterpret_cast<const char*>(message[frame].data()), message[frame].size());
  bytes[byte] = static_cast<char>(bytes[byte] ^ 1);
  changed[frame] = Frame::Copy(bytes.data(), bytes.size());
  return changed;
}

TEST(PacketTest, HoldsMessagesInOrder) {
  const StreamSigner signer;
  PacketWriter writer;
  writer.Add(TextMessage("one"));
  writer.Add({});
  writer.Add({Frame::Copy("a body", 6), Frame::Copy("", 0)});
  const Message packet = writer.Seal(1, 7, signer);
  EXPECT_TRUE(writer.empty());
  EXPECT_TRUE(IsSigned(packet, signer.public_key()));
  EXPECT_EQ(ReadTreeNote(packet)->value, 7u);
  EXPECT_THAT(TextsOf(packet), ElementsAre("one", "", "a body"));
}

TEST(PacketTest, ALargeMessageIsNotCopied) {
  const StreamSigner signer;
  const Frame body = FrameOfWords(std::vector<uint64_t>(kLargestPacked / 4));
  const Message packet = PacketWriter::SealWhole({Frame::Copy("head", 4), body}, 1, 1, signer);
  EXPECT_TRUE(IsSigned(packet, signer.public_key()));
  Message read;
  ASSERT_TRUE(ReadPacket(packet, [&](Message message) { read = std::move(message); }).ok());
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[1].data(), body.data());
}

TEST(PacketTest, EveryBitIsSigned) {
  const StreamSigner signer;
  PacketWriter writer;
  writer.Add(TextMessage("a command"));
  const Message packet = writer.Seal(3, 9, signer);
  for (size_t frame = 0; frame < packet.size(); ++frame) {
    for (size_t byte = 0; byte < packet[frame].size(); ++byte) {
      EXPECT_FALSE(IsSigned(WithBit(packet, frame, byte), signer.public_key()))
          << "byte " << byte << " of frame " << frame;
    }
  }
  Message longer = packet;
  longer.push_back(Frame::Copy("", 0));
  EXPECT_FALSE(IsSigned(longer, signer.public_key()));
  EXPECT_FALSE(IsSigned(packet, StreamSigner().public_key()));
  EXPECT_FALSE(IsSigned({}, signer.public_key()));
}

// What has a valid signature is still read within its bounds, and so is what has none: bundles.
TEST(PacketTest, CutOffContentIsAnError) {
  std::vector<uint64_t> words;
  AppendFlat(TextMessage("some text that is longer than a word"), words);
  for (size_t size = 1; size < words.size() * 8; ++size) {
    const Message packet{Frame(), FrameOfWords(words).Part(0, size)};
    EXPECT_FALSE(ReadPacket(packet, [](const Message&) {}).ok()) << size << " bytes";
  }
  const uint64_t huge[] = {1, ~uint64_t{0} - 3};
  EXPECT_FALSE(ReadPacket({Frame(), Frame::Copy(huge, sizeof huge)}, [](const Message&) {}).ok());
  const uint64_t many[] = {kMostFlatFrames + 1, 0};
  EXPECT_FALSE(ReadPacket({Frame(), Frame::Copy(many, sizeof many)}, [](const Message&) {}).ok());
}

TEST(BundleTest, HoldsAnswersOfManyWorkers) {
  const AnswerKey key = AnswerKey::New();
  BundleWriter below;
  below.Add(5, key, 1, TextMessage("from below"));
  const Message from_below = below.Take(1, 1, 0);
  BundleWriter writer;
  writer.Add(4, key, 8, TextMessage("own"));
  EXPECT_TRUE(*writer.Append(from_below));
  const std::string large(kLargestPacked + 1, 'x');
  writer.Add(4, key, 9, TextMessage(large));
  EXPECT_TRUE(writer.is_full());
  EXPECT_FALSE(*writer.Append(from_below)) << "what is large is last";
  const Message bundle = writer.Take(1, 2, 77);
  EXPECT_EQ(*ConsumedOf(bundle), 77u);
  std::vector<std::string> read;
  ASSERT_TRUE(ReadBundle(bundle, [&](const Answer& answer) {
                EXPECT_TRUE(AreSame(answer.tag, key.TagOf(answer.number, answer.message)));
                EXPECT_FALSE(AreSame(answer.tag, key.TagOf(answer.number + 1, answer.message)));
                read.push_back(std::to_string(answer.worker) + TextOfMessage(answer.message));
              }).ok());
  EXPECT_THAT(read, ElementsAre("4own", "5from below", "4" + large));
}

// At each level a relay could add as much as it sends at once.
TEST(BundleTest, IsNoLargerForComingFromFurtherBelow) {
  const AnswerKey key = AnswerKey::New();
  const std::string text(kLargestPacked, 'x');
  Message bundle;
  for (int level = 0; level < 10; ++level) {
    BundleWriter writer;
    writer.Add(1, key, 1, TextMessage(text));
    while (!writer.is_full() && level == 0) writer.Add(1, key, 1, TextMessage(text));
    if (level > 0 && !*writer.Append(bundle)) {
      writer.Take(1, 1, 0);
      EXPECT_TRUE(*writer.Append(bundle));
    }
    bundle = writer.Take(1, 1, 0);
    EXPECT_TRUE(CheckBundle(bundle, [](uint64_t) { return true; }).ok()) << "level " << level;
  }
}

TEST(ReplayLogTest, KeepsWhatIsNeededAndNoMoreThanItMay) {
  ReplayLog log(4096);
  for (int i = 1; i <= 5; ++i) log.Add(TextMessage(std::to_string(i)));
  EXPECT_EQ(log.first(), 1u);
  log.Forget(3);
  EXPECT_EQ(log.first(), 4u);
  EXPECT_EQ(TextOfMessage(log.at(4)), "4");
  log.Forget(5);
  EXPECT_EQ(log.first(), 6u);
  EXPECT_EQ(log.bytes(), 0u);
  for (int i = 0; i < 1000; ++i) log.Add(TextMessage("more"));
  EXPECT_LE(log.bytes(), 4096u);
  EXPECT_EQ(log.last(), 1005u);
  EXPECT_GT(log.first(), 6u);
}

}  // namespace
}  // namespace lockstep::control
