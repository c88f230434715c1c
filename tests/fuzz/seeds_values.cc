#include "runtime/control/activity_codec.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/session_record.h"
#include "runtime/control/value_codec.h"
#include "tests/fuzz/seeds.h"

namespace lockstep::fuzz {
namespace {

template <typename Schema, typename Fill>
std::string WithoutTable(Fill fill) {
  // Behind the sender, the number of frames and the size.
  return Say<Schema>(0, fill).substr(4);
}

}  // namespace

void AddValueSeeds(SeedFolder& folder) {
  const auto add = [&](const std::string& name, const Value& value) {
    folder.Add("values", name, WithoutTable<wire::Value>([&](auto builder) {
                 control::WriteValue(builder, value);
               }));
  };
  add("value_none", Value());
  add("value_bool", Value(true));
  add("value_int64", Value(int64_t{-7}));
  add("value_float64", Value(2.5));
  add("value_text", Value("text"));
  add("value_bytes", Value(Bytes{std::string("\0\xff", 2)}));
  add("value_dtype", Value(DType::kBFloat16));
  add("value_device", Value(Device{DeviceType::kCuda, 3}));
  add("value_shape", Value(Shape{2, 0, 3}));
  add("value_register", Value(RegisterId{4, 2}));
  add("value_tensor", Value(HostTensor{DType::kInt16, Shape{2, 2}, std::string(8, '\1')}));
  add("value_empty_tensor", Value(HostTensor{DType::kFloat32, Shape{5, 0}, ""}));
  add("finding_empty_tensor_of_many_rows",
      Value(HostTensor{DType::kInt8, Shape{int64_t{1} << 60, 0}, ""}));
  add("value_list", Value(Value::List{Value(1), Value(Value::List{Value("a")})}));
  add("value_map", Value(Value::Map{{"a", Value(1)}, {"b", Value(Value::List{})}}));
  add("value_object", Value(RemoteObject{"function lockstep.full"}));
  const control::Frame whole = control::EncodeMessage<wire::Value>([](auto builder) {
    control::WriteValue(builder, Value(Shape{1, 2}));
  });
  folder.Add("values", "value_with_table", BytesOf(whole));
  control::RemoteError error;
  error.code = StatusCode::kInternal;
  error.rank = 2;
  error.session = SessionId(3);
  error.command = 17;
  error.function = "lockstep.fail";
  error.message = "it failed";
  error.stack = "fail.cc:3";
  const auto write_error = [&](auto builder) { control::WriteError(builder, error); };
  folder.Add("values", "error", WithoutTable<wire::Error>(write_error));
  control::SessionRecord record;
  record.id = SessionId(3);
  record.token = "token";
  record.name = "client";
  record.host = "host";
  record.names = {{"weights", {RegisterId{1, 1}, 4}}, {"bias", {RegisterId{2, 1}, 5}}};
  record.failure = error;
  folder.Add("values", "session_record", WithoutTable<wire::SessionRecord>([&](auto builder) {
               control::WriteSessionRecord(builder, record);
             }));
  WorkerActivity activity;
  activity.kind = WorkerActivity::Kind::kCollective;
  activity.session = SessionId(3);
  activity.command = 17;
  activity.what = "allreduce";
  activity.since = std::chrono::milliseconds(1500);
  activity.last_rank = 3;
  folder.Add("values", "activity", WithoutTable<wire::Activity>([&](auto builder) {
               control::WriteActivity(activity, builder);
             }));
}

}  // namespace lockstep::fuzz
