#include "runtime/module/module.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/module/builtins.h"
#include "runtime/tensor/arena.h"
#include "tests/unit/runtime/module/test_modules.h"

namespace lockstep::module {
namespace {

using registers::Bytes;
using registers::List;
using registers::Map;
using registers::None;
using registers::Object;
using registers::Value;
using tensor::Tensor;

class ModuleTest : public testing::Test {
 protected:
  void SetUp() override {
    auto arena = NewArena();
    ASSERT_TRUE(arena.ok()) << arena.status();
    arena_ = *std::move(arena);
    host_ = tensor::NewHostProcessor(*arena_);
    context_.host = host_.get();
    auto module = LoadModule("test_module.so", {ModuleDirectory()});
    ASSERT_TRUE(module.ok()) << module.status();
    module_ = *std::move(module);
  }
  // Nothing may be left behind, neither by calls that work nor by those that fail.
  void TearDown() override {
    module_.reset();
    EXPECT_EQ(arena_->Stats().live_blocks, 0u);
  }

  StatusOr<Value> Call(const std::string& name, const std::vector<Value>& args) {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto function, module_->GetFunction(name));
    Value result;
    LOCKSTEP_RETURN_IF_ERROR(function->Call(context_, args, &result));
    return result;
  }
  template <typename T>
  T Get(const std::string& name, const std::vector<Value>& args) {
    const StatusOr<Value> result = Call(name, args);
    EXPECT_TRUE(result.ok()) << name << ": " << result.status();
    if (!result.ok() || !result->Is<T>()) {
      ADD_FAILURE() << name << " gave " << (result.ok() ? Describe(*result) : "an error");
      return T();
    }
    return *result->As<T>();
  }
  template <typename T>
  Tensor NewTensor(const Shape& shape, const std::vector<T>& elements) {
    Tensor tensor = *Tensor::Empty(*arena_, DTypeOf<T>::value, shape);
    std::copy(elements.begin(), elements.end(), tensor.data_as<T>());
    return tensor;
  }
  static std::vector<float> ElementsOf(const Tensor& tensor) {
    return {tensor.data_as<float>(), tensor.data_as<float>() + tensor.NumElements()};
  }
  void ExpectError(const std::string& name, const std::vector<Value>& args, StatusCode code,
                   const std::string& message) {
    const Status status = Call(name, args).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_EQ(Message(status), message);
  }

