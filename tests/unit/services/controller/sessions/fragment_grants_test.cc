// Who may have fragments compiled, and how much may be under way.
#include "services/controller/sessions/fragment_grants.h"

#include <gmock/gmock.h>

#include <string>

#include "runtime/fragment/fragment.h"
#include "tests/unit/services/controller/parts_fixture.h"

namespace lockstep::controller {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class FragmentGrantsTest : public PartsFixture {
 protected:
  Status Compile(SessionId id, uint64_t request, const std::string& source = "module {}",
                 const control::PeerName& client = "c") {
    const control::Message message = {
        control::EncodeMessage<wire::ClientMessage>([&](wire::ClientMessage::Builder builder) {
          auto compile = builder.initCompileFragment();
          compile.setSession(id.value);
          compile.setRequest(request);
          compile.setTimeoutMillis(5000);
          compile.setName("f.mlir");
        }),
        control::Frame::Copy(source.data(), source.size())};
    return dispatcher_->HandleClient(client, sender_.has_value() ? &*sender_ : nullptr, message);
  }
};

TEST_F(FragmentGrantsTest, AllWorkersLoadItAndTheAnswerIsThatOfAll) {
  StartReady();
  const SessionId id = Open("c");
  ASSERT_TRUE(Compile(id, 7).ok());
  EXPECT_THAT(ToAllWorkers(), ElementsAre(HasSubstr("load f.mlir")));
  Reply(0, id, 7);
  EXPECT_THAT(ToClient("c"), IsEmpty());
  Reply(1, id, 7);
  EXPECT_THAT(ToClient("c"), ElementsAre("answer 7 OK"));
}

TEST_F(FragmentGrantsTest, AFailureIsTheRequestsAndNotTheSessions) {
  StartReady();
  const SessionId id = Open("c");
  ASSERT_TRUE(Compile(id, 7).ok());
  Reply(1, id, 7, StatusCode::kInvalidArgument);
  Reply(0, id, 7, StatusCode::kInvalidArgument);
  EXPECT_THAT(ToClient("c"), ElementsAre(HasSubstr("answer 7 INVALID_ARGUMENT")));
  EXPECT_TRUE(session(id).failure.ok());
}

TEST_F(FragmentGrantsTest, RolesAndTheSettingSayWhoMay) {
  struct Case {
    const char* setting;
    control::Role role;
    bool allowed;
  };
  for (const Case& c : {Case{"operator", control::Role::kOperator, true},
                        Case{"operator", control::Role::kClient, false},
                        Case{"client", control::Role::kClient, true},
                        Case{"off", control::Role::kOperator, false}}) {
    options_.fragments = c.setting;
    StartReady();
    const SessionId id = Open("c");
    sender_ = control::Identity{c.role, "ann", {}};
    ASSERT_TRUE(Compile(id, 7).ok());
    if (c.allowed) {
      EXPECT_THAT(ToAllWorkers(), ElementsAre(HasSubstr("load f.mlir"))) << c.setting;
    } else {
      EXPECT_THAT(ToAllWorkers(), IsEmpty()) << c.setting;
      EXPECT_THAT(ToClient("c"), ElementsAre(AllOf(HasSubstr("answer 7 PERMISSION_DENIED"),
                                                   HasSubstr("`fragments`"))));
    }
    sender_.reset();
  }
}

TEST_F(FragmentGrantsTest, WhatIsTooLargeIsNotSentOn) {
  StartReady();
  const SessionId id = Open("c");
  ASSERT_TRUE(Compile(id, 7, std::string(fragment::Fragment::kMaxSourceBytes + 1, 'x')).ok());
  EXPECT_THAT(ToClient("c"), ElementsAre(HasSubstr("answer 7 INVALID_ARGUMENT")));
  EXPECT_THAT(ToAllWorkers(), IsEmpty());
}

// A client that does not wait cannot fill the workers' queues: what counts is what they have
// answered.
TEST_F(FragmentGrantsTest, WhatWorkersHaveNotAnsweredIsBounded) {
  StartReady();
  const SessionId id = Open("c");
  uint64_t request = 0;
  while (request < FragmentGrants::kMostLoading) ASSERT_TRUE(Compile(id, ++request).ok());
  Pass(std::chrono::seconds(6));  // beyond the time-outs of all of them
  Forget();
  ASSERT_TRUE(Compile(id, ++request).ok());
  EXPECT_THAT(ToClient("c"), ElementsAre(HasSubstr("RESOURCE_EXHAUSTED")));
  EXPECT_THAT(ToAllWorkers(), IsEmpty());
  // Another session is not concerned.
  const SessionId other = Open("d");
  ASSERT_TRUE(Compile(other, 1, "module {}", "d").ok());
  EXPECT_THAT(ToAllWorkers(), ElementsAre(HasSubstr("load")));
  ReplyAll(id, 1);
  ASSERT_TRUE(Compile(id, ++request).ok());
  EXPECT_THAT(ToAllWorkers(), ElementsAre(HasSubstr("load")));
}

// Else what counts could be made to count as one, or as answered.
TEST_F(FragmentGrantsTest, ANumberThatIsUnderWayIsNotUsedAgain) {
  StartReady();
  const SessionId id = Open("c");
  ASSERT_TRUE(Compile(id, 7).ok());
  Forget();
  EXPECT_EQ(Compile(id, 7).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Batch("c", id, 1, 7).code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(ToAllWorkers(), IsEmpty());
  ReplyAll(id, 7);
  EXPECT_TRUE(Compile(id, 7).ok());
}

TEST_F(FragmentGrantsTest, AFailedSessionIsToldItsFailure) {
  StartReady();
  const SessionId id = Open("c");
  Fail(1, id, 1, "the cause");
  Forget();
  ASSERT_TRUE(Compile(id, 7).ok());
  EXPECT_THAT(ToClient("c"), ElementsAre(AllOf(HasSubstr("answer 7"), HasSubstr("the cause"))));
  EXPECT_THAT(ToAllWorkers(), IsEmpty());
}

TEST_F(FragmentGrantsTest, AMessageWithoutSourceMakesNoSense) {
  StartReady();
  const SessionId id = Open("c");
  EXPECT_FALSE(FromClient("c", [&](auto m) {
                 m.initCompileFragment().setSession(id.value);
                 m.getCompileFragment().setRequest(7);
               }).ok());
}

}  // namespace
}  // namespace lockstep::controller
