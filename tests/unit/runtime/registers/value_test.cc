#include "runtime/registers/value.h"

#include <gtest/gtest.h>

#include "runtime/tensor/storage.h"

namespace lockstep::registers {
namespace {

class Thing final : public Object {
 public:
  explicit Thing(Kind kind) : kind_(kind) {}
  Kind kind() const override { return kind_; }
  std::string Describe() const override { return "a thing"; }

 private:
  const Kind kind_;
};

Value ListOf(List items) { return std::make_shared<const List>(std::move(items)); }
Value MapOf(Map items) { return std::make_shared<const Map>(std::move(items)); }
Value ThingOf(Object::Kind kind) { return std::shared_ptr<Object>(std::make_shared<Thing>(kind)); }
Value SomeTensor() {
  return *tensor::Tensor::Empty(*tensor::NewHeapAllocator(), DType::kFloat32, {2, 3});
}

TEST(ValueTest, TypeNamesAreTheVocabulary) {
  EXPECT_EQ(TypeName(Value()), "none");
  EXPECT_EQ(TypeName(true), "bool");
  EXPECT_EQ(TypeName(int64_t{1}), "int64");
  EXPECT_EQ(TypeName(1.5), "float64");
  EXPECT_EQ(TypeName("abc"), "text");
  EXPECT_EQ(TypeName(Bytes{"abc"}), "bytes");
  EXPECT_EQ(TypeName(DType::kInt8), "dtype");
  EXPECT_EQ(TypeName(Device{}), "device");
  EXPECT_EQ(TypeName(Shape{1}), "shape");
  EXPECT_EQ(TypeName(SomeTensor()), "tensor");
  EXPECT_EQ(TypeName(ThingOf(Object::Kind::kFunction)), "function");
  EXPECT_EQ(TypeName(ThingOf(Object::Kind::kModule)), "module");
  EXPECT_EQ(TypeName(ThingOf(Object::Kind::kOpaque)), "object");
  EXPECT_EQ(TypeName(ListOf({})), "list");
  EXPECT_EQ(TypeName(MapOf({})), "map");
}

TEST(ValueTest, TypesAndSizesAreDescribedAndNeverWhatIsInside) {
  EXPECT_EQ(Describe(Value()), "none");
  EXPECT_EQ(Describe(false), "bool");
  EXPECT_EQ(Describe(int64_t{-5}), "int64");
  EXPECT_EQ(Describe(2.5), "float64");
  EXPECT_EQ(Describe("hunter2"), "text of 7 bytes");
  EXPECT_EQ(Describe(Bytes{"abc"}), "bytes (3)");
  EXPECT_EQ(Describe(DType::kBFloat16), "dtype bfloat16");
  EXPECT_EQ(Describe(Device{DeviceType::kCuda, 1}), "device cuda:1");
  EXPECT_EQ(Describe(Shape{2, 3}), "shape [2, 3]");
  EXPECT_EQ(Describe(SomeTensor()), "tensor float32 [2, 3]");
  EXPECT_EQ(Describe(tensor::Tensor()), "null tensor");
  EXPECT_EQ(Describe(ThingOf(Object::Kind::kModule)), "a thing");
  EXPECT_EQ(Describe(ListOf({int64_t{1}, "two"})), "list of 2");
  EXPECT_EQ(Describe(MapOf({{"secret", int64_t{1}}})), "map of 1");
}

TEST(ValueTest, AsGivesNullForAnotherType) {
  const Value value = int64_t{3};
  ASSERT_NE(value.As<int64_t>(), nullptr);
  EXPECT_EQ(*value.As<int64_t>(), 3);
  EXPECT_EQ(value.As<double>(), nullptr);
  EXPECT_TRUE(value.Is<int64_t>());
  EXPECT_FALSE(value.Is<bool>());
}

TEST(HeldBytesTest, CountsWhatListsAndMapsHold) {
  EXPECT_EQ(HeldBytes(Value(int64_t{1})), 0u);
  EXPECT_EQ(HeldBytes(Value(std::string(70, 'x'))), 70u);
  EXPECT_EQ(HeldBytes(Value(Bytes{std::string(70, 'x')})), 70u);
  const auto list = std::make_shared<const List>(List{Value(std::string(70, 'x')), Value(true)});
  EXPECT_EQ(HeldBytes(Value(list)), 70 + 2 * sizeof(Value));
  const auto map = std::make_shared<const Map>(Map{{"key", Value(list)}});
  EXPECT_EQ(HeldBytes(Value(map)), 3 + sizeof(Map::value_type) + 70 + 2 * sizeof(Value));
}

// A walk that followed every way through it would never come to an end.
TEST(HeldBytesTest, CountsSharedListsOnce) {
  Value value(std::make_shared<const List>(List{Value(std::string(10, 'x'))}));
  for (int i = 0; i < 64; ++i) value = Value(std::make_shared<const List>(List{value, value}));
  EXPECT_EQ(HeldBytes(value), 10 + (64 * 2 + 1) * sizeof(Value));
}

}  // namespace
}  // namespace lockstep::registers
