#include "runtime/module/function.h"

#include <gtest/gtest.h>

namespace lockstep::module {
namespace {

class Named final : public Function {
 public:
  explicit Named(std::string name) : name_(std::move(name)) {}
  const std::string& name() const override { return name_; }
  Status Call(const CallContext&, absl::Span<const registers::Value>, registers::Value*) override {
    return OkStatus();
  }

 private:
  const std::string name_;
};

class FunctionTableTest : public testing::Test {
 protected:
  FunctionTableTest() {
    for (const char* name : {"lockstep.cast", "lockstep.concat", "lockstep.copy", "other"}) {
      EXPECT_TRUE(table_.Add(std::make_shared<Named>(name)).ok());
    }
  }
  FunctionTable table_;
};

TEST_F(FunctionTableTest, FindsByExactName) {
  const auto found = table_.Find("lockstep.copy");
  ASSERT_TRUE(found.ok());
  EXPECT_EQ((*found)->name(), "lockstep.copy");
  EXPECT_EQ((*found)->Describe(), "function lockstep.copy");
}

TEST_F(FunctionTableTest, UnknownNameSuggestsNearOnes) {
  const Status status = table_.Find("lockstep.cats").status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(Message(status).find("there is no function \"lockstep.cats\"; did you mean "
                                 "lockstep.cast"),
            0u)
      << status;
}

TEST_F(FunctionTableTest, UnknownNameWithoutPrefixSuggestsTheWholeName) {
  EXPECT_EQ(Message(table_.Find("copy").status()),
            "there is no function \"copy\"; did you mean lockstep.copy");
}

TEST_F(FunctionTableTest, NothingNearSuggestsNothing) {
  EXPECT_EQ(Message(table_.Find("xyzzy").status()), "there is no function \"xyzzy\"");
  EXPECT_EQ(table_.Find(std::string(100000, 'x')).status().code(), StatusCode::kNotFound);
}

TEST_F(FunctionTableTest, NamesAreUniqueAndSorted) {
  EXPECT_EQ(table_.Add(std::make_shared<Named>("other")).code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(table_.Names(), (std::vector<std::string>{"lockstep.cast", "lockstep.concat",
                                                      "lockstep.copy", "other"}));
}

}  // namespace
}  // namespace lockstep::module
