#include "runtime/registers/register_file.h"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <vector>

#include "runtime/tensor/storage.h"

namespace lockstep::registers {
namespace {

class RegisterFileTest : public testing::Test {
 protected:
  tensor::Tensor NewTensor(int64_t bytes) {
    return *tensor::Tensor::Empty(*heap_, DType::kUInt8, {bytes});
  }
  int64_t Int(RegisterId id) {
    const StatusOr<const Value*> value = file_.Read(id);
    EXPECT_TRUE(value.ok()) << value.status();
    return value.ok() ? *(*value)->As<int64_t>() : -1;
  }
  void ExpectError(const Status& status, StatusCode code, const std::string& message) {
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_EQ(Message(status), message);
  }

  const std::shared_ptr<tensor::Allocator> heap_ = tensor::NewHeapAllocator();
  RegisterTotals totals_;
  RegisterFile file_{&totals_, {.registers = 1000, .bytes = size_t{1} << 30}};
};

TEST_F(RegisterFileTest, ReadGivesWhatWasWritten) {
  ASSERT_TRUE(file_.Write({0, 1}, int64_t{10}).ok());
  ASSERT_TRUE(file_.Write({999, 7}, int64_t{20}).ok());
  EXPECT_EQ(Int({0, 1}), 10);
  EXPECT_EQ(Int({999, 7}), 20);
  ASSERT_TRUE(file_.Write({0, 1}, int64_t{11}).ok()) << "a register may be written again";
  EXPECT_EQ(Int({0, 1}), 11);
  EXPECT_EQ(file_.live_registers(), 2u);
}

TEST_F(RegisterFileTest, ReadOfUnwrittenRegisterIsNotFound) {
  ExpectError(file_.Read({5, 2}).status(), StatusCode::kNotFound,
              "register r5.2 was never written");
  ASSERT_TRUE(file_.Write({5, 1}, int64_t{1}).ok());
  ExpectError(file_.Read({5, 2}).status(), StatusCode::kNotFound,
              "register r5.2 was never written");
  ExpectError(file_.Read({4000000000u, 1}).status(), StatusCode::kNotFound,
              "register r4000000000.1 was never written");
}

TEST_F(RegisterFileTest, ReadOfFreedRegisterIsNotFound) {
  ASSERT_TRUE(file_.Write({5, 2}, int64_t{1}).ok());
  ASSERT_TRUE(file_.Kill({5, 2}).ok());
  ExpectError(file_.Read({5, 2}).status(), StatusCode::kNotFound, "register r5.2 was freed");
}

TEST_F(RegisterFileTest, ReadOfStaleNameIsNeverTheNewValue) {
  ASSERT_TRUE(file_.Write({5, 2}, int64_t{1}).ok());
  ASSERT_TRUE(file_.Kill({5, 2}).ok());
  ASSERT_TRUE(file_.Write({5, 3}, int64_t{2}).ok());
  ExpectError(file_.Read({5, 2}).status(), StatusCode::kNotFound,
              "register r5.2 was freed; its place now holds r5.3's value");
  EXPECT_EQ(Int({5, 3}), 2);
  ASSERT_TRUE(file_.Kill({5, 3}).ok());
  ExpectError(file_.Read({5, 2}).status(), StatusCode::kNotFound,
              "register r5.2 was freed, and so was r5.3 after it");
}

TEST_F(RegisterFileTest, WriteUnderStaleOrFreedNameFails) {
  ASSERT_TRUE(file_.Write({5, 3}, int64_t{3}).ok());
  ExpectError(file_.Write({5, 2}, int64_t{2}), StatusCode::kFailedPrecondition,
              "register r5.2 is out of date: its place was given to r5.3");
  EXPECT_EQ(Int({5, 3}), 3);
  ASSERT_TRUE(file_.Kill({5, 3}).ok());
  ExpectError(file_.Write({5, 3}, int64_t{4}), StatusCode::kFailedPrecondition,
              "register r5.3 was freed and cannot be written again");
}

TEST_F(RegisterFileTest, NewerGenerationReplacesTheOlder) {
  ASSERT_TRUE(file_.Write({5, 2}, NewTensor(100)).ok());
  ASSERT_TRUE(file_.Write({5, 3}, int64_t{3}).ok());
  EXPECT_EQ(heap_->Stats().live_blocks, 0u);
  EXPECT_EQ(file_.live_registers(), 1u);
}

TEST_F(RegisterFileTest, GenerationZeroIsInvalid) {
  const std::string message = "a register id of generation 0 names nothing";
  ExpectError(file_.Write({}, int64_t{1}), StatusCode::kInvalidArgument, message);
  ExpectError(file_.Write({7, 0}, int64_t{1}), StatusCode::kInvalidArgument, message);
  ExpectError(file_.Read({}).status(), StatusCode::kInvalidArgument, message);
  ExpectError(file_.Kill({}), StatusCode::kInvalidArgument, message);
  ASSERT_TRUE(file_.Write({7, 1}, int64_t{1}).ok());
  ExpectError(file_.Read({7, 0}).status(), StatusCode::kInvalidArgument, message);
}

TEST_F(RegisterFileTest, WriteBeyondTheLimitIsExhausted) {
  ExpectError(file_.Write({1000, 1}, int64_t{1}), StatusCode::kResourceExhausted,
              "register r1000.1 is beyond the limit of 1000 registers per session; free some, or "
              "raise the limit (max_registers)");
  EXPECT_TRUE(file_.Kill({1000, 1}).ok()) << "the client drops the reference all the same";
}

TEST_F(RegisterFileTest, KillOfUnwrittenRegisterIsFineAndFinal) {
  EXPECT_TRUE(file_.Kill({5, 2}).ok()) << "the command that should have written it may have failed";
  EXPECT_EQ(file_.Write({5, 2}, int64_t{1}).code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(file_.Write({5, 3}, int64_t{1}).ok());
}

TEST_F(RegisterFileTest, KillOfStaleOrFreedNameIsNotFoundAndHarmless) {
  ASSERT_TRUE(file_.Write({5, 3}, int64_t{3}).ok());
  EXPECT_EQ(file_.Kill({5, 2}).code(), StatusCode::kNotFound);
  EXPECT_EQ(Int({5, 3}), 3);
  ASSERT_TRUE(file_.Kill({5, 3}).ok());
  ExpectError(file_.Kill({5, 3}), StatusCode::kNotFound, "register r5.3 was freed");
}

TEST_F(RegisterFileTest, ValuesDoNotMoveWhileOthersAreWritten) {
  ASSERT_TRUE(file_.Write({0, 1}, int64_t{10}).ok());
  const Value* value = *file_.Read({0, 1});
  for (uint32_t index = 1; index < 1000; ++index) {
    ASSERT_TRUE(file_.Write({index, 1}, int64_t{index}).ok());
  }
  EXPECT_EQ(*value->As<int64_t>(), 10);
}

TEST_F(RegisterFileTest, CountsFollowRegistersAndTensors) {
  ASSERT_TRUE(file_.Write({1, 1}, NewTensor(100)).ok());
  ASSERT_TRUE(file_.Write({2, 1}, NewTensor(50)).ok());
  ASSERT_TRUE(file_.Write({3, 1}, "text").ok());
  EXPECT_EQ(totals_.live_registers, 3);
  EXPECT_EQ(totals_.tensor_bytes, 150);
  ASSERT_TRUE(file_.Write({1, 1}, NewTensor(10)).ok());
  EXPECT_EQ(file_.tensor_bytes(), 60u);
  ASSERT_TRUE(file_.Kill({2, 1}).ok());
  EXPECT_EQ(totals_.live_registers, 2);
  EXPECT_EQ(totals_.tensor_bytes, 10);
  EXPECT_EQ(heap_->Stats().live_blocks, 1u);
}

TEST(SessionRegistersTest, SessionsDoNotSeeEachOther) {
  SessionRegisters sessions;
  RegisterFile* one = *sessions.Open(SessionId(1));
  RegisterFile* two = *sessions.Open(SessionId(2));
  ASSERT_TRUE(one->Write({5, 1}, int64_t{1}).ok());
  EXPECT_EQ(two->Read({5, 1}).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(*sessions.Find(SessionId(1)), one);
  EXPECT_EQ(sessions.open_sessions(), 2u);
}

TEST(SessionRegistersTest, CloseFreesEverythingOfThatSessionOnly) {
  const auto heap = tensor::NewHeapAllocator();
  SessionRegisters sessions;
  RegisterFile* one = *sessions.Open(SessionId(1));
  RegisterFile* two = *sessions.Open(SessionId(2));
  for (uint32_t index = 0; index < 10; ++index) {
    ASSERT_TRUE(one->Write({index, 1}, *tensor::Tensor::Empty(*heap, DType::kInt8, {100})).ok());
  }
  ASSERT_TRUE(two->Write({0, 1}, *tensor::Tensor::Empty(*heap, DType::kInt8, {7})).ok());
  EXPECT_EQ(sessions.totals().tensor_bytes, 1007);
  ASSERT_TRUE(sessions.Close(SessionId(1)).ok());
  EXPECT_EQ(heap->Stats().live_bytes, 7u);
  EXPECT_EQ(sessions.totals().live_registers, 1);
  EXPECT_EQ(sessions.totals().tensor_bytes, 7);
  EXPECT_EQ(sessions.Find(SessionId(1)).status().code(), StatusCode::kNotFound);
}

TEST(SessionRegistersTest, OpeningTwiceAndClosingTwiceAreErrors) {
  SessionRegisters sessions;
  ASSERT_TRUE(sessions.Open(SessionId(1)).ok());
  EXPECT_EQ(sessions.Open(SessionId(1)).status().code(), StatusCode::kAlreadyExists);
  ASSERT_TRUE(sessions.Close(SessionId(1)).ok());
  EXPECT_EQ(sessions.Close(SessionId(1)).code(), StatusCode::kNotFound);
  EXPECT_TRUE(sessions.Open(SessionId(1)).ok());
}

TEST(KeptRegistersTest, AllButSomeAreFreed) {
  RegisterTotals totals;
  RegisterFile file(&totals);
  const RegisterId kept{3, 2};
  for (const RegisterId id : {RegisterId{0, 1}, RegisterId{3, 1}, kept, RegisterId{700, 5}}) {
    ASSERT_TRUE(file.Write(id, Value(int64_t{7})).ok());
  }
  EXPECT_EQ(file.generations(), 5u);
  file.KillAllBut({kept, RegisterId{0, 9}});
  EXPECT_EQ(file.live_registers(), 1u);
  EXPECT_TRUE(file.Read(kept).ok());
  EXPECT_EQ(file.Read({0, 1}).status().code(), StatusCode::kNotFound) << "another generation";
  EXPECT_EQ(file.Read({700, 5}).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(file.Write({0, 1}, Value(int64_t{8})).code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(file.Write({0, 6}, Value(int64_t{8})).ok()) << "a later generation";
  file.KillAllBut({});
  EXPECT_EQ(totals.live_registers, 0);
}

TEST_F(RegisterFileTest, ALimitNamesTheSettingThatItComesFrom) {
  const RegisterFile file(&totals_, {.bytes = 10, .bytes_setting = "arena_bytes"});
  ExpectError(file.CheckRoom(11), StatusCode::kResourceExhausted,
              "the session's registers hold 0 B on this rank, and 11 B more are beyond its "
              "limit of 10 B; free some, or raise the limit (arena_bytes)");
}

TEST_F(RegisterFileTest, BytesOfAllValuesTogetherAreLimited) {
  RegisterFile file(&totals_, {.registers = 1000, .bytes = 1000});
  EXPECT_EQ(file.CheckRoom(1000), OkStatus());
  ASSERT_EQ(file.Write({0, 1}, NewTensor(600)), OkStatus());
  ASSERT_EQ(file.Write({1, 1}, std::string(300, 'x')), OkStatus());
  const Status full = file.Write({2, 1}, Bytes{std::string(101, 'x')});
  ExpectError(full, StatusCode::kResourceExhausted,
              "the session's registers hold 900 B on this rank, and 101 B more are beyond its "
              "limit of 1000 B; free some, or raise the limit (max_session_bytes)");
  EXPECT_EQ(file.Read({2, 1}).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(file.Write({2, 1}, Bytes{std::string(100, 'x')}), OkStatus());
  EXPECT_EQ(file.CheckRoom(1).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(file.Write({0, 2}, NewTensor(500)), OkStatus()) << "what it replaces is given back";
  ASSERT_EQ(file.Kill({1, 1}), OkStatus());
  EXPECT_EQ(file.CheckRoom(400), OkStatus());
  EXPECT_EQ(file.CheckRoom(401).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(file.CheckRoom(~size_t{0}).code(), StatusCode::kResourceExhausted) << "no overflow";
}

TEST_F(RegisterFileTest, WhatIsKeptBesideRegistersCountsAmongTheirBytes) {
  RegisterFile file(&totals_, {.registers = 1000, .bytes = 1000});
  ASSERT_EQ(file.Write({0, 1}, std::string(600, 'x')), OkStatus());
  EXPECT_EQ(file.KeepBeside(400), OkStatus());
  EXPECT_EQ(file.held_bytes(), 1000u);
  EXPECT_EQ(file.KeepBeside(401).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(file.held_bytes(), 1000u) << "as it was";
  EXPECT_EQ(file.CheckRoom(1).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(file.KeepBeside(100), OkStatus());
  EXPECT_EQ(file.CheckRoom(300), OkStatus());
  ASSERT_EQ(file.Kill({0, 1}), OkStatus());
  EXPECT_EQ(file.held_bytes(), 100u);
}

TEST_F(RegisterFileTest, ALayoutIsOneOfTheValueThatIsThere) {
  const auto layout = std::make_shared<const plan::Layout>(*plan::Layout::Make(
      {4}, DType::kUInt8, *plan::Mesh::Line({0, 1}), {plan::Placement::Shard(0)}));
  ASSERT_TRUE(file_.Write({5, 2}, NewTensor(2), layout).ok());
  EXPECT_EQ(file_.LayoutOf({5, 2}), layout);
  EXPECT_TRUE(file_.HasLayouts());
  EXPECT_EQ(file_.LayoutOf({5, 1}), nullptr) << "an older name";
  EXPECT_EQ(file_.LayoutOf({600, 1}), nullptr) << "never written";
  ASSERT_TRUE(file_.Write({5, 2}, NewTensor(2)).ok());
  EXPECT_EQ(file_.LayoutOf({5, 2}), nullptr) << "written anew";
  ASSERT_TRUE(file_.SetLayout({5, 2}, layout).ok());
  ASSERT_TRUE(file_.SetLayout({5, 1}, nullptr).ok());
  EXPECT_EQ(file_.LayoutOf({5, 2}), layout) << "another register's was forgotten";
  ASSERT_TRUE(file_.SetLayout({5, 2}, nullptr).ok());
  EXPECT_EQ(file_.LayoutOf({5, 2}), nullptr);
  ASSERT_TRUE(file_.SetLayout({5, 2}, layout).ok());
  ASSERT_TRUE(file_.Kill({5, 2}).ok());
  ASSERT_TRUE(file_.SetLayout({5, 2}, layout).ok());
  EXPECT_EQ(file_.LayoutOf({5, 2}), nullptr) << "there is nothing";
  EXPECT_FALSE(file_.HasLayouts());
  EXPECT_EQ(layout.use_count(), 1);
}

// A client can declare one of thousands of ranks for each of its registers.
TEST_F(RegisterFileTest, LayoutsCountAmongWhatIsHeld) {
  std::vector<Rank> ranks(1000);
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto layout = std::make_shared<const plan::Layout>(*plan::Layout::Make(
      {4}, DType::kUInt8, *plan::Mesh::Line(ranks), {plan::Placement::Shard(0)}));
  RegisterFile small(&totals_, {.bytes = 10'000});
  ASSERT_TRUE(small.Write({0, 1}, NewTensor(24)).ok());
  ASSERT_TRUE(small.Write({1, 1}, NewTensor(24)).ok());
  ASSERT_TRUE(small.SetLayout({0, 1}, layout).ok());
  EXPECT_GT(small.held_bytes(), 8'000u);
  EXPECT_EQ(small.tensor_bytes(), 48u);
  EXPECT_EQ(small.SetLayout({1, 1}, layout).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(small.Write({1, 1}, NewTensor(24), layout).code(), StatusCode::kResourceExhausted);
  ASSERT_TRUE(small.SetLayout({0, 1}, layout).ok()) << "it is counted once";
  ASSERT_TRUE(small.Write({0, 1}, NewTensor(24)).ok());
  EXPECT_EQ(small.held_bytes(), 48u);
  ASSERT_TRUE(small.SetLayout({1, 1}, layout).ok());
}

}  // namespace
}  // namespace lockstep::registers
