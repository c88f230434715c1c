#include "runtime/control/plain_call.h"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "runtime/control/batch.h"
#include "runtime/control/value_codec.h"

namespace lockstep::control {
namespace {

constexpr RegisterId kFunction{7, 3};
constexpr RegisterId kResult{8, 0xffffffff};

using Words = std::vector<uint64_t>;

kj::ArrayPtr<const capnp::word> Of(const Words& words) {
  return kj::arrayPtr(reinterpret_cast<const capnp::word*>(words.data()), words.size());
}

// A call with one argument of every plain kind, texts of all lengths that end a word differently.
Words CallOfEveryKind(std::vector<Value>* values) {
  std::vector<std::string> texts;
  for (size_t size = 0; size <= 17; ++size) texts.emplace_back(size, 'x');
  texts.emplace_back("a\0b", 3);
  const std::vector<Shape> shapes = {Shape{}, Shape{3}, Shape{2, 0, 5}};
  size_t payload = 0;
  for (const std::string& text : texts) payload += PlainCallWriter::TextWords(text.size());
  for (const Shape& shape : shapes) payload += PlainCallWriter::ShapeWords(shape.ndim());
  const size_t arguments = 8 + texts.size() + shapes.size();
  Words words(PlainCallWriter::Words(arguments, payload), ~uint64_t{0});  // as left by others
  PlainCallWriter call(words.data(), words.size(), kFunction, kResult, arguments);
  call.AddNone();
  call.AddBool(true);
  call.AddBool(false);
  call.AddInt64(5);
  call.AddFloat64(-0.25);
  call.AddDType(DType::kFloat8E5M2);
  call.AddRegister(kResult);
  call.AddRegister({});
  *values = {Value(), true, false, int64_t{5}, -0.25, DType::kFloat8E5M2, kResult, RegisterId()};
  for (const std::string& text : texts) {
    call.AddText(text);
    values->emplace_back(text);
  }
  for (const Shape& shape : shapes) {
    call.AddShape(shape);
    values->emplace_back(shape);
  }
  return words;
}

// What a worker makes of a call; nothing of what it would refuse.
std::optional<std::vector<Value>> Read(wire::Command::Reader command) {
  if (!command.isCall() || command.getOnlyRank() != -1) return std::nullopt;
  std::vector<Value> values = {RegisterId::FromPacked(command.getCall().getFunction()),
                               RegisterId::FromPacked(command.getCall().getResult())};
  for (const auto argument : command.getCall().getArgs()) {
    const StatusOr<Value> value = ReadValue(argument);
    if (!value.ok()) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}
// By words alone; the value that cannot be, if it is none.
StatusOr<Value> ReadPlain(const PlainArgument& argument) {
  switch (argument.kind()) {
    case wire::Value::NONE:
      return Value();
    case wire::Value::BOOL:
      return Value(argument.GetBool());
    case wire::Value::INT64:
      return Value(argument.GetInt64());
    case wire::Value::FLOAT64:
      return Value(argument.GetFloat64());
    case wire::Value::TEXT:
      return Value(std::string(argument.GetText()));
    case wire::Value::REGISTER:
      return Value(argument.GetRegister());
    case wire::Value::DTYPE: {
      LOCKSTEP_ASSIGN_OR_RETURN(const DType dtype, FromWire(argument.GetDType()));
      return Value(dtype);
    }
    case wire::Value::SHAPE:
      LOCKSTEP_RETURN_IF_ERROR(Shape::ValidateDims(argument.GetShape()));
      return Value(Shape(argument.GetShape()));
    default:
      return Internal("no plain argument");
  }
}
std::optional<std::vector<Value>> ReadPlain(const Words& words) {
  const PlainCall call(Of(words).begin());
  std::vector<Value> values = {call.function(), call.result()};
  for (const PlainArgument argument : call.arguments()) {
    const StatusOr<Value> value = ReadPlain(argument);
    if (!value.ok()) return std::nullopt;
    values.push_back(*value);
  }
  EXPECT_EQ(values.size(), 2 + call.arguments().size());
  return values;
}
std::optional<std::vector<Value>> ReadUnchecked(const Words& words) {
  return Read(PlainCall(Of(words).begin()).AsCommand());
}
std::optional<std::vector<Value>> ReadByLibrary(const Words& words) {
  capnp::FlatArrayMessageReader reader(Of(words));
  return Read(reader.getRoot<wire::Command>());
}

// The first place in which they differ; -1 if they are the same.
int FirstDifference(const std::optional<std::vector<Value>>& a,
                    const std::optional<std::vector<Value>>& b) {
  if (a.has_value() != b.has_value()) return 0;
  if (!a.has_value()) return -1;
  for (size_t i = 0; i < std::max(a->size(), b->size()); ++i) {
    if (i >= a->size() || i >= b->size() || (*a)[i] != (*b)[i]) return static_cast<int>(i);
  }
  return -1;
}

TEST(PlainCallTest, TheLibraryReadsItAndSoDoReadersThatCheckNothing) {
  std::vector<Value> values;
  const Words words = CallOfEveryKind(&values);
  values.insert(values.begin(), {kFunction, kResult});
  EXPECT_EQ(FindPlainCall(Of(words)), words.size());
  EXPECT_EQ(FirstDifference(ReadPlain(words), values), -1);
  EXPECT_EQ(FirstDifference(ReadUnchecked(words), values), -1);
  EXPECT_EQ(FirstDifference(ReadByLibrary(words), values), -1);
}

TEST(PlainCallTest, ACallWithoutArgumentsIsAHeadAlone) {
  Words words(PlainCallWriter::Words(0, 0), ~uint64_t{0});
  PlainCallWriter(words.data(), words.size(), kFunction, kResult, 0);
  EXPECT_EQ(words.size(), 6u);
  words.push_back(17);  // of the next command
  EXPECT_EQ(FindPlainCall(Of(words)), 6u);
  words.pop_back();
  EXPECT_EQ(ReadPlain(words), (std::vector<Value>{kFunction, kResult}));
  EXPECT_EQ(ReadByLibrary(words), (std::vector<Value>{kFunction, kResult}));
}

TEST(PlainCallTest, WhatIsCutOffIsNone) {
  std::vector<Value> values;
  const Words words = CallOfEveryKind(&values);
  for (size_t size = 0; size < words.size(); ++size) {
    EXPECT_EQ(FindPlainCall(Of(words).slice(0, size)), 0u) << size;
    // Nor if its table of segments tells of the cut.
    Words cut(words.begin(), words.begin() + static_cast<int64_t>(size));
    if (size > 0) cut[0] = uint64_t{size - 1} << 32;
    EXPECT_EQ(FindPlainCall(Of(cut)), 0u) << size;
  }
}

// The one promise that safety rests on: what is taken for a plain call reads the same by the reader
// that checks everything.
TEST(PlainCallTest, WithAnyBitFlippedItIsNoneOrReadsAsTheLibraryReadsIt) {
  std::vector<Value> values;
  const Words words = CallOfEveryKind(&values);
  int refused = 0;
  int taken = 0;
  for (size_t bit = 0; bit < words.size() * 64; ++bit) {
    Words flipped = words;
    flipped[bit / 64] ^= uint64_t{1} << (bit % 64);
    if (FindPlainCall(Of(flipped)) == 0) {
      ++refused;
      continue;
    }
    ++taken;
    ASSERT_EQ(FindPlainCall(Of(flipped)), flipped.size()) << bit;
    const auto by_library = ReadByLibrary(flipped);
    ASSERT_EQ(FirstDifference(ReadPlain(flipped), by_library), -1) << bit;
    ASSERT_EQ(FirstDifference(ReadUnchecked(flipped), by_library), -1) << bit;
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(taken, 1000);
}

// What two arguments share could be made to cost many times what the message has.
TEST(PlainCallTest, TwoArgumentsOfOneTextAreNone) {
  const std::string text(100, 'x');
  const size_t payload = PlainCallWriter::TextWords(text.size());
  Words words(PlainCallWriter::Words(2, payload));
  PlainCallWriter call(words.data(), words.size(), kFunction, kResult, 2);
  call.AddText(text);
  const uint64_t* const first = words.data() + plain_call::kHeadWords + 1;
  call.AddNone();
  uint64_t* const second = words.data() + plain_call::kHeadWords + 1 + plain_call::kValueWords;
  second[0] = first[0];
  second[2] = first[2] - (plain_call::kValueWords << 2);
  ASSERT_EQ(ReadByLibrary(words), (std::vector<Value>{kFunction, kResult, text, text}));
  EXPECT_EQ(FindPlainCall(Of(words)), 0u);
}

TEST(PlainCallTest, OtherCallsAreLeftToTheLibrary) {
  const auto count = [](auto fill) {
    BatchWriter writer;
    EXPECT_TRUE(writer.Add(fill).ok());
    const Frame body = writer.Take();
    Words words(body.size() / sizeof(uint64_t));
    std::memcpy(words.data(), body.data(), body.size());
    return FindPlainCall(Of(words));
  };
  EXPECT_EQ(count([](wire::Command::Builder command) { command.setSync(); }), 0u);
  EXPECT_EQ(count([](wire::Command::Builder command) { command.initCall(); }), 0u);
  EXPECT_EQ(count([](wire::Command::Builder command) {
              WriteValue(command.initCall().initArgs(1)[0], Value(Value::List{1, 2}));
            }),
            0u);
}

TEST(PlainCallTest, BetweenOthersInABatchItIsReadInItsPlace) {
  BatchWriter writer;
  const auto add_sync = [&] {
    ASSERT_TRUE(writer.Add([](wire::Command::Builder command) { command.setSync(); }).ok());
  };
  const auto add_call = [&](int64_t number) {
    const size_t words = PlainCallWriter::Words(1, 0);
    ASSERT_TRUE(writer
                    .AddPlainCall(words,
                                  [&](uint64_t* at) {
                                    PlainCallWriter call(at, words, kFunction, kResult, 1);
                                    call.AddInt64(number);
                                  })
                    .ok());
  };
  // More than a writer holds to begin with.
  constexpr int kRounds = 5000;
  for (int i = 0; i < kRounds; ++i) {
    add_call(2 * i);
    add_sync();
    const BatchWriter::Mark mark = writer.mark();
    add_call(-1);
    writer.Rollback(mark);
    add_call(2 * i + 1);
  }
  EXPECT_EQ(writer.commands(), 3u * kRounds);
  const Frame body = writer.Take();
  BatchReader reader(body);
  int64_t calls = 0;
  for (int i = 0; !reader.AtEnd(); ++i) {
    const Status read = reader.Next([&](wire::Command::Reader command) {
      if (i % 3 == 1) return command.isSync() ? OkStatus() : Internal("a sync is missing");
      const auto arguments = command.getCall().getArgs();
      return arguments[0].getInt64() == calls++ ? OkStatus() : Internal("another call");
    });
    ASSERT_TRUE(read.ok()) << i << ": " << read;
  }
  EXPECT_EQ(calls, 2 * kRounds);

  // To those who take them, plain calls are given as such.
  struct Counter {
    int plain = 0;
    int other = 0;
    Status operator()(const PlainCall&) { return ++plain, OkStatus(); }
    Status operator()(const wire::Command::Reader&) { return ++other, OkStatus(); }
  } counter;
  for (BatchReader again(body); !again.AtEnd();) ASSERT_EQ(again.Next(counter), OkStatus());
  EXPECT_EQ(counter.plain, 2 * kRounds);
  EXPECT_EQ(counter.other, kRounds);
}

}  // namespace
}  // namespace lockstep::control
