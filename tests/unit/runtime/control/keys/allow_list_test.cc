#include "runtime/control/keys/allow_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace lockstep::control {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const PublicKey kOne = NewKeyPair().public_key;
const PublicKey kTwo = NewKeyPair().public_key;

AllowList ListOf(const std::string& text) {
  const StatusOr<AllowList> list = AllowList::Parse(text, "allowed");
  EXPECT_TRUE(list.ok()) << list.status();
  return list.value_or(AllowList());
}
std::string ProblemsOf(const std::string& text) {
  return Message(AllowList::Parse(text, "allowed").status());
}

TEST(AllowListTest, RolesIncludeWhatTheLesserOnesMayDo) {
  EXPECT_TRUE(Includes(Role::kClient, Role::kReader));
  EXPECT_TRUE(Includes(Role::kOperator, Role::kClient));
  EXPECT_TRUE(Includes(Role::kWorker, Role::kWorker));
  EXPECT_FALSE(Includes(Role::kReader, Role::kClient));
  EXPECT_FALSE(Includes(Role::kClient, Role::kOperator));
  for (const Role role : {Role::kReader, Role::kClient, Role::kOperator}) {
    EXPECT_FALSE(Includes(Role::kWorker, role)) << Name(role);
    EXPECT_FALSE(Includes(role, Role::kWorker)) << Name(role);
    EXPECT_EQ(*ParseRole(Name(role)), role);
  }
}

TEST(AllowListTest, KeysAreFoundByWhatTheyAre) {
  const AllowList list = ListOf("# ours\n\n client " + kOne.Text() +
                                " trainer # the big one\nworker\t" + kTwo.Text() + " rack1\r\n");
  ASSERT_TRUE(list.Find(kOne).has_value());
  EXPECT_EQ(list.Find(kOne)->name, "trainer");
  EXPECT_EQ(list.Find(kOne)->role, Role::kClient);
  EXPECT_EQ(list.Find(kTwo)->role, Role::kWorker);
  EXPECT_FALSE(list.Find(NewKeyPair().public_key).has_value());
}

TEST(AllowListTest, AnythingThatIsNotUnderstoodIsAnError) {
  EXPECT_THAT(ProblemsOf("client " + kOne.Text()), HasSubstr("allowed:1: expected a role"));
  EXPECT_THAT(ProblemsOf("\nroot " + kOne.Text() + " a"), HasSubstr("allowed:2: \"root\""));
  EXPECT_THAT(ProblemsOf("client lpk_x a"), HasSubstr("no public key"));
  EXPECT_THAT(ProblemsOf("client " + kOne.Text() + " a/b"), HasSubstr("\"a/b\" is no name"));
  EXPECT_THAT(ProblemsOf("client " + kOne.Text() + " a\nworker " + kOne.Text() + " b"),
              HasSubstr("in another line already"));
  EXPECT_THAT(ProblemsOf("client " + kOne.Text() + " a\nworker " + kTwo.Text() + " a"),
              HasSubstr("a worker here and a client in another line"));
  std::string many;
  for (int i = 0; i < 100; ++i) many += "nonsense\n";
  EXPECT_THAT(ProblemsOf(many), AllOf(HasSubstr("allowed:20:"), HasSubstr("80 more problems")));
}

TEST(AllowListTest, WhoeverCameInStaysWhileHisNameHasAnyKey) {
  const Identity identity{Role::kWorker, "rack1", kOne};
  EXPECT_TRUE(ListOf("worker " + kOne.Text() + " rack1\n").Holds(identity));
  EXPECT_TRUE(ListOf("worker " + kTwo.Text() + " rack1\n").Holds(identity)) << "rotated";
  EXPECT_FALSE(ListOf("worker " + kTwo.Text() + " rack2\n").Holds(identity));
  EXPECT_FALSE(ListOf("client " + kTwo.Text() + " rack1\n").Holds(identity));
  EXPECT_FALSE(ListOf("").Holds(identity));
  EXPECT_FALSE(ListOf("revoked " + kOne.Text() + " rack1\nworker " + kTwo.Text() + " rack1")
                   .Holds(identity));
  EXPECT_FALSE(
      ListOf("worker " + kOne.Text() + " other\nworker " + kTwo.Text() + " rack1").Holds(identity))
      << "the key has another name now";
}

