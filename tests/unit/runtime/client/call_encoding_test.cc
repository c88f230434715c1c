#include "runtime/client/call_encoding.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/client/register_names.h"
#include "runtime/control/batch.h"
#include "runtime/control/value_codec.h"

namespace lockstep::client {
namespace {

// What a worker reads of the arguments of a call.
template <typename... Args>
std::vector<Value> Encode(const Args&... args) {
  const ArgumentList<sizeof...(Args)> list{Argument(args)...};
  control::BatchWriter writer;
  EXPECT_TRUE(WriteCall(writer, RegisterId{1, 2}, RegisterId{3, 4}, list).ok());
  const control::Frame body = writer.Take();
  control::BatchReader reader(body);
  std::vector<Value> values;
  const Status read = reader.Next([&](wire::Command::Reader command) -> Status {
    const auto call = command.getCall();
    EXPECT_EQ(RegisterId::FromPacked(call.getFunction()), (RegisterId{1, 2}));
    EXPECT_EQ(RegisterId::FromPacked(call.getResult()), (RegisterId{3, 4}));
    for (const auto argument : call.getArgs()) {
      LOCKSTEP_ASSIGN_OR_RETURN(Value value, control::ReadValue(argument));
      values.push_back(std::move(value));
    }
    return OkStatus();
  });
  EXPECT_TRUE(read.ok()) << read;
  EXPECT_TRUE(reader.AtEnd());
  return values;
}

TEST(WriteCallTest, LiteralsBecomeTheTypeTheyLookLike) {
  EXPECT_EQ(Encode(nullptr, true, false, 7, 2.5, 2.5f, "text"),
            (std::vector<Value>{Value(), true, false, 7, 2.5, 2.5, "text"}));
}

TEST(WriteCallTest, IntegersOfAnyWidthKeepTheirValue) {
  EXPECT_EQ(
      Encode(std::numeric_limits<int64_t>::min(), uint8_t{255}, int8_t{-1},
             std::numeric_limits<uint32_t>::max(), 'a'),
      (std::vector<Value>{std::numeric_limits<int64_t>::min(), 255, -1, int64_t{4294967295}, 97}));
}

TEST(WriteCallTest, UnsignedNumbersBeyondInt64AreMarked) {
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(Argument(kMost).kind(), Argument::Kind::kInt64);
  EXPECT_EQ(Argument(kMost + 1).kind(), Argument::Kind::kTooLarge);
  EXPECT_EQ(static_cast<uint64_t>(Argument(kMost + 1).integer()), kMost + 1);
  EXPECT_EQ(Argument(int64_t{-1}).kind(), Argument::Kind::kInt64);
}

// What converts to bool is not one.
static_assert(std::is_constructible_v<Argument, bool>);
static_assert(std::is_constructible_v<Argument, char*> &&
              std::is_constructible_v<Argument, const char*>);
static_assert(!std::is_constructible_v<Argument, int*>);
static_assert(!std::is_constructible_v<Argument, const HostTensor*>);
static_assert(!std::is_constructible_v<Argument, void*>);
static_assert(!std::is_constructible_v<Argument, void (*)()>);
static_assert(!std::is_constructible_v<Argument, int Argument::*>);

TEST(WriteCallTest, TextIsTakenFromAnyKindOfString) {
  const std::string zero("a\0b", 3);
  EXPECT_EQ(Encode(zero, std::string_view(zero), "", std::string(), std::string_view()),
            (std::vector<Value>{zero, zero, "", "", ""}));
}

TEST(WriteCallTest, StructuredArgumentsAreWhole) {
  const HostTensor tensor = HostTensor::Of<int32_t>({2, 2}, {{1, 2, 3, 4}});
  const Value nested(Value::Map{{"list", Value::List{1, "two", tensor}}});
  EXPECT_EQ(Encode(Bytes{"\x01\x02"}, DType::kBFloat16, Device{DeviceType::kCuda, 2}, Shape{3, 4},
                   Shape{}, tensor, nested, None()),
            (std::vector<Value>{Bytes{"\x01\x02"}, DType::kBFloat16, Device{DeviceType::kCuda, 2},
                                Shape{3, 4}, Shape{}, tensor, nested, Value()}));
}

TEST(WriteCallTest, DRefsTravelAsTheirIds) {
  RegisterNames* names = RegisterNames::Create(SessionId(1));
  {
    (void)names->Acquire(1);
    const DRef ref = names->Acquire(1);
    EXPECT_EQ(Encode(ref, DRef()), (std::vector<Value>{ref.id(), RegisterId{}}));
  }
  names->Unref();
}

TEST(WriteCallTest, DRefsInListsTravelAsTheirIdsAndAreKept) {
  RegisterNames* names = RegisterNames::Create(SessionId(1));
  {
    DRef ref = names->Acquire(1);
    const RegisterId id = ref.id();
    const Value list(Value::List{1, ref});
    ref = DRef();
    std::vector<uint64_t> kills;
    names->TakeKills(&kills, 10);
    EXPECT_TRUE(kills.empty());
    EXPECT_EQ(Encode(list), (std::vector<Value>{Value(Value::List{1, id})}));
  }
  names->Unref();
}

TEST(WriteCallTest, ArgumentsBorrowWhatTheyAreGiven) {
  std::string text = "before";
  const Argument argument(text);
  text = "after!";
  EXPECT_EQ(argument.text(), "after!");
}

// Beside one that Cap'n Proto's builder has to write, all others are written by that, too.
TEST(WriteCallTest, PlainArgumentsBesideOthersAreTheSame) {
  RegisterNames* names = RegisterNames::Create(SessionId(1));
  {
    const DRef ref = names->Acquire(1);
    const auto all = [&](const Value& last) {
      return Encode(nullptr, true, 7, 2.5, "text", DType::kInt8, ref, Shape{3, 4}, last);
    };
    const auto expect = [&](const Value& last) {
      return std::vector<Value>{Value(),      true,     7,           2.5, "text",
                                DType::kInt8, ref.id(), Shape{3, 4}, last};
    };
    EXPECT_EQ(all(Value(Value::List{1})), expect(Value(Value::List{1})));
    EXPECT_EQ(all(Value(8)), expect(Value(8)));
  }
  names->Unref();
}

TEST(WriteCallTest, ACallMayHaveNoArgumentsOrVeryMany) {
  EXPECT_TRUE(Encode().empty());
  for (const size_t count : {1000u, 1001u, 5000u}) {
    const std::vector<Argument> many(count, Argument(9));
    control::BatchWriter writer;
    ASSERT_TRUE(WriteCall(writer, RegisterId{1, 2}, RegisterId{3, 4}, many).ok());
    const control::Frame body = writer.Take();
    const Status read =
        control::BatchReader(body).Next([&](wire::Command::Reader command) -> Status {
          EXPECT_EQ(command.getCall().getArgs().size(), count);
          EXPECT_EQ(command.getCall().getArgs()[static_cast<unsigned>(count - 1)].getInt64(), 9);
          return OkStatus();
        });
    EXPECT_TRUE(read.ok()) << read;
  }
}

}  // namespace
}  // namespace lockstep::client