  std::shared_ptr<tensor::Arena> arena_;
  std::unique_ptr<tensor::Processor> host_;
  std::shared_ptr<Module> module_;
  CallContext context_;
};

TEST_F(ModuleTest, FunctionWorksOnATensorInPlace) {
  const Tensor tensor = NewTensor<float>({3}, {1, 2, 3});
  EXPECT_TRUE(Call("add_one", {tensor})->Is<None>());
  EXPECT_EQ(tensor.data_as<float>()[2], 4.0f);
}

// Compiled kernels load whole vectors from the first element on, and assume where it is.
TEST_F(ModuleTest, ViewsAreLentAligned) {
  const Tensor whole = NewTensor<float>({6}, {0, 1, 2, 3, 4, 5});
  const Tensor view = *whole.Rows(1, 4);
  EXPECT_EQ(Get<int64_t>("misalignment", {whole}), 0);
  EXPECT_EQ(Get<int64_t>("misalignment", {view}), 0);
  EXPECT_EQ(Get<int64_t>("misalignment", {*view.Rows(1, 1)}), 8) << "there is nothing to load";
}

TEST_F(ModuleTest, ChangesToAViewAreChangesToTheWhole) {
  const Tensor whole = NewTensor<float>({6}, {0, 1, 2, 3, 4, 5});
  EXPECT_TRUE(Call("add_one", {*whole.Rows(1, 4)}).ok());
  EXPECT_EQ(ElementsOf(whole), (std::vector<float>{0, 2, 3, 4, 4, 5}));
  EXPECT_FALSE(Call("change_and_throw", {*whole.Rows(1, 4)}).ok());
  EXPECT_EQ(ElementsOf(whole), (std::vector<float>{0, -1, 3, 4, 4, 5}));
}

TEST_F(ModuleTest, ViewThatIsOnlyReadUndoesNothing) {
  const Tensor whole = NewTensor<float>({6}, {0, 1, 2, 3, 4, 5});
  EXPECT_TRUE(Call("add_one_beside", {whole, *whole.Rows(1, 4)}).ok());
  EXPECT_EQ(ElementsOf(whole), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_TRUE(Call("add_one_beside", {*whole.Rows(1, 4), *whole.Rows(2, 5)}).ok());
  EXPECT_EQ(ElementsOf(whole), (std::vector<float>{1, 3, 4, 5, 5, 6}));
}

TEST_F(ModuleTest, ViewPassedTwiceIsOneTensor) {
  const Tensor whole = NewTensor<float>({3}, {1, 2, 3});
  const Tensor view = *whole.Rows(1, 3);
  EXPECT_TRUE(Call("add_to", {view, view}).ok());
  EXPECT_EQ(ElementsOf(whole), (std::vector<float>{1, 4, 6}));
}

TEST_F(ModuleTest, ViewThatComesBackIsTheViewItself) {
  const Tensor whole = NewTensor<float>({3}, {1, 2, 3});
  const Tensor view = *whole.Rows(1, 3);
  EXPECT_EQ(Get<Tensor>("give_back", {view}).data(), view.data());
  EXPECT_EQ(Get<Tensor>("give_back", {whole}).data(), whole.data());
}

TEST_F(ModuleTest, MisalignedViewInAListIsRefused) {
  const Tensor whole = NewTensor<float>({3}, {1, 2, 3});
  const auto list = [](const Tensor& tensor) {
    return Value(std::shared_ptr<const List>(std::make_shared<List>(List{tensor})));
  };
  EXPECT_TRUE(Call("echo", {list(*whole.Rows(0, 2))}).ok());
  ExpectError("echo", {list(*whole.Rows(1, 3))}, StatusCode::kInvalidArgument,
              "argument 1: a view that does not begin at a multiple of 64 bytes cannot be passed "
              "to a module inside a list or map, nor returned to it; pass lockstep.copy of it, or "
              "the tensor by itself");
}

TEST_F(ModuleTest, TensorOnAnotherDeviceComesAndGoesUnread) {
  const Tensor tensor = Get<Tensor>("make_cuda_tensor", {});
  EXPECT_EQ(ToString(tensor.device()), "cuda:0");
  EXPECT_EQ(Get<Tensor>("give_back", {tensor}).data(), tensor.data());
  EXPECT_EQ(Get<Tensor>("give_back", {*tensor.Rows(1, 2)}).NumElements(), 1);
}

TEST_F(ModuleTest, ScalarsAndTextCross) {
  EXPECT_EQ(Get<int64_t>("sum_ints", {int64_t{1}, int64_t{2}, int64_t{-10}}), -7);
  EXPECT_EQ(Get<double>("half", {3.0}), 1.5);
  EXPECT_EQ(Get<double>("half", {int64_t{3}}), 1.5);
  EXPECT_EQ(Get<std::string>("greet", {"you"}), "hello, you");
}

TEST_F(ModuleTest, EveryTypeComesBackAsItWent) {
  EXPECT_TRUE(Call("echo", {Value()})->Is<None>());
  EXPECT_EQ(Get<bool>("echo", {true}), true);
  EXPECT_EQ(Get<bool>("echo", {false}), false);
  EXPECT_EQ(Get<int64_t>("echo", {INT64_MIN}), INT64_MIN);
  EXPECT_EQ(Get<double>("echo", {1e300}), 1e300);
  for (const std::string& text : {std::string(), std::string("seven_b"), std::string(1000, 'x'),
                                  std::string("zero\0inside", 11), std::string("\0", 1)}) {
    EXPECT_EQ(Get<std::string>("echo", {text}), text);
    EXPECT_EQ(Get<Bytes>("echo", {Bytes{text}}), Bytes{text});
  }
  for (int number = 0; number < kDTypeCount; ++number) {
    EXPECT_EQ(Get<DType>("echo", {static_cast<DType>(number)}), static_cast<DType>(number));
  }
  EXPECT_EQ(Get<Device>("echo", {Device{DeviceType::kCuda, 3}}), (Device{DeviceType::kCuda, 3}));
  EXPECT_EQ(Get<Shape>("echo", {Shape{2, 0, 7}}), (Shape{2, 0, 7}));
  EXPECT_EQ(Get<Shape>("echo", {Shape{}}), Shape{});
}

TEST_F(ModuleTest, ReturnedArgumentTensorIsTheSameTensor) {
  const Tensor tensor = NewTensor<float>({2}, {1, 2});
  EXPECT_EQ(Get<Tensor>("echo", {tensor}).dl(), tensor.dl());
}

TEST_F(ModuleTest, ListsAndMapsCrossWithTheirTensors) {
  const Tensor tensor = NewTensor<int64_t>({2, 1}, {5, 6});
  const Value inner = std::make_shared<const Map>(
      Map{{"tensor", tensor}, {"a long name of a key", "text"}, {"empty", Value()}});
  const Value list =
      std::make_shared<const List>(List{int64_t{1}, inner, Bytes{"bytes"}, Shape{3}});
  const auto back = Get<std::shared_ptr<const List>>("echo", {list});
  ASSERT_NE(back, nullptr);
  EXPECT_EQ(Describe(back), Describe(list));
  const Map& map = **(*back)[1].As<std::shared_ptr<const Map>>();
  const Tensor returned = *map.at("tensor").As<Tensor>();
  EXPECT_EQ(returned.data(), tensor.data()) << "shared, not copied";
  EXPECT_EQ(returned.shape(), tensor.shape());
  const Value empty = std::make_shared<const List>();
  EXPECT_TRUE(Get<std::shared_ptr<const List>>("echo", {empty})->empty());
}

TEST_F(ModuleTest, NewTensorsComeFromTheWorkersArena) {
  const Tensor x = NewTensor<double>({2, 2}, {1, 2, 3, 4});
  const Tensor y = Get<Tensor>("scale", {x, 10.0, false});
  EXPECT_EQ(y.shape(), (Shape{2, 2}));
  EXPECT_EQ(y.dtype(), DType::kFloat64);
  EXPECT_EQ(y.data_as<double>()[3], 40.0);
  EXPECT_TRUE(arena_->Contains(y.data()));
  EXPECT_EQ(y.device(), Device{});
}

TEST_F(ModuleTest, ReturnedTensorOutlivesTheCallAndTheModule) {
  Tensor y = Get<Tensor>("scale", {NewTensor<double>({1, 2}, {1, 2}), 3.0, false});
  module_.reset();
  EXPECT_EQ(y.data_as<double>()[1], 6.0);
  EXPECT_EQ(arena_->Stats().live_blocks, 1u);
}

TEST_F(ModuleTest, ReturnedFunctionCanBeCalledAndPassedOn) {
  const Value made = *Call("make_function", {});
  ASSERT_TRUE(made.Is<std::shared_ptr<Object>>());
  EXPECT_EQ(TypeName(made), "function");
  const auto object = *made.As<std::shared_ptr<Object>>();
  Value result;
  const Value argument = int64_t{21};
  ASSERT_TRUE(static_cast<Function&>(*object).Call(context_, {&argument, 1}, &result).ok());
  EXPECT_EQ(*result.As<int64_t>(), 42);
  EXPECT_EQ(Get<int64_t>("call", {made, int64_t{4}}), 8);
}

TEST_F(ModuleTest, FunctionsOfTheModuleCanBePassedToIt) {
  const Value half = std::shared_ptr<Object>(*module_->GetFunction("half"));
  EXPECT_EQ(Get<double>("call", {half, 5.0}), 2.5);
}

TEST_F(ModuleTest, ModulesAndOpaqueObjectsAreKeptAndPassedBack) {
  const Value opaque = *Call("make_opaque", {});
  EXPECT_EQ(TypeName(opaque), "object");
  EXPECT_EQ(Describe(opaque), "object ffi.OpaquePyObject");
  EXPECT_TRUE(Get<bool>("is_opaque", {opaque}));
  const Value module = std::shared_ptr<Object>(module_);
  EXPECT_EQ(TypeName(*Call("echo", {module})), "module");
}

Value Builtin(const char* name) {
  FunctionTable table;
  AddBuiltins(table);
  return std::shared_ptr<Object>(*table.Find(name));
}

TEST_F(ModuleTest, ShapesCrossInBothDirections) {
  EXPECT_EQ(Get<Shape>("reverse_shape", {Shape({2, 3, 4})}), Shape({4, 3, 2}));
  EXPECT_EQ(Get<Shape>("reverse_shape", {Shape()}), Shape());
  EXPECT_EQ(Get<Tensor>("zeros", {Shape({2, 3})}).shape(), Shape({2, 3}));
  ExpectError("reverse_shape", {int64_t{3}}, StatusCode::kInvalidArgument,
              "raised TypeError: argument 1 (shape) must be a shape, not an int");
}

TEST_F(ModuleTest, BuiltinsCanBeCalledByAModulesFunction) {
  EXPECT_EQ(Get<int64_t>("call", {Builtin("lockstep.identity"), int64_t{7}}), 7);
  EXPECT_EQ(Get<std::string>("call", {Builtin("lockstep.identity"), "some text"}), "some text");
  const Tensor tensor = NewTensor<float>({3}, {1, 2, 3});
  EXPECT_EQ(Get<Tensor>("call", {Builtin("lockstep.identity"), tensor}).data(), tensor.data());
  const auto copy = Get<Tensor>("call", {Builtin("lockstep.copy"), tensor});
  EXPECT_NE(copy.data(), tensor.data());
  EXPECT_EQ(ElementsOf(copy), ElementsOf(tensor));
  // It comes back as a function, which can be called.
  const Value returned = *Call("echo", {Builtin("lockstep.identity")});
  EXPECT_EQ(Get<double>("call", {returned, 2.5}), 2.5);
}

TEST_F(ModuleTest, ErrorsOfABuiltinAreTheCallers) {
  ExpectError(
      "call", {Builtin("lockstep.copy"), int64_t{3}}, StatusCode::kInvalidArgument,
      "raised ValueError: lockstep.copy: argument 1 (\"source\") must be a tensor, not int64");
  const Tensor whole = NewTensor<float>({3}, {1, 2, 3});
  ExpectError("call", {Builtin("lockstep.identity"), *whole.Rows(1, 3)},
              StatusCode::kInvalidArgument,
              "raised ValueError: lockstep.identity: argument 1 is a view that does not begin at a "
              "multiple of 64 bytes, which a module cannot pass on; pass it lockstep.copy of it");
}

TEST_F(ModuleTest, FunctionsThatAModuleRegistersAreFoundByName) {
  const auto twice = FindGlobalFunction("lockstep_test.twice");
  ASSERT_TRUE(twice.ok()) << twice.status();
  Value result;
  ASSERT_TRUE((*twice)->Call(context_, {{Value(int64_t{21})}}, &result).ok());
  EXPECT_EQ(*result.As<int64_t>(), 42);
  EXPECT_EQ(FindGlobalFunction("lockstep_test.thrice").status().code(), StatusCode::kNotFound);
}

// They open any file, wherever it is.
TEST_F(ModuleTest, FunctionsOfTheRuntimeItselfAreNotForClients) {
  EXPECT_EQ(FindGlobalFunction("ffi.Module.load_from_file.so").status().code(),
            StatusCode::kNotFound);
}

TEST_F(ModuleTest, WrongArgumentsAreInvalid) {
  const Tensor doubles = NewTensor<double>({2, 3}, {1, 2, 3, 4, 5, 6});
  ExpectError("add_one", {}, StatusCode::kInvalidArgument,
              "raised TypeError: expected 1 argument, got 0");
  ExpectError("add_one", {doubles}, StatusCode::kInvalidArgument,
              "raised TypeError: argument 1 (x) has the wrong dtype: expected float32, got "
              "float64");
  ExpectError("scale", {doubles, 1.0, false}, StatusCode::kInvalidArgument,
              "raised ValueError: argument 1 (x) has the wrong shape: expected [any, 2], got "
              "[2, 3]");
  ExpectError("half", {"three"}, StatusCode::kInvalidArgument,
              "raised TypeError: argument 1 (x) must be a float, not text");
  const Value list = std::make_shared<const List>();
  const std::pair<Value, const char*> others[] = {
      {Value(), "none"},
      {true, "a bool"},
      {DType::kInt8, "a dtype"},
      {Device{}, "a device"},
      {doubles, "a tensor"},
      {std::string("seven_b\0", 8), "text"},
      {Bytes{"bytes"}, "bytes"},
      {Shape{2}, "a shape"},
      {Builtin("lockstep.nop"), "a function"},
      {std::shared_ptr<Object>(module_), "a module"},
      {list, "a list"},
      {std::make_shared<const Map>(), "a map"},
      {*Call("make_opaque", {}), "an object ffi.OpaquePyObject"}};
  for (const auto& [value, name] : others) {
    ExpectError("half", {value}, StatusCode::kInvalidArgument,
                std::string("raised TypeError: argument 1 (x) must be a float, not ") + name);
  }
  ExpectError("echo", {Tensor()}, StatusCode::kInvalidArgument,
              "argument 1: a null tensor cannot be passed to a function");
}

TEST_F(ModuleTest, ErrorsKeepKindAndMessage) {
  ExpectError("raise", {"ValueError", "no good"}, StatusCode::kInvalidArgument,
              "raised ValueError: no good");
  ExpectError("raise", {"KernelError", "no good"}, StatusCode::kInternal,
              "raised KernelError: no good");
  ExpectError("throw_std", {}, StatusCode::kInternal, "raised RuntimeError: out of luck");
}

// The stack of what was thrown is gone; to look for it took as long as to read all symbols.
TEST_F(ModuleTest, ErrorsOfTheKitHaveNoStack) {
  const Status status = Call("throw_std", {}).status();
  EXPECT_EQ(Message(status), "raised RuntimeError: out of luck");
  EXPECT_EQ(Backtrace(status), "");
}

TEST_F(ModuleTest, BacktraceTravelsBesideTheMessage) {
  const Status status = Call("raise_with_backtrace", {}).status();
  EXPECT_EQ(Message(status), "raised ValueError: bad");
  EXPECT_NE(Backtrace(status).find("kernel.py\", line 7"), std::string::npos) << Backtrace(status);
}

// The reader can do nothing about the frames of the worker and of tvm-ffi.
TEST_F(ModuleTest, StacksHaveTheFramesOfTheModuleAlone) {
  const Status plain = Call("raise_plainly", {}).status();
  EXPECT_EQ(Message(plain), "raised ValueError: no");
  const std::string stack = Backtrace(plain);
  EXPECT_NE(stack.find(", in __tvm_ffi_raise_plainly\n"), std::string::npos) << stack;
  EXPECT_EQ(std::count(stack.begin(), stack.end(), '\n'), 1) << stack;
  const Tensor x = NewTensor<double>({2 << 20, 2}, {1});
  const std::string full = Backtrace(Call("scale", {x, 1.0, false}).status());
  EXPECT_EQ(full.find(", in TVMFFIEnv"), std::string::npos) << full;
  EXPECT_EQ(full.find("lockstep::module"), std::string::npos) << full;
  EXPECT_EQ(full.find("in TVMFFIObject* lockstep::ffi::"), std::string::npos)
      << "as the kit's are: " << full;
  EXPECT_EQ(full.find("lockstep::ffi::RunBody"), std::string::npos) << full;
}

TEST_F(ModuleTest, BrokenConventionIsAnErrorNotACrash) {
  ExpectError("escape", {}, StatusCode::kInternal,
              "threw an exception across the C boundary: over the wall");
  ExpectError("escape_int", {}, StatusCode::kInternal,
              "threw something that is no std::exception across the C boundary");
  ExpectError("silent", {}, StatusCode::kInternal, "failed with code -1 and raised no error");
}

TEST_F(ModuleTest, ResultsThatNoRegisterHoldsAreErrors) {
  ExpectError("raw_pointer", {}, StatusCode::kInternal,
              "returned a value of tvm-ffi's type void*, which no register can hold");
  ExpectError("stray_tensor", {}, StatusCode::kInternal,
              "returned a borrowed tensor that is none of its arguments; return an owned one");
  EXPECT_EQ(Call("complex_dtype", {}).status().code(), StatusCode::kInternal);
  const Value list =
      std::make_shared<const List>(List{NewTensor<float>({2, 3}, {1, 2, 3, 4, 5, 6})});
  ExpectError("transpose_first", {list}, StatusCode::kInternal,
              "returned a tensor [3, 2] that is not dense and row-major cannot be held; make it "
              "contiguous first");
}

TEST_F(ModuleTest, AllocatingOnAnotherDeviceIsRefused) {
  const Status status = Call("allocate_elsewhere", {}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(Message(status).find("this worker's tensors are on cpu:0"), std::string::npos)
      << status;
}

TEST_F(ModuleTest, FullArenaReachesTheCallerAsAnError) {
  const Tensor x = NewTensor<double>({2 << 20, 2}, {1});  // 32 MiB; the result has no room
  const Status status = Call("scale", {x, 1.0, false}).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(Message(status).find("cannot allocate 32 MiB: "), std::string::npos) << status;
  EXPECT_NE(Message(status).find("raise the limit (arena_bytes"), std::string::npos) << status;
  ExpectError("throw_bad_alloc", {}, StatusCode::kResourceExhausted,
              "raised MemoryError: there is not enough memory (std::bad_alloc)");
  const Status within = Call("call", {Builtin("lockstep.copy"), x}).status();
  EXPECT_EQ(within.code(), StatusCode::kResourceExhausted) << "a built-in function that it calls";
}

TEST_F(ModuleTest, UnknownFunctionSaysWhatWasLookedFor) {
  const Status status = module_->GetFunction("no_such").status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_NE(Message(status).find("has no function \"no_such\""), std::string::npos) << status;
  EXPECT_NE(Message(status).find("__tvm_ffi_no_such"), std::string::npos) << status;
  EXPECT_EQ(module_->GetFunction("").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(module_->GetFunction(std::string("add_one\0x", 9)).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::module
