#include "runtime/fragment/object_key.h"

#include <gmock/gmock.h>

#include <set>
#include <string>
#include <vector>

namespace lockstep::fragment {
namespace {

constexpr DType kDouble = DType::kFloat64;

CompileWork Work(const std::string& source, std::vector<TensorType> types = {}) {
  return {*Fragment::Mlir(source), std::move(types)};
}

TEST(ObjectKeyTest, DependsOnAllThatTheObjectDependsOn) {
  const CompilerIdentity compiler{"c 1", "cpu", "+a"};
  std::set<std::string> keys;
  const auto add = [&](const CompileWork& work, const CompilerIdentity& by) {
    return keys.insert(KeyOf(work, by).ToString()).second;
  };
  EXPECT_TRUE(add(Work("f"), compiler));
  EXPECT_TRUE(add(Work("g"), compiler));
  EXPECT_TRUE(add(Work("f", {{kDouble, {kOpen, 2}}}), compiler));
  EXPECT_TRUE(add(Work("f", {{kDouble, {3, 2}}}), compiler));
  EXPECT_TRUE(add(Work("f", {{kDouble, {3}}, {kDouble, {2}}}), compiler));
  EXPECT_TRUE(add(Work("f", {{DType::kFloat32, {3}}}), compiler));
  EXPECT_TRUE(add(Work("f"), {"c 2", "cpu", "+a"}));
  EXPECT_TRUE(add(Work("f"), {"c 1", "gpu", "+a"}));
  EXPECT_TRUE(add(Work("f"), {"c 1", "cpu", "+b"}));
  // The same characters, in other parts.
  EXPECT_TRUE(add(Work("f"), {"c 1", "cpu+", "a"}));
  CompileWork other = Work("f");
  other.blas_threshold = 1;
  EXPECT_TRUE(add(other, compiler));
  EXPECT_TRUE(add({*Fragment::Cuda("f", "f")}, compiler));
  EXPECT_TRUE(add({*Fragment::Function("f")}, compiler));
}

TEST(ObjectKeyTest, IsTheSameForTheSame) {
  const CompilerIdentity compiler{"c", "cpu", ""};
  const std::vector<TensorType> types{{kDouble, {kOpen}}};
  const ObjectKey key = KeyOf({*Fragment::Mlir("f", "one.mlir"), types}, compiler);
  EXPECT_EQ(key, KeyOf({*Fragment::Mlir("f", "two.mlir"), types}, compiler))
      << "what messages call it is not compiled";
  EXPECT_THAT(key.ToString(), testing::MatchesRegex("[0-9a-f]{32}"));
  // As files on disk have it: another release that changes it raises its version.
  EXPECT_EQ(key.ToString(), "8d94a00e115e904ee0725a20bdd7679d");
}

}  // namespace
}  // namespace lockstep::fragment
