#include "services/worker/fragment/loaded_object.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/files.h"
#include "tests/unit/runtime/fragment/fake_compiler.h"

namespace lockstep::worker {
namespace {

using fragment::FakeCompiler;
using testing::HasSubstr;

// What the first argument of test_object.cc asks for.
enum Mode : int64_t {
  kSum = 0,
  kDivideByZero = 1,
  kUntilAborted = 2,
  kAllocate = 3,
  kUnknownCode = 4,
  kVariantNumber = 5,
  kAllocateAndRelease = 6,
  kThreads = 9,
};

fragment::Compiled Compiled(const std::string& object, bool sizes_known = true) {
  using fragment::kOpen;
  fragment::Compiled compiled;
  compiled.signature = {"sum",
                        {{{DType::kInt64, {}, true}}, {{DType::kFloat64, {kOpen}}}},
                        {{{DType::kFloat64, {kOpen}}, sizes_known}}};
  const auto* const bytes = reinterpret_cast<const std::byte*>(object.data());
  compiled.object.assign(bytes, bytes + object.size());
  return compiled;
}

std::string TestObject() { return support::ReadFile(FakeCompiler::File("test_object.so")); }

// The same with another number in it.
std::string Variant(int64_t number) {
  std::string object = TestObject();
  constexpr int64_t kInIt = 0x4b4c5f544e414952;
  const std::string before(reinterpret_cast<const char*>(&kInIt), sizeof kInIt);
  const size_t at = object.find(before);
  EXPECT_NE(at, std::string::npos);
  std::memcpy(object.data() + at, &number, sizeof number);
  return object;
}

class LoadedObjectTest : public testing::Test {
 protected:
  // A call over the numbers from 0 on.
  struct Arguments {
    int64_t mode;
    std::vector<double> values;
    int64_t count = static_cast<int64_t>(values.size());
    std::array<LockstepFragmentTensor, 2> tensors{
        {{&mode, nullptr, nullptr, nullptr}, {values.data(), &count, nullptr, nullptr}}};

    Arguments(Mode asked, size_t size) : mode(asked), values(size) {
      std::iota(values.begin(), values.end(), 0.0);
      tensors[1].data = values.data();
      count = static_cast<int64_t>(size);
    }
    Arguments(const Arguments&) = delete;
    Arguments& operator=(const Arguments&) = delete;
  };

  Status Run(const LoadedObject& object, Mode mode, size_t size = 4) {
    Arguments arguments(mode, size);
    const int64_t one = 1;
    const LockstepFragmentTensor result{&result_, &one, nullptr, nullptr};
    return object.Run(arguments.tensors, {&result, 1}, Resources());
  }
  CallResources Resources() const { return {*memory_, 1000, &abort_, nullptr, threads_.get()}; }
  static std::shared_ptr<const LoadedObject> MustLoad(const std::string& object) {
    auto loaded = LoadedObject::Load(Compiled(object));
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return *std::move(loaded);
  }
  static bool IsMapped() {
    return support::ReadFile("/proc/self/maps").find("lockstep-fragment:sum") != std::string::npos;
  }

