#include "runtime/fragment/load_answers.h"

#include <capnp/message.h>
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "runtime/fragment/object_key.h"
#include "runtime/fragment/signature_codec.h"

namespace lockstep::fragment {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Signature Scale(bool sizes_known = true) {
  return {"scale", {{{DType::kFloat64, {kOpen}}}}, {{{DType::kFloat64, {kOpen}}, sizes_known}}};
}

Status Answer(LoadAnswers& answers, Rank rank, const Signature& signature = Scale()) {
  capnp::MallocMessageBuilder message;
  auto answer = message.initRoot<wire::FragmentLoaded>();
  WriteLoad(answer, {rank, Origin::kDisk, {}});
  answer.setSignatureDigest(DigestOf(signature));
  if (rank == 0) WriteSignature(answer.initSignature(), signature);
  return answers.Add(answer.asReader());
}

Status Taken(const LoadAnswers& answers) { return answers.Take("scale.mlir").status(); }

TEST(LoadAnswersTest, AreThoseOfAllRanksInTheirOrder) {
  LoadAnswers answers(3);
  for (const Rank rank : {2, 0, 1}) EXPECT_EQ(Answer(answers, rank), OkStatus());
  const auto loaded = answers.Take("scale.mlir");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->signature, Scale());
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(loaded->loads[i].rank, static_cast<Rank>(i));
}

TEST(LoadAnswersTest, ARankThatIsNotAskedOrAnswersTwiceIsNamed) {
  LoadAnswers answers(2);
  EXPECT_EQ(Answer(answers, 1), OkStatus());
  EXPECT_THAT(Message(Answer(answers, 1)), HasSubstr("rank 1 says twice"));
  for (const Rank rank : {2, -1}) {
    EXPECT_THAT(Message(Answer(answers, rank)),
                HasSubstr("rank " + std::to_string(rank) + " says that it has a fragment"));
  }
  EXPECT_THAT(Message(Taken(answers)), HasSubstr("rank 0 has not told the signature of scale"));
}

TEST(LoadAnswersTest, ARankThatSaysNothingIsNamed) {
  LoadAnswers answers(4);
  for (const Rank rank : {0, 2}) EXPECT_EQ(Answer(answers, rank), OkStatus());
  EXPECT_EQ(Message(Taken(answers)), "ranks 1, 3 did not say whether they can execute scale.mlir");
}

TEST(LoadAnswersTest, RanksWithAnotherSignatureAreNamed) {
  LoadAnswers answers(4);
  for (const Rank rank : {0, 1}) EXPECT_EQ(Answer(answers, rank), OkStatus());
  for (const Rank rank : {2, 3}) EXPECT_EQ(Answer(answers, rank, Scale(false)), OkStatus());
  EXPECT_EQ(Taken(answers).code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(Taken(answers)),
              AllOf(HasSubstr("to ranks 2, 3, scale.mlir has another signature than to rank 0"),
                    HasSubstr("their compilers differ")));
}

TEST(LoadAnswersTest, EachPartOfASignatureCounts) {
  std::vector<Signature> others(7, Scale());
  others[0].function = "other";
  others[1].arguments[0].uses_offset = true;
  others[2].arguments[0].uses_global_shape = true;
  others[3].arguments[0].type.extents = {4};
  others[4].results[0].type.dtype = DType::kFloat32;
  others[5].results.push_back(Scale().results[0]);
  others[6].results[0].type = {DType::kFloat64, {}, /*scalar=*/true};
  for (const Signature& other : others) EXPECT_NE(DigestOf(other), DigestOf(Scale()));
  EXPECT_EQ(DigestOf(Scale()), DigestOf(Scale()));
}

}  // namespace
}  // namespace lockstep::fragment
