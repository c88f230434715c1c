#include "tools/cli/fragment/words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/files.h"
#include "tools/cli/npy.h"

namespace lockstep::cli {
namespace {

using fragment::Combine;
using fragment::Split;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

GivenInput Input(const std::string& text) {
  StatusOr<GivenInput> input = ParseInput(text);
  EXPECT_TRUE(input.ok()) << input.status();
  return input.ok() ? *std::move(input) : GivenInput();
}
GivenOutput Output(const std::string& text) {
  StatusOr<GivenOutput> output = ParseOutput(text);
  EXPECT_TRUE(output.ok()) << output.status();
  return output.ok() ? *std::move(output) : GivenOutput();
}

TEST(FragmentWordsTest, AnInputIsANumberWithOrWithoutAName) {
  EXPECT_EQ(std::get<double>(Input("rate=0.5").value), 0.5);
  EXPECT_EQ(Input("rate=0.5").name, "rate");
  EXPECT_EQ(std::get<int64_t>(Input("-3").value), -3);
  EXPECT_EQ(Input("-3").name, "");
  EXPECT_EQ(std::get<bool>(Input("strict=true").value), true);
}

TEST(FragmentWordsTest, AnInputIsAFileOrATensorAndHowItIsSplit) {
  const support::ScratchDirectory directory;
  const std::string file = directory.File("a:b.npy");
  const HostTensor tensor = HostTensor::Of<double>({2, 1}, {1, 2});
  ASSERT_TRUE(WriteNpy(file, tensor).ok());

  for (const std::string& text : {"x=" + file + ":rows", "x=npy:" + file + ":rows"}) {
    const GivenInput x = Input(text);
    EXPECT_EQ(x.name, "x");
    EXPECT_EQ(x.split, Split::kRows);
    ASSERT_NE(x.tensor(), nullptr) << text;
    EXPECT_EQ(*x.tensor(), tensor);
  }
  EXPECT_EQ(Input(file).split, Split::kNone) << "its colon is part of the name";
  const GivenInput literal = Input("f64[2]=1,2:none");
  EXPECT_EQ(literal.name, "") << "the equals sign is the tensor's";
  EXPECT_EQ(literal.text, "f64[2]=1,2");
  EXPECT_EQ(Input("w=f64[2]=1,2:columns").split, Split::kColumns);
}

TEST(FragmentWordsTest, AWrongInputIsNamedWithWhatIsExpected) {
  const auto error = [](const std::string& text) { return Message(ParseInput(text).status()); };
  EXPECT_THAT(error("x=f64[2]=1,2:row"), HasSubstr("--input x=f64[2]=1,2:row: \"row\" is no split; "
                                                   "expected rows, columns or none"));
  EXPECT_THAT(error("x=f64[2]=1,2:placed"), HasSubstr("expected rows, columns or none"));
  EXPECT_THAT(error("rate=0.5:rows"), HasSubstr("a number is not split"));
  EXPECT_THAT(error("x=[1,2]"), HasSubstr("neither a number nor a tensor"));
  EXPECT_THAT(error("x=f64[2]"), HasSubstr("neither a number nor a tensor"));
  EXPECT_THAT(error("x=data.npz:rows"), HasSubstr("\"data.npz\" is neither a number nor a tensor; "
                                                  "expected FILE.npy"));
  EXPECT_THAT(error("x=/nonexistent/x.npy:rows"), HasSubstr("cannot open /nonexistent/x.npy"));
}

TEST(FragmentWordsTest, AnOutputHasANameAndPerhapsAFileACombineAndAShape) {
  const GivenOutput y = Output("y");
  EXPECT_EQ(y.name, "y");
  EXPECT_EQ(y.file, "");
  EXPECT_EQ(y.combine, Combine::kNone);
  EXPECT_FALSE(y.shape.has_value());
  EXPECT_EQ(Output("sum:add").combine, Combine::kAdd);
  const GivenOutput all = Output("best[8,2]=a:b/out.npy:rows");
  EXPECT_EQ(all.name, "best");
  EXPECT_EQ(all.file, "a:b/out.npy");
  EXPECT_EQ(all.combine, Combine::kRows);
  EXPECT_EQ(all.shape, (Shape{8, 2}));

  const auto error = [](const std::string& text) { return Message(ParseOutput(text).status()); };
  EXPECT_THAT(error("y:sum"), HasSubstr("add"));
  EXPECT_THAT(error("y=out.csv:rows"), HasSubstr("\"out.csv\" is no .npy file"));
  EXPECT_THAT(error("y[2,x]"), HasSubstr("\"x\" is no extent"));
  EXPECT_THAT(error("=out.npy"), HasSubstr("expected NAME[=FILE.npy][:COMBINE]"));
}

TEST(FragmentWordsTest, ArgumentNamesAreReadFromTheText) {
  EXPECT_THAT(
      ArgumentNames("// func.func @old(%a: f64)\n"
                    "module { func.func private @f(%x: tensor<?x4xf64>,  // by rows, (all)\n"
                    "    %y : tensor<4xf64> {llvm.noalias, k = [1, 2]}, %0: f64) -> f64 {"),
      ElementsAre("x", "y", "0"));
  EXPECT_THAT(
      ArgumentNames("func.func @f(%at: index {lockstep.offset = array<i64: 0, 0>}, %x: "
                    "tensor<?xf64>, %n: index {lockstep.global_size = array<i64: 0, 0>}, %y: f64)"),
      ElementsAre("x", "y"))
      << "workers pass the others themselves";
  EXPECT_THAT(ArgumentNames("func.func @f() { return }"), IsEmpty());
  EXPECT_THAT(ArgumentNames("func.func @f(tensor<2xf64>, f64)"), IsEmpty()) << "a declaration";
  EXPECT_THAT(ArgumentNames("\"func.func\"() ({ ^bb0(%x: f64): })"), ElementsAre());
  EXPECT_THAT(ArgumentNames("func.func @f(%x: f64"), IsEmpty()) << "it is cut off";
}

fragment::Signature OfThree() {
  fragment::Signature signature;
  signature.function = "f";
  signature.arguments.resize(3);
  return signature;
}

std::vector<std::string> Ordered(const std::vector<std::string>& texts,
                                 const std::vector<std::string>& names) {
  std::vector<GivenInput> inputs;
  for (const std::string& text : texts) inputs.push_back(Input(text));
  const auto ordered = InArgumentOrder(std::move(inputs), names, OfThree());
  if (!ordered.ok()) return {std::string(Message(ordered.status()))};
  std::vector<std::string> words;
  for (const GivenInput& input : *ordered) words.push_back(input.name + "=" + input.text);
  return words;
}

TEST(FragmentWordsTest, InputsTakeThePlacesOfTheirNames) {
  EXPECT_THAT(Ordered({"c=3", "1", "b=2"}, {"a", "b", "c"}), ElementsAre("a=1", "b=2", "c=3"));
  EXPECT_THAT(Ordered({"1", "2", "3"}, {"a", "b", "c"}), ElementsAre("a=1", "b=2", "c=3"));
  EXPECT_THAT(Ordered({"3", "2", "1"}, {}), ElementsAre("=3", "=2", "=1"));
  EXPECT_THAT(Ordered({"3", "b=2", "1"}, {}),
              ElementsAre(HasSubstr("so there is no \"b\" of `f`; give all inputs without names")))
      << "bytecode has no names: what was meant for one would go to another";
  EXPECT_THAT(Ordered({"c=3", "b=2"}, {"a", "b", "c"}), ElementsAre("c=3", "b=2"))
      << "too few, which is an error of the call";
  EXPECT_THAT(Ordered({"a=3", "a=2", "1"}, {"a", "b", "c"}),
              ElementsAre("argument \"a\" of `f` is given twice"));
  EXPECT_THAT(Ordered({"a=3", "d=2", "1"}, {"a", "b", "c"}),
              ElementsAre("there is no argument \"d\" of `f`; its arguments are a, b, c"));
}

}  // namespace
}  // namespace lockstep::cli