  const std::shared_ptr<tensor::Allocator> memory_ = tensor::NewHeapAllocator();
  int32_t abort_ = 0;
  double result_ = -1;
  std::unique_ptr<fragment::LoopThreads> threads_;
};

TEST_F(LoadedObjectTest, LoopsHaveTheThreadsThatACallIsGiven) {
  const auto object = MustLoad(TestObject());
  EXPECT_TRUE(Run(*object, kThreads, 100).ok());
  EXPECT_EQ(result_, 0);
  threads_ = std::make_unique<fragment::LoopThreads>(3);
  EXPECT_TRUE(Run(*object, kThreads, 10'000).ok());
  EXPECT_EQ(result_, 1);
}

TEST_F(LoadedObjectTest, Computes) {
  const auto object = MustLoad(TestObject());
  EXPECT_TRUE(Run(*object, kSum).ok());
  EXPECT_EQ(result_, 6);
}

TEST_F(LoadedObjectTest, TellsShapesAheadWhereItCan) {
  const auto object = MustLoad(TestObject());
  EXPECT_THAT(*object->ResultShapes(Arguments(kSum, 4).tensors, Resources()),
              testing::ElementsAre(Shape{1}));
  const auto unknown = LoadedObject::Load(Compiled(TestObject(), /*sizes_known=*/false));
  ASSERT_TRUE(unknown.ok()) << unknown.status();
  EXPECT_THAT(*(*unknown)->ResultShapes(Arguments(kAllocate, 4).tensors, Resources()),
              testing::ElementsAre(std::nullopt));
  // A size that it has computed, of a number that it was given, say.
  EXPECT_EQ(object->ResultShapes(Arguments(kAllocate, 4).tensors, Resources()).status(),
            InvalidArgument("result 0 of `sum`: shape [-1] has a negative extent"));
  EXPECT_EQ(object->ResultShapes(Arguments(kDivideByZero, 4).tensors, Resources()).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(LoadedObjectTest, IsUnloadedWithItsLastUser) {
  auto object = MustLoad(TestObject());
  auto user = object;
  object.reset();
  EXPECT_TRUE(IsMapped());
  EXPECT_TRUE(Run(*user, kSum).ok());
  user.reset();
  EXPECT_FALSE(IsMapped());
}

// The dynamic linker takes equal paths for the same library.
TEST_F(LoadedObjectTest, ObjectsThatLiveAtOnceAreNotMixedUp) {
  const auto first = MustLoad(Variant(1));
  const auto second = MustLoad(Variant(2));
  auto third = MustLoad(Variant(3));
  third.reset();
  const auto fourth = MustLoad(Variant(4));
  EXPECT_TRUE(Run(*first, kVariantNumber).ok());
  EXPECT_EQ(result_, 1);
  EXPECT_TRUE(Run(*second, kVariantNumber).ok());
  EXPECT_EQ(result_, 2);
  EXPECT_TRUE(Run(*fourth, kVariantNumber).ok());
  EXPECT_EQ(result_, 4);
}

TEST_F(LoadedObjectTest, ErrorsSayWhereInTheFragment) {
  const auto object = MustLoad(TestObject());
  EXPECT_EQ(Run(*object, kDivideByZero),
            InvalidArgument("`sum` divided an integer by zero (arith.divsi at line 3, column 10)"));
  EXPECT_EQ(Run(*object, kUnknownCode), Internal("`sum` ended with the unknown code 99"));
}

TEST_F(LoadedObjectTest, StopsWhenItIsTold) {
  const auto object = MustLoad(TestObject());
  abort_ = 1;
  EXPECT_EQ(Run(*object, kUntilAborted),
            Aborted("`sum` was stopped (scf.while at line 3, column 10)"));
}

TEST_F(LoadedObjectTest, MemoryIsBoundedAndFreed) {
  const auto object = MustLoad(TestObject());
  EXPECT_TRUE(Run(*object, kAllocate, 1000).ok());
  EXPECT_EQ(result_, 0) << "aligned to 64 bytes";
  EXPECT_EQ(memory_->Stats().live_blocks, 0u) << "what was left behind";
  EXPECT_TRUE(Run(*object, kAllocateAndRelease, 1000).ok()) << "what is released is there again";
  EXPECT_EQ(memory_->Stats().live_blocks, 0u);
  EXPECT_EQ(Run(*object, kAllocate, 1001),
            ResourceExhausted("`sum` wants 1001 B of memory and has 0 B of the 1000 B that a call "
                              "may have (tensor.empty at line 3, column 10)"));
}

TEST_F(LoadedObjectTest, CallsHaveTheSignaturesArguments) {
  const auto object = MustLoad(TestObject());
  EXPECT_EQ(object->Run({}, {}, Resources()).code(), StatusCode::kInternal);
  EXPECT_EQ(object->ResultShapes({}, Resources()).status().code(), StatusCode::kInternal);
}

TEST_F(LoadedObjectTest, WhatIsNoneIsRefused) {
  EXPECT_THAT(Message(LoadedObject::Load(Compiled("no object")).status()),
              HasSubstr("`sum` cannot be loaded: "));
  const Status other =
      LoadedObject::Load(Compiled(support::ReadFile(FakeCompiler::File("no_entries.so")))).status();
  EXPECT_THAT(Message(other), HasSubstr("it has no lockstep_fragment_run_2"));
  EXPECT_FALSE(IsMapped());
}

}  // namespace
}  // namespace lockstep::worker
