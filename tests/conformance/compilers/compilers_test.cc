// What every compiler of fragments has to do (docs/backends.md, schemas/fragment.capnp,
// runtime/fragment/abi.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "runtime/fragment/compile_codec.h"
#include "services/worker/fragment/loaded_object.h"
#include "tests/conformance/compilers/compiler_under_test.h"

namespace lockstep::fragment {
namespace {

using ::testing::ContainsRegex;
using worker::CallResources;
using worker::LoadedObject;

// For a compiler on a busy machine.
Patience Long() { return {Deadline::After(std::chrono::seconds(60))}; }

absl::Span<const std::byte> BytesOf(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

class CompilersTest : public ::testing::Test {
 protected:
  static CompilerProgram Program() { return *CompilerProgram::Find(TheCompiler().program); }

  static CompilerAnswer Ask(Sample sample, Want want) {
    const Fragment fragment = TheCompiler().source(sample).fragment;
    const StatusOr<std::string> request = EncodeRequest({fragment}, want);
    EXPECT_TRUE(request.ok()) << request.status();
    const StatusOr<std::string> bytes = Program().Compile(*request, fragment.name(), Long());
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    if (!bytes.ok()) return {bytes.status()};
    StatusOr<CompilerAnswer> answer = DecodeAnswer(BytesOf(*bytes), fragment.name());
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? *std::move(answer) : CompilerAnswer{answer.status()};
  }
  static std::shared_ptr<const LoadedObject> MustLoad(Sample sample) {
    const CompilerAnswer answer = Ask(sample, Want::kObject);
    EXPECT_TRUE(answer.result.ok()) << answer.result.status();
    if (!answer.result.ok()) std::abort();
    auto object = LoadedObject::Load(*answer.result);
    EXPECT_TRUE(object.ok()) << object.status();
    if (!object.ok()) std::abort();
    return *std::move(object);
  }

  // One call on `x`, with what it may take.
  struct Call {
    int64_t first;
    std::vector<double> x;
    std::vector<double> y = std::vector<double>(x.size(), -1);
    int64_t count = static_cast<int64_t>(x.size());

    std::vector<LockstepFragmentTensor> Arguments() {
      return {{&first, nullptr, nullptr, nullptr}, {x.data(), &count, nullptr, nullptr}};
    }
    Status Run(const LoadedObject& object, const CallResources& resources) {
      const LockstepFragmentTensor result{y.data(), &count, nullptr, nullptr};
      return object.Run(Arguments(), {&result, 1}, resources);
    }
  };
  Status Run(Sample sample, std::vector<double> x) {
    Call call{TheCompiler().source(sample).first, std::move(x)};
    return call.Run(*MustLoad(sample), Resources());
  }
  CallResources Resources() const { return {*memory_, most_bytes_, &abort_}; }

  const std::shared_ptr<tensor::Allocator> memory_ = tensor::NewHeapAllocator();
  size_t most_bytes_ = 1 << 20;
  int32_t abort_ = 0;
};

TEST_F(CompilersTest, TellsWhatItIsAndCompilesForThat) {
  const StatusOr<CompilerIdentity> identity = Program().Describe(Long());
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_EQ(*Program().Describe(Long()), *identity) << "keys of objects are made of it";
  for (const Want want : {Want::kSignature, Want::kObject}) {
    const CompilerAnswer answer = Ask(Sample::kDouble, want);
    ASSERT_TRUE(answer.result.ok()) << answer.result.status();
    EXPECT_EQ(answer.result->compiler, *identity);
    EXPECT_EQ(answer.result->object.empty(), want == Want::kSignature);
    const Signature& signature = answer.result->signature;
    ASSERT_EQ(signature.Validate(), OkStatus());
    ASSERT_EQ(signature.num_arguments(), 2);
    EXPECT_EQ(signature.arguments[0].type, (TensorType{DType::kInt64, {}, true}));
    EXPECT_EQ(signature.arguments[1].type, (TensorType{DType::kFloat64, {kOpen}}));
    ASSERT_EQ(signature.num_results(), 1);
    EXPECT_EQ(signature.results[0].type, (TensorType{DType::kFloat64, {kOpen}}));
  }
}

TEST_F(CompilersTest, TheSameRequestHasTheSameObject) {
  EXPECT_EQ(Ask(Sample::kDouble, Want::kObject).result->object,
            Ask(Sample::kDouble, Want::kObject).result->object);
}

TEST_F(CompilersTest, OneObjectIsForAnyNumberOfElements) {
  const auto object = MustLoad(Sample::kDouble);
  for (const size_t size : {1, 2, 7, 1000}) {
    Call call{TheCompiler().source(Sample::kDouble).first, std::vector<double>(size)};
    std::iota(call.x.begin(), call.x.end(), -3.5);
    if (object->signature().results[0].sizes_known) {
      const auto shapes = object->ResultShapes(call.Arguments(), Resources());
      ASSERT_TRUE(shapes.ok()) << shapes.status();
      EXPECT_THAT(*shapes, ::testing::ElementsAre(Shape{static_cast<int64_t>(size)}));
    }
    ASSERT_EQ(call.Run(*object, Resources()), OkStatus());
    for (size_t i = 0; i < size; ++i) EXPECT_EQ(call.y[i], 2 * call.x[i]) << i << " of " << size;
  }
}

TEST_F(CompilersTest, CallsOfOneObjectMayBeUnderWayAtOnce) {
  const auto object = MustLoad(Sample::kDouble);
  std::vector<std::thread> threads;
  for (int thread = 1; thread <= 4; ++thread) {
    threads.emplace_back([&object, this, thread] {
      for (int i = 0; i < 100; ++i) {
        Call call{TheCompiler().source(Sample::kDouble).first,
                  std::vector<double>(200, thread + i)};
        ASSERT_EQ(call.Run(*object, Resources()), OkStatus());
        ASSERT_EQ(call.y, std::vector<double>(200, 2.0 * (thread + i)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(CompilersTest, FailuresOfACallAreCodesWithTheirPlace) {
  const Status divided = Run(Sample::kDivideByZero, {0, 0, 0, 0});
  EXPECT_EQ(divided.code(), StatusCode::kInvalidArgument) << divided;
  EXPECT_THAT(Message(divided), ContainsRegex("div.* at line [0-9]+, column [0-9]+"));
  most_bytes_ = 3;
  const Status refused = Run(Sample::kWantsMemory, {1, 2, 3, 4});
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted) << refused;
  EXPECT_THAT(Message(refused), ContainsRegex("at line [0-9]+, column [0-9]+"));
}

TEST_F(CompilersTest, WhatNeverEndsEndsWhenItIsAborted) {
  abort_ = 1;
  const Status aborted = Run(Sample::kNeverEnds, {1, 2, 3, 4});
  EXPECT_EQ(aborted.code(), StatusCode::kAborted) << aborted;
}

TEST_F(CompilersTest, AWrongFragmentIsAnAnswerThatLasts) {
  for (const Want want : {Want::kSignature, Want::kObject}) {
    const CompilerAnswer answer = Ask(Sample::kDoesNotCompile, want);
    EXPECT_EQ(answer.result.status().code(), StatusCode::kInvalidArgument)
        << answer.result.status();
    EXPECT_TRUE(answer.is_lasting);
    EXPECT_THAT(Message(answer.result.status()), ContainsRegex("^fragment:[0-9]+:[0-9]+"));
  }
}

TEST_F(CompilersTest, BytesThatAreNoRequestAreRefused) {
  for (const std::string& bytes : {std::string(), std::string("x"), std::string(1000, '\xff')}) {
    const StatusOr<std::string> answer = Program().Compile(bytes, "fragment", Long());
    EXPECT_FALSE(answer.ok() && DecodeAnswer(BytesOf(*answer), "fragment").ok()) << bytes.size();
  }
}

}  // namespace
}  // namespace lockstep::fragment
