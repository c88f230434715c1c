// Every message by every role: what each may ask for.
#include "services/controller/roles.h"

#include <capnp/schema.h>
#include <gmock/gmock.h>

#include <optional>
#include <string>
#include <vector>

#include "runtime/control/keys/gate.h"
#include "runtime/control/keys/key_file.h"
#include "tests/support/files.h"
#include "tests/unit/services/controller/parts_fixture.h"

namespace lockstep::controller {
namespace {

using control::Role;
using testing::HasSubstr;

constexpr Role kAllRoles[] = {Role::kReader, Role::kClient, Role::kOperator, Role::kWorker};

struct Question {
  std::string name;
  Fill fill;
  std::vector<Role> allowed;
};

// All that a client can send.
std::vector<Question> Questions() {
  const std::vector<Role> all = {Role::kReader, Role::kClient, Role::kOperator};
  const std::vector<Role> clients = {Role::kClient, Role::kOperator};
  const std::vector<Role> operators = {Role::kOperator};
  return {
      {"status", [](auto m) { m.setStatus(1); }, all},
      {"explain", [](auto m) { m.setExplain(1); }, all},
      {"listRegisters", [](auto m) { m.initListRegisters(); }, all},
      {"openSession", [](auto m) { m.initOpenSession(); }, clients},
      {"batch", [](auto m) { m.initBatch(); }, clients},
      {"closeSession", [](auto m) { m.initCloseSession(); }, clients},
      {"resetSession", [](auto m) { m.initResetSession(); }, clients},
      {"keepAlive", [](auto m) { m.initKeepAlive(); }, clients},
      {"awaitWorkers", [](auto m) { m.initAwaitWorkers(); }, clients},
      {"resumeSession", [](auto m) { m.initResumeSession(); }, clients},
      {"nameRegister", [](auto m) { m.initNameRegister(); }, clients},
      // By more than the role: see fragment_grants.h.
      {"compileFragment", [](auto m) { m.initCompileFragment(); }, clients},
      {"detachSession", [](auto m) { m.initDetachSession(); }, clients},
      {"attachSession", [](auto m) { m.initAttachSession(); }, clients},
      {"outputTaken", [](auto m) { m.initOutputTaken(); }, clients},
      {"trace", [](auto m) { m.initTrace(); }, clients},
      // Of its own key's; those of others are refused in the answer (session_ender.h).
      {"endSession", [](auto m) { m.initEndSession(); }, clients},
      {"shutdown", [](auto m) { m.setShutdown("enough"); }, operators},
  };
}

class RolesTest : public PartsFixture {};

TEST_F(RolesTest, EveryMessageIsAllowedToTheRolesThatMaySendItAndRefusedToAllOthers) {
  const std::vector<Question> questions = Questions();
  ASSERT_EQ(questions.size(), capnp::Schema::from<wire::ClientMessage>().getUnionFields().size())
      << "a kind of message is missing in this table";
  StartReady();
  for (const Question& question : questions) {
    for (const Role role : kAllRoles) {
      SCOPED_TRACE(question.name + " by a " + Name(role));
      sender_ = control::Identity{role, "peer", control::NewKeyPair().public_key};
      shutdowns_.clear();
      Forget();
      const Status status = FromClient("c", question.fill);
      const bool is_allowed = std::find(question.allowed.begin(), question.allowed.end(), role) !=
                              question.allowed.end();
      const bool is_refused = Message(status).find("\"peer\" has the key of a ") == 0;
      EXPECT_EQ(is_refused, !is_allowed) << status;
      if (is_allowed) continue;
      EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
      EXPECT_THAT(ToClient("c"), testing::ElementsAre(HasSubstr("refused PERMISSION_DENIED")));
      EXPECT_THAT(shutdowns_, testing::IsEmpty());
    }
    sender_.reset();
    EXPECT_NE(FromClient("c", question.fill).code(), StatusCode::kPermissionDenied)
        << question.name << " where no keys are asked for";
  }
}

// What workers send comes by listeners of their own, which let in nothing else: so no message of
// theirs is checked by itself.
TEST(GatesTest, EachListenerLetsInTheRolesThatHaveSomethingToSayThere) {
  const support::ScratchDirectory directory;
  ControllerOptions options;
  options.key = control::NewKeyPair().secret_key.SecretText();
  options.allowed_keys = directory.File("allowed_keys");
  std::string list;
  std::vector<control::PublicKey> keys;
  for (const Role role : kAllRoles) {
    keys.push_back(control::NewKeyPair().public_key);
    list += control::Identity{role, "a-" + Name(role), keys.back()}.Text() + "\n";
  }
  ASSERT_EQ(control::WriteFileWhole(options.allowed_keys, list, 0644), OkStatus());
  const auto gates = OpenGates(options);
  ASSERT_TRUE(gates.ok()) << gates.status();
  for (size_t i = 0; i < keys.size(); ++i) {
    const Role role = kAllRoles[i];
    EXPECT_EQ(gates->workers->Admit(keys[i]).ok(), role == Role::kWorker) << Name(role);
    EXPECT_EQ(gates->clients->Admit(keys[i]).ok(), role != Role::kWorker) << Name(role);
  }
}

TEST(GatesTest, KeyAndListBelongTogether) {
  ControllerOptions options;
  const auto none = OpenGates(options);
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->clients, nullptr);
  options.key = control::NewKeyPair().secret_key.SecretText();
  EXPECT_THAT(Message(OpenGates(options).status()),
              HasSubstr("key and allowed_keys belong together"));
}

}  // namespace
}  // namespace lockstep::controller
