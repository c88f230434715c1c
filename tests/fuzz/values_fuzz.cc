// What crosses the wire inside messages: values, errors, activities, and records of sessions.
// The bytes are read as each of them.
#include <cstdint>
#include <cstdlib>

#include "runtime/control/error_codec.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/session_record.h"
#include "runtime/control/value_codec.h"
#include "runtime/control/worker_report_codec.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/targets.h"
#include "tools/cli/value_text.h"

namespace lockstep::fuzz {
namespace {

// What was read can be written, and is read as the same again.
void WriteAndReadAgain(const Value& value) {
  if (!control::CheckDepth(value).ok()) return;
  (void)control::PayloadBytes(value);
  (void)cli::Render(value);
  (void)cli::ToText(cli::ToJson(value));
  const control::Frame frame = control::EncodeMessage<wire::Value>(
      [&](wire::Value::Builder builder) { control::WriteValue(builder, value); });
  const Status again = control::DecodeMessage<wire::Value>(
      frame,
      [](wire::Value::Reader reader) -> Status { return control::ReadValue(reader).status(); });
  if (!again.ok()) std::abort();
}

void Read(const control::Frame& frame) {
  (void)control::DecodeMessage<wire::Value>(frame, [](wire::Value::Reader reader) -> Status {
    LOCKSTEP_ASSIGN_OR_RETURN(const Value value, control::ReadValue(reader));
    WriteAndReadAgain(value);
    return OkStatus();
  });
  (void)control::DecodeMessage<wire::Error>(frame, [](wire::Error::Reader reader) {
    const control::RemoteError error = control::ReadError(reader);
    (void)control::EncodeMessage<wire::Error>(
        [&](wire::Error::Builder builder) { control::WriteError(builder, error); });
    (void)control::RemoteErrorIn(error.ToStatus());
    return OkStatus();
  });
  (void)control::DecodeMessage<wire::SessionRecord>(frame, [](wire::SessionRecord::Reader reader) {
    const control::SessionRecord record = control::ReadSessionRecord(reader);
    (void)control::EncodeMessage<wire::SessionRecord>([&](wire::SessionRecord::Builder builder) {
      control::WriteSessionRecord(builder, record);
    });
    return OkStatus();
  });
  (void)control::DecodeMessage<wire::Activity>(frame, [](wire::Activity::Reader reader) {
    const WorkerActivity activity = control::ReadActivity(reader);
    (void)activity.Describe();
    (void)control::EncodeMessage<wire::Activity>(
        [&](wire::Activity::Builder builder) { control::WriteActivity(activity, builder); });
    return OkStatus();
  });
}

}  // namespace

void ReadValues(const uint8_t* data, size_t size) {
  Read(control::Frame::Copy(data, size));
  Read(WithTable(data, size));
}

}  // namespace lockstep::fuzz
