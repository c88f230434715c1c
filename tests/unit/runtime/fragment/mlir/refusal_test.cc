// What is refused, by one error that names the place.
#include "runtime/fragment/fragment.h"
#include "tests/support/files.h"
#include "tests/unit/runtime/fragment/mlir/fragment_object.h"

namespace lockstep::fragment {
namespace {

void ExpectRefused(const std::string& text, StatusCode code, uint32_t line, uint32_t column,
                   const std::string& operation, const std::string& message,
                   std::vector<TensorType> types = {}) {
  const Answer answer = CompileText(text, std::move(types));
  ASSERT_TRUE(answer.failure.has_value()) << text;
  EXPECT_EQ(answer.failure->code, code) << answer.failure->message;
  EXPECT_EQ(answer.failure->line, line) << answer.failure->message;
  EXPECT_EQ(answer.failure->column, column) << answer.failure->message;
  EXPECT_EQ(answer.failure->operation, operation) << answer.failure->message;
  EXPECT_NE(answer.failure->message.find(message), std::string::npos) << answer.failure->message;
  EXPECT_EQ(answer.object, "");
}

TEST(FragmentRefusalTest, TextThatDoesNotParse) {
  ExpectRefused(
      "func.func @f(%x: f64) -> f64 {\n  %y = arith.addf %x %x : f64\n  return %y : f64\n}",
      StatusCode::kInvalidArgument, 2, 21, "arith.addf", "expected ','");
  ExpectRefused("func.func @f(%x: f64) -> f64 {\n  %y = nosuch.op %x : f64\n  return %y : f64\n}",
                StatusCode::kInvalidArgument, 2, 8, "nosuch.op", "nosuch");
  ExpectRefused(
      "func.func @f(%x: f64) -> f64 {\n  %y = arith.addf %x, %x : f64 nosuch.op %y : f64\n"
      "  return %y : f64\n}",
      StatusCode::kInvalidArgument, 2, 32, "nosuch.op", "nosuch");
  ExpectRefused("func.func @f(%x: f64) -> f32 {\n  return %x : f32\n}",
                StatusCode::kInvalidArgument, 2, 10, "func.return", "different type");
  ExpectRefused("", StatusCode::kInvalidArgument, 0, 0, "", "empty");
}

TEST(FragmentRefusalTest, OperationsThatDoNotVerify) {
  ExpectRefused(
      "func.func @f(%x: tensor<3xf64>) -> f64 {\n"
      "  %c0 = arith.constant 0 : index\n"
      "  %y = tensor.extract %x[%c0, %c0] : tensor<3xf64>\n  return %y : f64\n}",
      StatusCode::kInvalidArgument, 3, 8, "tensor.extract", "indices");
}

TEST(FragmentRefusalTest, DialectsTypesAndCallsThatAreNotSupported) {
  ExpectRefused(
      "func.func @f(%x: memref<3xf64>) -> f64 {\n  %y = arith.constant 1.0 : f64\n  return %y : "
      "f64\n}",
      StatusCode::kUnimplemented, 1, 14, "func.func", "memref<3xf64>");
  ExpectRefused(
      "func.func @f(%x: tensor<3xf16>) -> tensor<3xf16> {\n  return %x : tensor<3xf16>\n}",
      StatusCode::kUnimplemented, 1, 14, "func.func", "f16");
  ExpectRefused("func.func @f(%x: tensor<3xi8>) -> tensor<3xi8> {\n  return %x : tensor<3xi8>\n}",
                StatusCode::kUnimplemented, 1, 14, "func.func", "i8");
  for (const std::string type : {"bf16", "i16", "i128", "si32", "complex<f64>"}) {
    ExpectRefused("func.func @f(%x: tensor<3x" + type + ">) -> tensor<3x" + type +
                      "> {\n  return %x : tensor<3x" + type + ">\n}",
                  StatusCode::kUnimplemented, 1, 14, "func.func", type);
  }
  ExpectRefused(
      "func.func @f(%x: f32) -> f32 {\n  %y = arith.truncf %x : f32 to f16\n"
      "  %z = arith.extf %y : f16 to f32\n  return %z : f32\n}",
      StatusCode::kUnimplemented, 2, 8, "arith.truncf", "f16");
  ExpectRefused(
      "func.func @f(%x: f64) -> f64 {\n  %y = func.call @f(%x) : (f64) -> f64\n  return %y : "
      "f64\n}",
      StatusCode::kUnimplemented, 2, 8, "func.call", "one function");
  ExpectRefused(
      "func.func @f(%x: index) -> f64 {\n  %y = arith.constant 1.0 : f64\n  return %y : f64\n}",
      StatusCode::kUnimplemented, 1, 14, "func.func", "lockstep.offset");
  ExpectRefused(
      "func.func @f(%x: index {lockstep.offset = array<i64: 0, 0>}, %y: tensor<3xf64>) -> "
      "tensor<3xf64> {\n"
      "  return %y : tensor<3xf64>\n}",
      StatusCode::kInvalidArgument, 1, 14, "func.func", "must name an argument");
  ExpectRefused(
      "func.func @f(%x: tensor<3xf64>) -> f64 {\n  %c0 = arith.constant 0 : index\n"
      "  %y = affine.apply affine_map<(d0) -> (d0)>(%c0)\n"
      "  %z = tensor.extract %x[%y] : tensor<3xf64>\n  return %z : f64\n}",
      StatusCode::kUnimplemented, 3, 8, "affine.apply", "dialect affine is not supported");
}

TEST(FragmentRefusalTest, IndicesThatMightWrapAround) {
  for (const std::string index : {"d0 * 16385", "((d0 * 1024) floordiv 3) * 1024"}) {
    ExpectRefused("#in = affine_map<(d0) -> (" + index + R"()>
func.func @f(%x: tensor<?xf64>, %o: tensor<?xf64>) -> tensor<?xf64> {
  %y = linalg.generic {indexing_maps = [#in, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%x : tensor<?xf64>) outs(%o : tensor<?xf64>) {
    ^bb0(%a: f64, %b: f64):
      linalg.yield %a : f64
  } -> tensor<?xf64>
  return %y : tensor<?xf64>
})",
                  StatusCode::kUnimplemented, 3, 8, "linalg.generic", index);
  }
}

TEST(FragmentRefusalTest, OperationsThatNobodyCanCheck) {
  ExpectRefused(
      "func.func @f(%x: tensor<?xf64>, %n: index {lockstep.offset = array<i64: 0, 0>}) -> "
      "tensor<?x?xf64> {\n"
      "  %y = tensor.expand_shape %x [[0, 1]] output_shape [%n, %n] : tensor<?xf64> into "
      "tensor<?x?xf64>\n  return %y : tensor<?x?xf64>\n}",
      StatusCode::kUnimplemented, 2, 8, "tensor.expand_shape", "more than one of open size");
  ExpectRefused(
      "func.func @f(%x: tensor<0x?xf64>) -> tensor<?xf64> {\n"
      "  %y = tensor.collapse_shape %x [[0, 1]] : tensor<0x?xf64> into tensor<?xf64>\n"
      "  return %y : tensor<?xf64>\n}",
      StatusCode::kUnimplemented, 2, 8, "tensor.collapse_shape", "leave both open");
  ExpectRefused(
      "func.func @f(%x: tensor<4x4xf64>, %o: tensor<4x4xf64>) -> tensor<4x4xf64> {\n"
      "  %y = linalg.softmax dimension(1) ins(%x : tensor<4x4xf64>) outs(%o : tensor<4x4xf64>) -> "
      "tensor<4x4xf64>\n  return %y : tensor<4x4xf64>\n}",
      StatusCode::kUnimplemented, 2, 8, "linalg.softmax", "is not supported");
}

TEST(FragmentRefusalTest, AttributesOfOthersAreNotObeyed) {
  FragmentObject object(R"(module attributes {llvm.data_layout = "p:16:16"} {
  func.func @f(%x: tensor<?xf64> {bufferization.buffer_layout = affine_map<(d0) -> (d0 * 1000000)>})
      -> (tensor<?xf64> {llvm.noundef}) attributes {passthrough = ["naked", "noinline"], llvm.linkage = 4} {
    %z = arith.addf %x, %x {passthrough = ["naked"]} : tensor<?xf64>
    return %z : tensor<?xf64>
  }
})");
  EXPECT_EQ(object.Results({Operand::Of<double>({3}, {1, 2, 3})})[0].As<double>(),
            (std::vector<double>{2, 4, 6}));
}

TEST(FragmentRefusalTest, ModulesThatAreNotOneFunction) {
  ExpectRefused(
      "func.func @f(%x: f64) -> f64 {\n  return %x : f64\n}\nfunc.func @g(%x: f64) -> f64 {\n  "
      "return %x : f64\n}",
      StatusCode::kInvalidArgument, 4, 1, "func.func", "one func.func");
  ExpectRefused("func.func private @f(f64) -> f64", StatusCode::kInvalidArgument, 1, 1, "func.func",
                "with a body");
  ExpectRefused("func.func @f(%x: f64) {\n  return\n}", StatusCode::kInvalidArgument, 1, 1,
                "func.func", "no result");
}

TEST(FragmentRefusalTest, ArgumentsThatDoNotFit) {
  const std::string text =
      "func.func @f(%x: tensor<?x4xf64>) -> tensor<?x4xf64> {\n  return %x : tensor<?x4xf64>\n}";
  ExpectRefused(text, StatusCode::kInvalidArgument, 1, 1, "func.func", "1 arguments, and 2",
                {{DType::kFloat64, {3, 4}}, {DType::kFloat64, {3}}});
  ExpectRefused(text, StatusCode::kInvalidArgument, 1, 14, "func.func", "float32",
                {{DType::kFloat32, {3, 4}}});
  ExpectRefused(text, StatusCode::kInvalidArgument, 1, 14, "func.func", "extent 5",
                {{DType::kFloat64, {3, 5}}});
  FragmentObject object(text, {{DType::kFloat64, {2, kOpen}}});
  EXPECT_EQ(object.Results({Operand::Of<double>({2, 4}, Numbers<double>(8))})[0].As<double>(),
            Numbers<double>(8));
}

TEST(FragmentRefusalTest, HostileTextIsEndedByLimits) {
  const std::string deep = "func.func @f() -> tuple" + std::string(100000, '<');
  ExpectRefused(deep, StatusCode::kResourceExhausted, 1, 224, "", "nested more than 200 deep");
  ExpectRefused(std::string(Fragment::kMaxSourceBytes + 1, ' '), StatusCode::kResourceExhausted, 0,
                0, "", "4194305 bytes");
  // A constant that would be 8 TB.
  FragmentObject object(
      "func.func @f() -> f64 {\n  %c = arith.constant dense<1.5> : tensor<1000000x1000000xf64>\n"
      "  %c0 = arith.constant 0 : index\n"
      "  %y = tensor.extract %c[%c0, %c0] : tensor<1000000x1000000xf64>\n  return %y : f64\n}");
  EXPECT_EQ(object.Results({})[0].As<double>()[0], 1.5);
  EXPECT_LT(object.answer().object.size(), 16384u);
  ExpectRefused(
      "func.func @f(%x: tensor<99999999999x99999999999xf64>) -> f64 {\n  %y = arith.constant 1.0 : "
      "f64\n"
      "  return %y : f64\n}",
      StatusCode::kUnimplemented, 1, 14, "func.func", "more elements than any memory holds");
}

TEST(FragmentRefusalTest, BytecodeIsTakenAndWhatIsCutOffIsNot) {
  const std::string bytecode =
      support::ReadFile("tests/unit/runtime/fragment/testdata/twice.mlirbc");
  FragmentObject object(bytecode);
  EXPECT_EQ(object.answer().signature.function, "twice");
  EXPECT_EQ(object.Results({Operand::Of<double>({2}, {3, 4})})[0].As<double>(),
            (std::vector<double>{6, 8}));
  for (const size_t size : {10, 60, 150, 248}) {
    const Answer answer = CompileText(bytecode.substr(0, size));
    ASSERT_TRUE(answer.failure.has_value()) << size;
    EXPECT_EQ(answer.failure->code, StatusCode::kInvalidArgument);
  }
}

TEST(FragmentRefusalTest, ObjectsThatAreTooLarge) {
  Request request;
  request.fragment = "func.func @f(%x: f64) -> f64 {\n  return %x : f64\n}";
  request.max_object_bytes = 100;
  const Answer answer = Compile(request, HostTarget());
  ASSERT_TRUE(answer.failure.has_value());
  EXPECT_EQ(answer.failure->code, StatusCode::kResourceExhausted);
}

TEST(FragmentRefusalTest, ProcessorsAndFeaturesThatDoNotExist) {
  EXPECT_EQ(FindTarget("nosuch", "").status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(FindTarget(HostTarget().processor, HostTarget().features).ok());
  EXPECT_EQ(FindTarget(HostTarget().processor, "+nosuch").status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::fragment
