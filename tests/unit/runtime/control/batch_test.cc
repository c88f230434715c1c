#include "runtime/control/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "runtime/control/value_codec.h"

namespace lockstep::control {
namespace {

// A call whose function, result and text argument tell it from all others.
void WriteCall(wire::Command::Builder command, uint64_t number, const std::string& text) {
  auto call = command.initCall();
  call.setFunction(number);
  call.setResult(number + 1);
  WriteValue(call.initArgs(1)[0], Value(text));
}

Status ExpectCall(wire::Command::Reader command, uint64_t number, const std::string& text) {
  if (!command.isCall()) return Internal("not a call");
  auto call = command.getCall();
  EXPECT_EQ(call.getFunction(), number);
  EXPECT_EQ(call.getResult(), number + 1);
  EXPECT_EQ(call.getArgs().size(), 1u);
  LOCKSTEP_ASSIGN_OR_RETURN(const Value value, ReadValue(call.getArgs()[0]));
  EXPECT_EQ(value, Value(text));
  return OkStatus();
}

// Reads all commands, whatever they hold, as a worker would. Returns the first error.
Status ReadAll(const Frame& body, int* commands) {
  BatchReader reader(body);
  *commands = 0;
  while (!reader.AtEnd()) {
    LOCKSTEP_RETURN_IF_ERROR(reader.Next([&](wire::Command::Reader command) -> Status {
      ++*commands;
      if (command.isCall()) {
        for (auto argument : command.getCall().getArgs()) {
          LOCKSTEP_RETURN_IF_ERROR(ReadValue(argument).status());
        }
      }
      return OkStatus();
    }));
  }
  return OkStatus();
}

TEST(BatchTest, EmptyBodyHasNoCommands) {
  BatchWriter writer;
  EXPECT_TRUE(writer.empty());
  const Frame body = writer.Take();
  EXPECT_EQ(body.size(), 0u);
  EXPECT_TRUE(BatchReader(body).AtEnd());
  EXPECT_TRUE(BatchReader(Frame()).AtEnd());
}

TEST(BatchTest, CommandsComeBackInOrder) {
  BatchWriter writer;
  for (uint64_t i = 0; i < 3; ++i) {
    (void)writer.Add(
        [&](wire::Command::Builder c) { WriteCall(c, i, "text " + std::to_string(i)); });
  }
  EXPECT_EQ(writer.commands(), 3u);
  const size_t size = writer.size_bytes();
  const Frame body = writer.Take();
  EXPECT_EQ(body.size(), size);
  EXPECT_TRUE(writer.empty());
  EXPECT_EQ(writer.size_bytes(), 0u);
  BatchReader reader(body);
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_FALSE(reader.AtEnd());
    EXPECT_TRUE(reader
                    .Next([&](wire::Command::Reader c) {
                      return ExpectCall(c, i, "text " + std::to_string(i));
                    })
                    .ok());
  }
  EXPECT_TRUE(reader.AtEnd());
}

TEST(BatchTest, WhatCannotBeWrittenLeavesTheBodyAsItWas) {
  BatchWriter writer;
  ASSERT_TRUE(writer.Add([](wire::Command::Builder c) { WriteCall(c, 1, "before"); }).ok());
  const size_t size = writer.size_bytes();
  // More elements than a message can hold, after other writing.
  const Status status = writer.Add([](wire::Command::Builder c) {
    WriteCall(c, 2, std::string(100'000, 'x'));
    c.initCall().initArgs(1u << 29);
  });
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(writer.size_bytes(), size);
  EXPECT_EQ(writer.commands(), 1u);
  ASSERT_TRUE(writer.Add([](wire::Command::Builder c) { WriteCall(c, 3, "after"); }).ok());

  const BatchWriter::Mark mark = writer.mark();
  ASSERT_TRUE(writer.Add([](wire::Command::Builder c) { WriteCall(c, 4, "too much"); }).ok());
  writer.Rollback(mark);
  ASSERT_TRUE(writer.Add([](wire::Command::Builder c) { WriteCall(c, 5, "last"); }).ok());

  const Frame body = writer.Take();
  BatchReader reader(body);
  const std::pair<uint64_t, std::string> expected[] = {{1, "before"}, {3, "after"}, {5, "last"}};
  for (const auto& call : expected) {
    ASSERT_FALSE(reader.AtEnd());
    const Status read = reader.Next([&](wire::Command::Reader command) {
      return ExpectCall(command, call.first, call.second);
    });
    EXPECT_TRUE(read.ok()) << read;
  }
  EXPECT_TRUE(reader.AtEnd());
}

// As when a command is refused because it is too large: it was written already. (Cap'n Proto itself
// clears a whole message that it finds in the place of a new one, so more than one is taken back.)
TEST(BatchTest, WhatIsTakenBackLeavesNothingInTheNextCommand) {
  for (const size_t text_bytes : {300, 3000, 100'000}) {
    BatchWriter writer;
    const BatchWriter::Mark mark = writer.mark();
    for (int i = 0; i < 2; ++i) {
      const Status added = writer.Add([&](wire::Command::Builder command) {
        command.setOnlyRank(7);
        WriteCall(command, ~uint64_t{0} - 1, std::string(text_bytes, '\xff'));
      });
      ASSERT_EQ(added, OkStatus());
    }
    writer.Rollback(mark);
    constexpr unsigned kUnset = 300;
    ASSERT_EQ(writer.Add([&](auto command) { command.initEmpty().initShape(kUnset); }), OkStatus());
    const Frame body = writer.Take();
    BatchReader reader(body);
    const Status read = reader.Next([&](wire::Command::Reader command) -> Status {
      EXPECT_EQ(command.getOnlyRank(), -1);
      if (!command.isEmpty()) return Internal("another command");
      EXPECT_EQ(command.getEmpty().getResult(), 0u);
      EXPECT_EQ(command.getEmpty().getShape().size(), kUnset);
      int set = 0;
      for (const int64_t extent : command.getEmpty().getShape()) set += extent != 0 ? 1 : 0;
      EXPECT_EQ(set, 0) << "after a text of " << text_bytes << " bytes";
      return OkStatus();
    });
    EXPECT_EQ(read, OkStatus());
    EXPECT_TRUE(reader.AtEnd());
  }
}

TEST(BatchTest, ManyCommandsOfManySizesComeBack) {
  std::mt19937 random(1);
  std::vector<std::string> texts;
  BatchWriter writer;
  for (uint64_t i = 0; i < 5000; ++i) {
    // Mostly small; every now and then one that takes the overflow path.
    const size_t size = random() % 100 == 0 ? random() % 40'000 : random() % 60;
    texts.push_back(std::string(size, static_cast<char>('a' + i % 26)));
    (void)writer.Add([&](wire::Command::Builder c) { WriteCall(c, i, texts.back()); });
  }
  const Frame body = writer.Take();
  BatchReader reader(body);
  for (uint64_t i = 0; i < texts.size(); ++i) {
    ASSERT_FALSE(reader.AtEnd());
    ASSERT_TRUE(
        reader.Next([&](wire::Command::Reader c) { return ExpectCall(c, i, texts[i]); }).ok());
  }
  EXPECT_TRUE(reader.AtEnd());
}

TEST(BatchTest, HugeCommandComesBackAmongSmallOnes) {
  const std::string huge(3'000'000, 'h');
  BatchWriter writer;
  (void)writer.Add([&](wire::Command::Builder c) { WriteCall(c, 1, "before"); });
  (void)writer.Add([&](wire::Command::Builder c) { WriteCall(c, 2, huge); });
  (void)writer.Add([&](wire::Command::Builder c) { WriteCall(c, 3, "after"); });
  const Frame body = writer.Take();
  BatchReader reader(body);
  EXPECT_TRUE(
      reader.Next([&](wire::Command::Reader c) { return ExpectCall(c, 1, "before"); }).ok());
  EXPECT_TRUE(reader.Next([&](wire::Command::Reader c) { return ExpectCall(c, 2, huge); }).ok());
  EXPECT_TRUE(reader.Next([&](wire::Command::Reader c) { return ExpectCall(c, 3, "after"); }).ok());
  EXPECT_TRUE(reader.AtEnd());
}

// The buffer is used again: what the last batch left in it must not shine through.
TEST(BatchTest, UnsetFieldsAreZeroInAReusedWriter) {
  BatchWriter writer;
  for (int round = 0; round < 20; ++round) {
    (void)writer.Add([&](wire::Command::Builder c) {
      WriteCall(c, ~uint64_t{0} - 1, std::string(static_cast<size_t>(200 * round), '\xff'));
    });
    (void)writer.Take();
    (void)writer.Add([](wire::Command::Builder c) { c.initCollective(); });
    const Frame body = writer.Take();
    BatchReader reader(body);
    EXPECT_TRUE(reader
                    .Next([](wire::Command::Reader command) {
                      EXPECT_EQ(command.getOnlyRank(), -1);
                      auto collective = command.getCollective();
                      EXPECT_EQ(collective.getSource(), 0u);
                      EXPECT_EQ(collective.getDestination(), 0u);
                      EXPECT_EQ(collective.getRoot(), 0);
                      EXPECT_FALSE(collective.getInGroup());
                      EXPECT_EQ(collective.getTeam().size(), 0u);
                      return OkStatus();
                    })
                    .ok());
  }
}

TEST(BatchTest, TakenBodyOutlivesItsWriter) {
  Frame small;
  Frame large;
  {
    BatchWriter writer;
    (void)writer.Add([](wire::Command::Builder c) { WriteCall(c, 1, "small"); });
    small = writer.Take();
    (void)writer.Add([](wire::Command::Builder c) { WriteCall(c, 2, std::string(100'000, 'l')); });
    large = writer.Take();
  }
  int commands = 0;
  EXPECT_TRUE(ReadAll(small, &commands).ok());
  EXPECT_EQ(commands, 1);
  EXPECT_TRUE(ReadAll(large, &commands).ok());
  EXPECT_EQ(commands, 1);
}

TEST(BatchTest, ErrorOfOneCommandLeavesTheNextReadable) {
  BatchWriter writer;
  (void)writer.Add([](wire::Command::Builder c) { c.setSync(); });
  (void)writer.Add([](wire::Command::Builder c) { WriteCall(c, 9, "next"); });
  const Frame body = writer.Take();
  BatchReader reader(body);
  EXPECT_EQ(reader.Next([](wire::Command::Reader) { return NotFound("x"); }), NotFound("x"));
  EXPECT_TRUE(reader.Next([](wire::Command::Reader c) { return ExpectCall(c, 9, "next"); }).ok());
}

// A body that ends in the middle of a command is an error, and not a shorter batch: the reader
// would else skip commands that its peers execute.
TEST(BatchTest, EveryCutIsAnError) {
  BatchWriter writer;
  std::vector<size_t> whole = {0};
  for (uint64_t i = 0; i < 3; ++i) {
    (void)writer.Add([&](wire::Command::Builder c) { WriteCall(c, i, "a text of some length"); });
    whole.push_back(writer.size_bytes());
  }
  const Frame body = writer.Take();
  for (size_t size = 0; size <= body.size(); ++size) {
    int commands = 0;
    const Status status = ReadAll(Frame::Copy(body.data(), size), &commands);
    const auto at = std::find(whole.begin(), whole.end(), size);
    if (at != whole.end()) {
      EXPECT_TRUE(status.ok()) << size << ": " << status;
      EXPECT_EQ(commands, at - whole.begin());
    } else {
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << size;
    }
  }
}

TEST(BatchTest, ReadingEndsAfterBytesThatAreNoCommand) {
  const std::vector<uint64_t> junk(16, 0xdeadbeefdeadbeef);
  BatchReader reader(Frame(nullptr, junk.data(), junk.size() * 8));
  ASSERT_FALSE(reader.AtEnd());
  EXPECT_EQ(reader.Next([](wire::Command::Reader) { return OkStatus(); }).code(),
            StatusCode::kInvalidArgument);
  EXPECT_TRUE(reader.AtEnd());
}

TEST(BatchTest, ReadingEndsAfterABodyThatIsNoWords) {
  const std::string junk = "thirteen byte";
  BatchReader reader(Frame::Copy(junk.data(), junk.size()));
  ASSERT_FALSE(reader.AtEnd());
  EXPECT_EQ(reader.Next([](wire::Command::Reader) { return OkStatus(); }).code(),
            StatusCode::kInvalidArgument);
  EXPECT_TRUE(reader.AtEnd());
}

TEST(BatchTest, FlippedBitsNeverEscapeAndReadingEnds) {
  std::mt19937 random(3);
  BatchWriter writer;
  for (uint64_t i = 0; i < 6; ++i) {
    (void)writer.Add([&](wire::Command::Builder c) { WriteCall(c, i, "text to be flipped"); });
  }
  const Frame body = writer.Take();
  int refused = 0;
  for (int round = 0; round < 10'000; ++round) {
    std::vector<uint64_t> words(body.size() / 8);
    std::memcpy(words.data(), body.data(), body.size());
    for (unsigned flips = 1 + random() % 4; flips > 0; --flips) {
      words[random() % words.size()] ^= uint64_t{1} << (random() % 64);
    }
    int commands = 0;
    const Status status = ReadAll(Frame(nullptr, words.data(), body.size()), &commands);
    if (!status.ok()) {
      ++refused;
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
    }
    EXPECT_LE(static_cast<size_t>(commands), words.size());
  }
  EXPECT_GT(refused, 0);
}

TEST(BatchTest, RandomBytesNeverEscapeAndReadingEnds) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 10'000; ++round) {
    std::vector<uint64_t> words(1 + random() % 32);
    // Small numbers make plausible segment tables.
    for (uint64_t& word : words) word = round % 2 == 0 ? random() : random() & 0x0000000f0000000f;
    int commands = 0;
    (void)ReadAll(Frame(nullptr, words.data(), words.size() * 8), &commands);
    EXPECT_LE(static_cast<size_t>(commands), words.size());
  }
}

TEST(BatchTest, FlowCostCountsTheMessageToo) {
  EXPECT_GT(FlowCost(0), 0u);
  EXPECT_GE(FlowCost(1000), 1000u);
}

// Else what a body makes its reader visit would grow with the square of its size.
TEST(BatchTest, CommandIsReadWithinLimitsOfItsOwn) {
  // A command whose arguments are `count` values of no bytes at all.
  const auto claim = [](uint64_t count) {
    std::vector<uint64_t> words;
    BatchWriter writer;
    EXPECT_TRUE(writer.Add([](auto command) { command.initCall().initArgs(1); }).ok());
    const Frame body = writer.Take();
    words.resize(body.size() / 8);
    std::memcpy(words.data(), body.data(), body.size());
    // The list is the last thing in the message: its tag, then one element of three words.
    words.resize(words.size() - 3);
    words.back() = count << 2;
    words[0] -= uint64_t{3} << 32;
    for (uint64_t& word : words) {
      // The pointer to it: a composite list of 3 words, which are none now.
      if ((word & 3) == 1 && (word >> 32 & 7) == 7) word &= (uint64_t{1} << 35) - 1;
    }
    return words;
  };
  const auto read = [&](uint64_t count, size_t padding_commands) {
    std::vector<uint64_t> words = claim(count);
    BatchWriter padding;
    for (size_t i = 0; i < padding_commands; ++i) {
      EXPECT_TRUE(padding.Add([](auto command) { command.setSync(); }).ok());
    }
    const Frame rest = padding.Take();
    words.resize(words.size() + rest.size() / 8);
    std::memcpy(words.data() + words.size() - rest.size() / 8, rest.data(), rest.size());
    int commands = 0;
    return ReadAll(Frame::Copy(words.data(), words.size() * 8), &commands);
  };
  EXPECT_EQ(read(1000, 0), OkStatus());
  EXPECT_EQ(read(100'000, 0).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(read(100'000, 10'000).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::control