// Its owner comes in again, and is what the list says now.
TEST(AllowListTest, KeyWhoseRoleWasChangedDoesNotKeepTheOldOne) {
  const Identity was_operator{Role::kOperator, "ops", kOne};
  EXPECT_TRUE(ListOf("operator " + kOne.Text() + " ops").Holds(was_operator));
  for (const std::string role : {"reader", "client", "worker"}) {
    EXPECT_FALSE(ListOf(role + " " + kOne.Text() + " ops").Holds(was_operator)) << role;
  }
  const Identity was_reader{Role::kReader, "ops", kOne};
  EXPECT_FALSE(ListOf("operator " + kOne.Text() + " ops").Holds(was_reader));
}

TEST(AllowListTest, RevokedKeyIsNotFound) {
  EXPECT_FALSE(ListOf("revoked " + kOne.Text() + " trainer").Find(kOne).has_value());
}

TEST(AllowListTest, LinesAreAddedAndTakenBack) {
  const std::string before = "# ours\nclient " + kOne.Text() + " trainer";
  const auto longer = WithLine(before, "allowed", {Role::kWorker, "rack1", kTwo});
  ASSERT_TRUE(longer.ok()) << longer.status();
  EXPECT_EQ(*longer, before + "\nworker " + kTwo.Text() + " rack1\n");
  EXPECT_EQ(WithLine(*longer, "allowed", {Role::kClient, "x", kTwo}).status().code(),
            StatusCode::kAlreadyExists);
  EXPECT_EQ(WithLine(before, "allowed", {Role::kWorker, "trainer", kTwo}).status().code(),
            StatusCode::kInvalidArgument)
      << "one name, two roles";
  EXPECT_EQ(WithLine(before, "allowed", {Role::kWorker, "a b", kTwo}).status().code(),
            StatusCode::kInvalidArgument);
  const auto without = WithoutKey(*longer, "allowed", kOne);
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_EQ(*without,
            "# ours\nrevoked " + kOne.Text() + " trainer\nworker " + kTwo.Text() + " rack1\n");
  EXPECT_EQ(WithoutKey(*without, "allowed", kOne).status().code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(WithLine(*without, "allowed", {Role::kClient, "trainer", kOne}).status().code(),
            StatusCode::kAlreadyExists)
      << "a revoked key does not come back";
}

TEST(AllowListTest, KeyWhoseLineWasTakenOutCanStillBeRevoked) {
  const auto list = AllowList::Parse("client " + kTwo.Text() + " trainer", "allowed");
  const Identity stayed{Role::kClient, "trainer", kOne};
  ASSERT_TRUE(list->Holds(stayed)) << "the name has another key";
  const auto without = WithoutKey("client " + kTwo.Text() + " trainer", "allowed", kOne);
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_FALSE(AllowList::Parse(*without, "allowed")->Holds(stayed));
}

TEST(AllowListTest, IdentityReadsBackAsTheSame) {
  const Identity identity{Role::kOperator, "me@home", kOne};
  const auto read = Identity::Parse(identity.Text());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->role, identity.role);
  EXPECT_EQ(read->name, identity.name);
  EXPECT_EQ(read->key, identity.key);
  EXPECT_FALSE(Identity::Parse("operator me").ok());
}

TEST(AllowListTest, SecretIsNeitherANameNorRepeated) {
  const std::string secret = NewKeyPair().secret_key.SecretText();
  for (const std::string& line :
       {"client " + kOne.Text() + " " + secret, "client " + secret + " a",
        secret + " " + kOne.Text() + " a", "revoked " + kOne.Text() + " " + secret}) {
    EXPECT_THAT(ProblemsOf(line), AllOf(HasSubstr("allowed:1:"), HasSubstr("lsk_..."),
                                        Not(HasSubstr(secret.substr(4)))));
  }
  const Status named = WithLine("", "allowed", {Role::kClient, secret, kOne}).status();
  EXPECT_EQ(named.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(named), Not(HasSubstr(secret.substr(4))));
  EXPECT_THAT(Message(Identity::Parse(secret).status()), Not(HasSubstr(secret.substr(4))));
}

}  // namespace
}  // namespace lockstep::control
