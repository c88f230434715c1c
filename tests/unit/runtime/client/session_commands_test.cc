// How a call's arguments are encoded (session_commands.cc).
#include <capnp/message.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/client/argument.h"
#include "runtime/client/register_names.h"
#include "runtime/client/session_commands.h"
#include "runtime/control/value_codec.h"
#include "tests/unit/runtime/client/fake_controller.h"

namespace lockstep::client {
namespace {

// What a worker reads of the arguments of a call.
template <typename... Args>
std::vector<Value> Encode(const Args&... args) {
  const ArgumentList<sizeof...(Args)> list{Argument(args)...};
  capnp::MallocMessageBuilder message;
  auto call = message.initRoot<wire::Command>().initCall();
  auto written = call.initArgs(static_cast<unsigned>(list.size()));
  WriteArguments(written, list);
  std::vector<Value> values;
  for (auto argument : call.asReader().getArgs()) {
    StatusOr<Value> value = control::ReadValue(argument);
    EXPECT_TRUE(value.ok()) << value.status();
    values.push_back(std::move(*value));
  }
  return values;
}

TEST(WriteArgumentsTest, LiteralsBecomeTheTypeTheyLookLike) {
  EXPECT_EQ(Encode(nullptr, true, false, 7, 2.5, 2.5f, "text"),
            (std::vector<Value>{Value(), true, false, 7, 2.5, 2.5, "text"}));
}

TEST(WriteArgumentsTest, IntegersOfAnyWidthKeepTheirValue) {
  EXPECT_EQ(
      Encode(std::numeric_limits<int64_t>::min(), uint8_t{255}, int8_t{-1},
             std::numeric_limits<uint32_t>::max(), 'a'),
      (std::vector<Value>{std::numeric_limits<int64_t>::min(), 255, -1, int64_t{4294967295}, 97}));
}

TEST(WriteArgumentsTest, UnsignedNumbersBeyondInt64AreMarked) {
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

TEST(WriteArgumentsTest, TextIsTakenFromAnyKindOfString) {
  const std::string zero("a\0b", 3);
  EXPECT_EQ(Encode(zero, std::string_view(zero), "", std::string()),
            (std::vector<Value>{zero, zero, "", ""}));
}

TEST(WriteArgumentsTest, StructuredArgumentsAreWhole) {
  const HostTensor tensor = HostTensor::Of<int32_t>({2, 2}, {{1, 2, 3, 4}});
  const Value nested(Value::Map{{"list", Value::List{1, "two", tensor}}});
  EXPECT_EQ(Encode(Bytes{"\x01\x02"}, DType::kBFloat16, Device{DeviceType::kCuda, 2}, Shape{3, 4},
                   Shape{}, tensor, nested, None()),
            (std::vector<Value>{Bytes{"\x01\x02"}, DType::kBFloat16, Device{DeviceType::kCuda, 2},
                                Shape{3, 4}, Shape{}, tensor, nested, Value()}));
}

TEST(WriteArgumentsTest, DRefsTravelAsTheirIds) {
  RegisterNames* names = RegisterNames::Create(SessionId(1));
  {
    (void)names->Acquire(1);
    const DRef ref = names->Acquire(1);
    EXPECT_EQ(Encode(ref, DRef()), (std::vector<Value>{ref.id(), RegisterId{}}));
  }
  names->Unref();
}

TEST(WriteArgumentsTest, DRefsInListsTravelAsTheirIdsAndAreKept) {
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

TEST(WriteArgumentsTest, ArgumentsBorrowWhatTheyAreGiven) {
  std::string text = "before";
  const Argument argument(text);
  text = "after!";
  EXPECT_EQ(argument.text(), "after!");
}

TEST(IssueCollectiveTest, TheRootIsOneOfThoseThatTakePart) {
  FakeController controller;
  controller.num_workers = 4;
  controller.num_groups = 2;
  const std::unique_ptr<SessionCore> core = controller.Open();
  const auto made = core->IssueNaming([](wire::Command::Builder command, RegisterId result) {
    auto empty = command.initEmpty();
    empty.initShape(1).set(0, 4);
    empty.setResult(result.Packed());
  });
  ASSERT_TRUE(made.ok()) << made.status();
  const auto issue = [&](Rank root, const CollectiveOptions& options) {
    CollectiveCall call{.kind = OperationKind::kBroadcast, .source = *made};
    call.root = root;
    return IssueCollective(*core, call, options).status().code();
  };
  CollectiveOptions of_a_group;
  of_a_group.in_group = true;
  CollectiveOptions of_a_team;
  of_a_team.team = {1, 2, 3};
  const std::pair<CollectiveOptions, Rank> sizes[] = {{{}, 4}, {of_a_group, 2}, {of_a_team, 3}};
  for (const auto& [options, size] : sizes) {
    EXPECT_EQ(issue(size - 1, options), StatusCode::kOk) << size;
    EXPECT_EQ(issue(size, options), StatusCode::kInvalidArgument) << size;
    EXPECT_EQ(issue(-1, options), StatusCode::kInvalidArgument) << size;
  }
}

}  // namespace
}  // namespace lockstep::client
