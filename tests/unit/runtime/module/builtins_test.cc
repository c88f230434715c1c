#include "runtime/module/builtins.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "runtime/tensor/element.h"
#include "runtime/tensor/storage.h"

namespace lockstep::module {
namespace {

using registers::List;
using registers::None;
using registers::Value;
using tensor::Tensor;

class BuiltinsTest : public testing::Test {
 protected:
  BuiltinsTest() {
    AddBuiltins(table_);
    context_.host = host_.get();
  }

  StatusOr<Value> Call(const std::string& name, const std::vector<Value>& args) {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto function, table_.Find("lockstep." + name));
    Value result;
    LOCKSTEP_RETURN_IF_ERROR(function->Call(context_, args, &result));
    return result;
  }
  Tensor TensorOf(const std::string& name, const std::vector<Value>& args) {
    const StatusOr<Value> result = Call(name, args);
    EXPECT_TRUE(result.ok()) << name << ": " << result.status();
    return result.ok() ? *result->As<Tensor>() : Tensor();
  }
  void ExpectInvalid(const std::string& name, const std::vector<Value>& args,
                     const std::string& message) {
    const Status status = Call(name, args).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << name << ": " << status;
    EXPECT_EQ(Message(status), message);
  }
  // The elements of any tensor, as doubles.
  static std::vector<double> Elements(const Tensor& tensor) {
    std::vector<double> elements;
    tensor::VisitDType(tensor.dtype(), [&]<typename T>(std::type_identity<T>) {
      for (int64_t i = 0; i < tensor.NumElements(); ++i) {
        elements.push_back(tensor::ConvertElement<double>(tensor.data_as<T>()[i]));
      }
    });
    return elements;
  }
  Tensor Counting(const Shape& shape, DType dtype = DType::kInt32) {
    const Tensor flat = TensorOf("arange", {int64_t{0}, shape.NumElements(), int64_t{1}, dtype});
    return TensorOf("reshape", {flat, shape});
  }

