#include "runtime/fragment/compile_codec.h"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "runtime/fragment/abi.h"
#include "schemas/fragment.capnp.h"

namespace lockstep::fragment {
namespace {

using testing::HasSubstr;

std::vector<std::byte> BytesOf(capnp::MessageBuilder& message) {
  const auto words = capnp::messageToFlatArray(message);
  const auto* const bytes = reinterpret_cast<const std::byte*>(words.begin());
  return {bytes, bytes + words.asBytes().size()};
}

std::vector<std::byte> Success(uint32_t abi_version = LOCKSTEP_FRAGMENT_ABI_VERSION,
                               int64_t extent = -1) {
  capnp::MallocMessageBuilder message;
  auto answer = message.initRoot<wire::CompileAnswer>();
  answer.setCompiler("c 1");
  answer.setProcessor("cpu");
  auto success = answer.initSuccess();
  success.setFunction("f");
  auto arguments = success.initArguments(1);
  arguments[0].setUsesGlobalShape(true);
  auto type = arguments[0].initType();
  type.setDtype(wire::DType::FLOAT64);
  auto shape = type.initShape(2);
  shape.set(0, extent);
  shape.set(1, 4);
  success.initResults(1)[0].setSizesKnown(true);
  const std::string object = "the object";
  success.setObject({reinterpret_cast<const kj::byte*>(object.data()), object.size()});
  success.setAbiVersion(abi_version);
  return BytesOf(message);
}

TEST(CompileCodecTest, RequestsSayWhatTheSchemaSays) {
  CompileWork work{*Fragment::Mlir("func.func", "f.mlir"), {{DType::kFloat64, {kOpen, 4}}}, 7};
  const auto bytes = EncodeRequest(work, Want::kSignature);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  std::vector<uint64_t> words(bytes->size() / 8);
  std::memcpy(words.data(), bytes->data(), bytes->size());
  capnp::FlatArrayMessageReader message(
      {reinterpret_cast<const capnp::word*>(words.data()), words.size()});
  const auto request = message.getRoot<wire::CompileRequest>();
  EXPECT_EQ(request.getFragment().size(), 9u);
  EXPECT_EQ(request.getName(), "f.mlir");
  EXPECT_EQ(request.getWant(), wire::CompileRequest::Want::SIGNATURE);
  ASSERT_EQ(request.getArgumentTypes().size(), 1u);
  EXPECT_EQ(request.getArgumentTypes()[0].getDtype(), wire::DType::FLOAT64);
  EXPECT_EQ(request.getArgumentTypes()[0].getShape()[0], -1);
  EXPECT_EQ(request.getArgumentTypes()[0].getShape()[1], 4);
  EXPECT_EQ(request.getBlasThreshold(), 7);
  EXPECT_EQ(request.getMaxObjectBytes(), kMaxObjectBytes);
  EXPECT_EQ(EncodeRequest({*Fragment::Function("f")}, Want::kObject).status().code(),
            StatusCode::kUnimplemented);
}

TEST(CompileCodecTest, SuccessesAreRead) {
  const auto answer = DecodeAnswer(Success(), "f.mlir");
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(answer->is_lasting);
  ASSERT_TRUE(answer->result.ok());
  const Compiled& compiled = *answer->result;
  EXPECT_EQ(compiled.compiler.compiler, "c 1");
  EXPECT_EQ(compiled.signature.ToString(), "f(float64[?, 4]) -> (bool[])");
  EXPECT_TRUE(compiled.signature.arguments[0].uses_global_shape);
  EXPECT_FALSE(compiled.signature.arguments[0].uses_offset);
  EXPECT_TRUE(compiled.signature.results[0].sizes_known);
  EXPECT_EQ(compiled.object.size(), 10u);
}

TEST(CompileCodecTest, FailuresBeginWithTheirPlace) {
  const auto failure = [](uint16_t code, uint32_t line) {
    capnp::MallocMessageBuilder message;
    auto failed = message.initRoot<wire::CompileAnswer>().initFailure();
    failed.setCode(code);
    failed.setMessage("operand types differ");
    failed.setLine(line);
    failed.setColumn(10);
    failed.setOperation("arith.addf");
    return *DecodeAnswer(BytesOf(message), "f.mlir");
  };
  const CompilerAnswer wrong = failure(static_cast<uint16_t>(StatusCode::kInvalidArgument), 3);
  EXPECT_EQ(wrong.result.status(),
            InvalidArgument("f.mlir:3:10: 'arith.addf': operand types ", "differ"));
  EXPECT_TRUE(wrong.is_lasting);
  EXPECT_EQ(Message(failure(3, 0).result.status()), "f.mlir: 'arith.addf': operand types differ");
  const CompilerAnswer limited = failure(static_cast<uint16_t>(StatusCode::kResourceExhausted), 3);
  EXPECT_EQ(limited.result.status().code(), StatusCode::kResourceExhausted);
  EXPECT_FALSE(limited.is_lasting);
  // A failure that says it is none is one.
  EXPECT_EQ(failure(0, 3).result.status().code(), StatusCode::kInternal);
}

TEST(CompileCodecTest, BytesThatAreNoAnswerAreRefused) {
  const std::vector<std::byte> whole = Success();
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto answer = DecodeAnswer(absl::MakeConstSpan(whole).first(size), "f");
    ASSERT_FALSE(answer.ok()) << size;
    EXPECT_EQ(answer.status().code(), StatusCode::kDataLoss);
  }
  const std::vector<std::byte> noise(4096, std::byte{0xa5});
  EXPECT_EQ(DecodeAnswer(noise, "f").status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(Message(DecodeAnswer(Success(0), "f").status()), HasSubstr("version 0 of the ABI"));
  EXPECT_THAT(Message(DecodeAnswer(Success(1, -2), "f").status()), HasSubstr("the extent -2"));
}

}  // namespace
}  // namespace lockstep::fragment
