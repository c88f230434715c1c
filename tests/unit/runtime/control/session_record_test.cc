#include "runtime/control/session_record.h"

#include <capnp/message.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>

namespace lockstep::control {
namespace {

TEST(SessionRecordTest, AllOfItTravels) {
  SessionRecord record;
  record.id = SessionId(3);
  record.token = "secret";
  record.name = "training";
  record.host = "node7";
  record.host_id = "boot";
  record.pid = 4711;
  record.num_groups = 2;
  record.generation = Generation(5);
  record.next_command = uint64_t{1} << 40;
  record.consumed_bytes = 99;
  record.command_timeout = std::chrono::milliseconds(1500);
  record.keep_for = std::chrono::minutes(10);
  record.names = {{"weights", {{4, 2}, 17}}, {"bias", {{7, 1}, 3}}};
  record.client_number = 3;
  record.first_command = 12;
  record.register_generations = 12;
  record.bulk_key = "lpk_bulk";
  record.forward_output = true;
  record.owner = Identity{Role::kClient, "trainer", NewKeyPair().public_key};
  record.failure.code = StatusCode::kAborted;
  record.failure.message = "why";

  capnp::MallocMessageBuilder message;
  WriteSessionRecord(message.initRoot<wire::SessionRecord>(), record);
  const SessionRecord read = ReadSessionRecord(message.getRoot<wire::SessionRecord>().asReader());
  EXPECT_EQ(read.id, record.id);
  EXPECT_EQ(read.token, record.token);
  EXPECT_EQ(read.name, record.name);
  EXPECT_EQ(read.host, record.host);
  EXPECT_EQ(read.host_id, record.host_id);
  EXPECT_EQ(read.pid, record.pid);
  EXPECT_EQ(read.num_groups, record.num_groups);
  EXPECT_EQ(read.generation, record.generation);
  EXPECT_EQ(read.next_command, record.next_command);
  EXPECT_EQ(read.consumed_bytes, record.consumed_bytes);
  EXPECT_EQ(read.command_timeout, record.command_timeout);
  EXPECT_EQ(read.keep_for, record.keep_for);
  EXPECT_EQ(read.names, record.names);
  EXPECT_EQ(read.client_number, record.client_number);
  EXPECT_EQ(read.first_command, record.first_command);
  EXPECT_EQ(read.register_generations, record.register_generations);
  EXPECT_EQ(read.bulk_key, record.bulk_key);
  EXPECT_EQ(read.forward_output, record.forward_output);
  ASSERT_TRUE(read.owner.has_value());
  EXPECT_EQ(read.owner->Text(), record.owner->Text());
  EXPECT_EQ(read.failure.code, record.failure.code);
  EXPECT_EQ(read.failure.message, record.failure.message);
}

TEST(SessionRecordTest, AnOwnerWhoCannotBeReadIsSomebodyAllTheSame) {
  capnp::MallocMessageBuilder message;
  auto builder = message.initRoot<wire::SessionRecord>();
  WriteSessionRecord(builder, SessionRecord());
  EXPECT_FALSE(ReadSessionRecord(builder.asReader()).owner.has_value());
  builder.setOwner("client lpk_x trainer");
  const auto owner = ReadSessionRecord(builder.asReader()).owner;
  ASSERT_TRUE(owner.has_value());
  EXPECT_FALSE(AllowList().Holds(*owner));
}

TEST(SessionRecordTest, WaitsThatFitNowhereAreCut) {
  EXPECT_EQ(Millis(7), std::chrono::milliseconds(7));
  EXPECT_EQ(Millis(std::numeric_limits<uint64_t>::max()),
            std::chrono::milliseconds(std::numeric_limits<int32_t>::max()));
}

}  // namespace
}  // namespace lockstep::control