  const std::shared_ptr<tensor::Allocator> heap_ = tensor::NewHeapAllocator();
  const std::unique_ptr<tensor::Processor> host_ = tensor::NewHostProcessor(*heap_);
  FunctionTable table_;
  CallContext context_;
};

using Doubles = std::vector<double>;

TEST_F(BuiltinsTest, EmptyHasShapeAndDType) {
  const Tensor tensor = TensorOf("empty", {Shape{2, 3}, DType::kBFloat16});
  EXPECT_EQ(tensor.shape(), (Shape{2, 3}));
  EXPECT_EQ(tensor.dtype(), DType::kBFloat16);
}

TEST_F(BuiltinsTest, FullFillsEveryArithmeticDType) {
  for (int number = 0; number < kDTypeCount; ++number) {
    const auto dtype = static_cast<DType>(number);
    if (!IsArithmetic(dtype)) continue;
    const Tensor tensor = TensorOf("full", {Shape{3}, int64_t{1}, dtype});
    EXPECT_EQ(tensor.dtype(), dtype);
    EXPECT_EQ(Elements(tensor), (Doubles{1, 1, 1})) << dtype;
  }
  EXPECT_EQ(Elements(TensorOf("full", {Shape{}, 2.5, DType::kFloat16})), (Doubles{2.5}));
}

TEST_F(BuiltinsTest, FullRefusesWhatTheDTypeCannotHold) {
  ExpectInvalid("full", {Shape{1}, int64_t{300}, DType::kInt8},
                "argument 3 (\"dtype\") is int8, which cannot hold 300");
  ExpectInvalid("full", {Shape{1}, int64_t{-1}, DType::kUInt64},
                "argument 3 (\"dtype\") is uint64, which cannot hold -1");
  ExpectInvalid("full", {Shape{1}, 2.5, DType::kInt32},
                "argument 3 (\"dtype\") is int32, which cannot hold 2.5");
  ExpectInvalid("full", {Shape{1}, int64_t{2}, DType::kBool},
                "argument 3 (\"dtype\") is bool, which cannot hold 2");
  EXPECT_FALSE(Call("full", {Shape{1}, 0x1p63, DType::kInt64}).ok());
  EXPECT_TRUE(Call("full", {Shape{1}, 0x1p63, DType::kUInt64}).ok());
  EXPECT_FALSE(Call("full", {Shape{1}, 1.0, DType::kFloat8E4M3}).ok());
}

TEST_F(BuiltinsTest, ArangeCountsUpAndDown) {
  const auto arange = [&](Value begin, Value end, Value step, DType dtype) {
    return Elements(TensorOf("arange", {begin, end, step, dtype}));
  };
  EXPECT_EQ(arange(int64_t{0}, int64_t{3}, int64_t{1}, DType::kInt64), (Doubles{0, 1, 2}));
  EXPECT_EQ(arange(int64_t{5}, int64_t{0}, int64_t{-2}, DType::kInt8), (Doubles{5, 3, 1}));
  EXPECT_EQ(arange(int64_t{0}, int64_t{5}, int64_t{2}, DType::kFloat32), (Doubles{0, 2, 4}));
  EXPECT_EQ(arange(0.0, 1.0, 0.25, DType::kFloat32), (Doubles{0, 0.25, 0.5, 0.75}));
  EXPECT_EQ(arange(int64_t{3}, int64_t{3}, int64_t{1}, DType::kInt32), Doubles());
  EXPECT_EQ(arange(int64_t{3}, int64_t{0}, int64_t{1}, DType::kInt32), Doubles());
}

TEST_F(BuiltinsTest, ArangeOverTheWholeRangeOfInt64DoesNotOverflow) {
  const Tensor tensor =
      TensorOf("arange", {Value(INT64_MIN), Value(INT64_MAX), Value(INT64_MAX), DType::kInt64});
  ASSERT_EQ(tensor.NumElements(), 3);
  EXPECT_EQ(tensor.data_as<int64_t>()[0], INT64_MIN);
  EXPECT_EQ(tensor.data_as<int64_t>()[1], -1);
  EXPECT_EQ(tensor.data_as<int64_t>()[2], INT64_MAX - 1);
}

TEST_F(BuiltinsTest, ArangeRefusesBadSteps) {
  ExpectInvalid("arange", {int64_t{0}, int64_t{3}, int64_t{0}, DType::kInt32},
                "argument 3 (\"step\") must not be 0");
  ExpectInvalid("arange", {0.0, HUGE_VAL, 1.0, DType::kFloat32},
                "argument 2 (\"end\") must be finite");
  ExpectInvalid("arange", {int64_t{0}, int64_t{300}, int64_t{1}, DType::kInt8},
                "argument 4 (\"dtype\") is int8, which cannot hold 299");
  EXPECT_FALSE(Call("arange", {int64_t{0}, INT64_MAX, int64_t{1}, DType::kInt64}).ok());
}

TEST_F(BuiltinsTest, CastConverts) {
  const Tensor source = TensorOf("arange", {-1.5, 2.0, 1.0, DType::kFloat32});
  EXPECT_EQ(Elements(TensorOf("cast", {source, DType::kInt32})), (Doubles{-1, 0, 0, 1}));
  EXPECT_EQ(Elements(TensorOf("cast", {source, "float8_e5m2"})), (Doubles{-1.5, -0.5, 0.5, 1.5}));
  EXPECT_EQ(Elements(TensorOf("cast", {source, DType::kBool})), (Doubles{1, 1, 1, 1}));
}

TEST_F(BuiltinsTest, ReshapeSharesMemory) {
  const Tensor source = Counting({6});
  const Tensor reshaped = TensorOf("reshape", {source, Shape{2, 3}});
  EXPECT_EQ(reshaped.data(), source.data());
  EXPECT_EQ(reshaped.shape(), (Shape{2, 3}));
  ExpectInvalid("reshape", {source, Shape{4}},
                "a tensor [6] of 6 elements cannot be reshaped to [4] of 4");
}

TEST_F(BuiltinsTest, CopyMakesANewTensorOrFillsOne) {
  const Tensor source = Counting({2, 2});
  const Tensor copy = TensorOf("copy", {source});
  EXPECT_NE(copy.data(), source.data());
  EXPECT_EQ(Elements(copy), Elements(source));
  const Tensor target = TensorOf("full", {Shape{2, 2}, int64_t{9}, DType::kInt32});
  EXPECT_EQ(TensorOf("copy", {source, target}).data(), target.data());
  EXPECT_EQ(Elements(target), Elements(source));
  ExpectInvalid("copy", {source, Counting({4})},
                "argument 2 (\"target\") must be tensor int32 [2, 2] like the source, not tensor "
                "int32 [4]");
}

TEST_F(BuiltinsTest, SliceCutsAnyAxis) {
  const Tensor source = Counting({2, 3, 2});
  const auto slice = [&](int64_t axis, int64_t begin, int64_t end) {
    return TensorOf("slice", {source, axis, begin, end});
  };
  EXPECT_EQ(Elements(slice(0, 1, 2)), (Doubles{6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(slice(0, 1, 2).storage(), source.storage()) << "rows share the memory";
  EXPECT_EQ(Elements(slice(1, 1, 3)), (Doubles{2, 3, 4, 5, 8, 9, 10, 11}));
  EXPECT_EQ(slice(1, 1, 3).shape(), (Shape{2, 2, 2}));
  EXPECT_EQ(Elements(slice(2, 1, 2)), (Doubles{1, 3, 5, 7, 9, 11}));
  EXPECT_EQ(slice(1, 2, 2).NumElements(), 0);
}

TEST_F(BuiltinsTest, SliceRefusesWhatIsOutside) {
  const Tensor source = Counting({2, 3});
  ExpectInvalid("slice", {source, int64_t{2}, int64_t{0}, int64_t{1}},
                "argument 2 (\"axis\") must be at least 0 and below 2, not 2");
  ExpectInvalid("slice", {source, int64_t{1}, int64_t{2}, int64_t{4}},
                "[2, 4) is not within axis 1 of tensor int32 [2, 3]");
  ExpectInvalid("slice", {source, int64_t{1}, int64_t{2}, int64_t{1}},
                "[2, 1) is not within axis 1 of tensor int32 [2, 3]");
}

TEST_F(BuiltinsTest, ConcatJoinsAlongAnyAxis) {
  const Tensor a = Counting({2, 2});
  const Tensor b = Counting({2, 1});
  const Tensor joined = TensorOf("concat", {int64_t{1}, a, b});
  EXPECT_EQ(joined.shape(), (Shape{2, 3}));
  EXPECT_EQ(Elements(joined), (Doubles{0, 1, 0, 2, 3, 1}));
  const Value list = std::make_shared<const List>(List{a, a, Counting({0, 2})});
  EXPECT_EQ(Elements(TensorOf("concat", {list, int64_t{0}})), (Doubles{0, 1, 2, 3, 0, 1, 2, 3}));
}

TEST_F(BuiltinsTest, SlicesConcatenateBackToTheWhole) {
  const Tensor whole = Counting({3, 4, 5}, DType::kInt64);
  for (int64_t axis = 0; axis < 3; ++axis) {
    std::vector<Value> args = {axis};
    for (int64_t i = 0; i < whole.shape()[static_cast<int>(axis)]; ++i) {
      args.push_back(TensorOf("slice", {whole, axis, i, i + 1}));
    }
    const Tensor joined = TensorOf("concat", args);
    EXPECT_EQ(joined.shape(), whole.shape());
    EXPECT_EQ(Elements(joined), Elements(whole));
  }
}

TEST_F(BuiltinsTest, ConcatRefusesWhatDoesNotMatch) {
  ExpectInvalid("concat", {int64_t{0}}, "there is no tensor to join");
  ExpectInvalid("concat", {int64_t{0}, Counting({2}), Counting({2, 2})},
                "tensor 2 is tensor int32 [2, 2] and cannot be joined along axis 0 with the first, "
                "tensor int32 [2]");
  ExpectInvalid("concat", {int64_t{0}, Counting({2}), Counting({2}, DType::kInt8)},
                "tensor 2 is tensor int8 [2] and cannot be joined along axis 0 with the first, "
                "tensor int32 [2]");
  ExpectInvalid("concat", {int64_t{1}, Counting({2})}, "axis 1 is not one of tensor int32 [2]");
  ExpectInvalid("concat", {int64_t{0}, Counting({2}), "two"},
                "argument 3 (\"tensor\") must be a tensor, not text of 3 bytes");
  const Value list = std::make_shared<const List>(List{Counting({2}), int64_t{1}});
  ExpectInvalid("concat", {list, int64_t{0}},
                "in the list of tensors: argument 2 (\"tensor\") must be a tensor, not int64");
}

TEST_F(BuiltinsTest, PlaceFollowsTheContext) {
  context_.rank = 5;
  context_.world_size = 6;
  context_.num_groups = 2;
  const auto place = [&](const std::string& name) { return *Call(name, {})->As<int64_t>(); };
  EXPECT_EQ(place("worker_rank"), 5);
  EXPECT_EQ(place("world_size"), 6);
  EXPECT_EQ(place("num_groups"), 2);
  EXPECT_EQ(place("group"), 1);
  EXPECT_EQ(place("group_rank"), 2);
  EXPECT_EQ(place("group_size"), 3);
  ExpectInvalid("worker_rank", {int64_t{1}}, "expected 0 arguments (), got 1");
}

TEST_F(BuiltinsTest, NopTakesAnythingAndIdentityReturnsIt) {
  EXPECT_TRUE(Call("nop", {int64_t{1}, "two"})->Is<None>());
  EXPECT_EQ(*Call("identity", {"two"})->As<std::string>(), "two");
  EXPECT_EQ(Call("identity", {}).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(BuiltinsTest, FailFailsOnTheRankAskedFor) {
  context_.rank = 1;
  context_.world_size = 2;
  const Status status = Call("fail", {"on purpose"}).status();
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_EQ(Message(status), "on purpose");
  EXPECT_FALSE(Call("fail", {"on purpose", int64_t{1}}).ok());
  EXPECT_TRUE(Call("fail", {"on purpose", int64_t{0}}).ok());
  ExpectInvalid("fail", {"on purpose", int64_t{2}},
                "argument 2 (\"rank\") must be at least 0 and below 2, not 2");
}

TEST_F(BuiltinsTest, SleepTakesItsTimeOnTheRankAskedFor) {
  context_.world_size = 2;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(Call("sleep", {0.01}).ok());
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(10));
  EXPECT_TRUE(Call("sleep", {3600.0, int64_t{1}}).ok()) << "another rank's sleep";
  ExpectInvalid("sleep", {-1.0}, "argument 1 (\"seconds\") must be between 0 and one day");
  EXPECT_FALSE(Call("sleep", {NAN}).ok());
}

TEST_F(BuiltinsTest, SleepEndsWhenItIsAborted) {
  std::atomic<bool> aborted = false;
  context_.aborted = [](void* state) { return static_cast<std::atomic<bool>*>(state)->load(); };
  context_.aborted_state = &aborted;
  std::thread aborter([&] { aborted = true; });
  EXPECT_EQ(Call("sleep", {3600.0}).status().code(), StatusCode::kAborted);
  aborter.join();
}

TEST_F(BuiltinsTest, AllocatorsErrorReachesTheCaller) {
  EXPECT_EQ(Call("empty", {Shape{int64_t{1} << 60}, DType::kInt8}).status().code(),
            StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace lockstep::module
