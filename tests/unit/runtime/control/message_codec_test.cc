#include "runtime/control/message_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "schemas/membership.capnp.h"
#include "schemas/values.capnp.h"

namespace lockstep::control {
namespace {

using testing::HasSubstr;

Frame HelloFrame(const std::string& build) {
  return EncodeMessage<wire::Hello>([&](wire::Hello::Builder hello) {
    hello.setRank(3);
    hello.setBuild(build);
    hello.initHost().setName("node");
  });
}

Status ReadHello(const Frame& frame, std::string* build, const ReadLimits& limits = {}) {
  return DecodeMessage<wire::Hello>(
      frame,
      [&](wire::Hello::Reader hello) {
        *build = std::string(hello.getBuild().cStr(), hello.getBuild().size());
        return OkStatus();
      },
      limits);
}

// A value of `depth` lists inside each other.
Frame NestedLists(int depth) {
  return EncodeMessage<wire::Value>([&](wire::Value::Builder value) {
    for (int i = 0; i < depth; ++i) value = value.initList(1)[0];
    value.setInt64(7);
  });
}

Status Descend(wire::Value::Reader value) {
  while (value.isList()) value = value.getList()[0];
  return value.isInt64() ? OkStatus() : Internal("no integer at the bottom");
}

TEST(MessageCodecTest, WhatIsEncodedIsDecoded) {
  std::string build;
  EXPECT_TRUE(ReadHello(HelloFrame("1.2.3"), &build).ok());
  EXPECT_EQ(build, "1.2.3");
}

TEST(MessageCodecTest, MessagesLargerThanTheScratchSpaceAreWhole) {
  const std::string large(1'000'000, 'x');
  std::string build;
  ASSERT_TRUE(ReadHello(HelloFrame(large), &build).ok());
  EXPECT_EQ(build, large);
}

TEST(MessageCodecTest, FramesAreReadAtAnyAlignment) {
  const Frame frame = HelloFrame("aligned");
  std::vector<char> buffer(frame.size() + 16);
  for (size_t shift = 0; shift < 8; ++shift) {
    std::memcpy(buffer.data() + shift, frame.data(), frame.size());
    std::string build;
    EXPECT_TRUE(ReadHello(Frame(nullptr, buffer.data() + shift, frame.size()), &build).ok());
    EXPECT_EQ(build, "aligned") << shift;
  }
}

TEST(MessageCodecTest, ErrorOfTheReaderIsReturned) {
  const Status status = DecodeMessage<wire::Hello>(
      HelloFrame("x"), [](wire::Hello::Reader) { return NotFound("not in here"); });
  EXPECT_EQ(status, NotFound("not in here"));
}

TEST(MessageCodecTest, EveryCutIsAnError) {
  const Frame frame = HelloFrame("a build that is long enough to be cut");
  for (size_t size = 0; size < frame.size(); ++size) {
    std::string build;
    const Status status = ReadHello(Frame(nullptr, frame.data(), size), &build);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << size;
  }
}

TEST(MessageCodecTest, SizesThatAreNoWordsAreCutOff) {
  std::string build;
  const Frame frame = HelloFrame("x");
  EXPECT_THAT(lockstep::Message(ReadHello(Frame(nullptr, frame.data(), frame.size() - 1), &build)),
              HasSubstr("cut off"));
  EXPECT_THAT(lockstep::Message(ReadHello(Frame(), &build)), HasSubstr("cut off"));
}

TEST(MessageCodecTest, NestingBeyondTheLimitIsRefused) {
  const auto read = [](int depth, int limit) {
    return DecodeMessage<wire::Value>(NestedLists(depth), Descend, {.nesting = limit});
  };
  EXPECT_TRUE(read(8, 32).ok());
  EXPECT_EQ(read(40, 32).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(read(8, 4).code(), StatusCode::kInvalidArgument);
}

// Few bytes must not make a reader work for long: a pointer may be followed again and again.
TEST(MessageCodecTest, VisitingMoreWordsThanAllowedIsRefused) {
  const Frame frame = HelloFrame(std::string(80'000, 'x'));
  const auto read = [&](int times, const ReadLimits& limits) {
    return DecodeMessage<wire::Hello>(
        frame,
        [&](wire::Hello::Reader hello) {
          size_t sum = 0;
          for (int i = 0; i < times; ++i) sum += hello.getBuild().size();
          return sum == size_t{80'000} * static_cast<size_t>(times) ? OkStatus()
                                                                    : Internal("wrong text");
        },
        limits);
  };
  EXPECT_TRUE(read(10, {}).ok());
  EXPECT_EQ(read(100, {}).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(read(100, {.visits_per_word = 200}).ok());
  EXPECT_EQ(read(10, {.traversal_words = 20'000}).code(), StatusCode::kInvalidArgument);
}

// Elements without any words cost a message nothing, but its reader memory for each.
TEST(MessageCodecTest, ListOfVeryManyEmptyElementsIsRefused) {
  // The last word of an empty list of structs is its tag: number and size of the elements.
  const Frame empty =
      EncodeMessage<wire::Value>([](wire::Value::Builder value) { value.initList(0); });
  const auto list_of = [&](uint64_t count) {
    std::vector<uint64_t> words(empty.size() / 8);
    std::memcpy(words.data(), empty.data(), empty.size());
    words.back() = count << 2;  // elements of no words
    return words;
  };
  const auto read = [&](uint64_t count) {
    const std::vector<uint64_t> words = list_of(count);
    return DecodeMessage<wire::Value>(
        Frame(nullptr, words.data(), words.size() * 8), [&](wire::Value::Reader value) -> Status {
          if (!value.isList()) return Internal("not a list");
          return value.getList().size() == count ? OkStatus() : Internal("another size");
        });
  };
  EXPECT_EQ(read(100), OkStatus());
  EXPECT_EQ(read(100'000'000).code(), StatusCode::kInvalidArgument);
}

// The bits of a valid message, flipped at random: the reader may get other values, never memory
// that is not its own (AddressSanitizer watches), and no exception gets out.
TEST(MessageCodecTest, FlippedBitsNeverEscape) {
  std::mt19937 random(20);
  const Frame frame = HelloFrame("some text of the build");
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<uint64_t> words(frame.size() / 8);
    std::memcpy(words.data(), frame.data(), frame.size());
    for (unsigned flips = 1 + random() % 4; flips > 0; --flips) {
      words[random() % words.size()] ^= uint64_t{1} << (random() % 64);
    }
    const Status status = DecodeMessage<wire::Hello>(
        Frame(nullptr, words.data(), frame.size()), [](wire::Hello::Reader hello) {
          const auto sum = [](capnp::Text::Reader text) {
            return std::string(text.cStr(), text.size()).size();
          };
          const size_t sizes = sum(hello.getBuild()) + sum(hello.getCluster()) +
                               sum(hello.getDevice()) + sum(hello.getSegment()) +
                               sum(hello.getHost().getName()) + sum(hello.getHost().getId());
          return sizes <= 1'000'000 ? OkStatus() : Internal("texts larger than the message");
        });
    if (!status.ok()) {
      ++refused;
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
    }
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace lockstep::control
