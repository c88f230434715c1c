#include "runtime/control/plain_call.h"

namespace lockstep::control {
namespace {

using namespace plain_call;

// As Cap'n Proto bounds a segment: then offsets between its words have a sign.
constexpr uint64_t kMostWords = uint64_t{1} << 28;

static_assert(kValueDataWords == capnp::_::structSize<wire::Value>().data &&
              kValuePointers == capnp::_::structSize<wire::Value>().pointers);

// An argument at `value` whose payload, if it has one, begins at `payload` and ends before `end`.
// Returns where the payload ends; null if it is no such argument.
const uint64_t* PayloadEnd(const uint64_t* value, const uint64_t* payload, const uint64_t* end) {
  const uint64_t pointer = value[kValueDataWords];
  const auto room = static_cast<uint64_t>(end - payload);
  const auto offset = static_cast<uint64_t>(payload - (value + kValueWords));
  const uint64_t size = pointer >> 35;
  switch (static_cast<wire::Value::Which>(value[0] & 0xffff)) {
    case wire::Value::NONE:
    case wire::Value::BOOL:
    case wire::Value::INT64:
    case wire::Value::FLOAT64:
    case wire::Value::DTYPE:
    case wire::Value::REGISTER:
      return pointer == 0 ? payload : nullptr;
    case wire::Value::TEXT: {
      const uint64_t words = (size + sizeof(uint64_t) - 1) / sizeof(uint64_t);
      const bool is_whole = pointer == ListPointer(offset, ElementSize::kByte, size) && size > 0 &&
                            words <= room && reinterpret_cast<const char*>(payload)[size - 1] == 0;
      return is_whole ? payload + words : nullptr;
    }
    case wire::Value::SHAPE:
      return pointer == ListPointer(offset, ElementSize::kEightBytes, size) && size <= room
                 ? payload + size
                 : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace

size_t FindPlainCall(kj::ArrayPtr<const capnp::word> all) {
  const auto* const words = reinterpret_cast<const uint64_t*>(all.begin());
  if (all.size() < kHeadWords) return 0;
  const uint64_t count = 1 + (words[kTable] >> 32);
  if (words[kTable] << 32 != 0 || count < kHeadWords || count > kMostWords || count > all.size() ||
      words[kRoot] != StructPointer(0, kDataWords, kPointers) || words[kKind] != kIsCall) {
    return 0;
  }
  const uint64_t* const end = words + count;
  const uint64_t* next = words + kHeadWords;
  if (words[kArguments] == 0) return next == end ? count : 0;
  if (next == end) return 0;
  const uint64_t arguments = ListedArguments(*next++);
  if (arguments > PlainCallWriter::kMostArguments ||
      arguments * kValueWords > static_cast<uint64_t>(end - next) ||
      words[kHeadWords] != StructPointer(arguments, kValueDataWords, kValuePointers) ||
      words[kArguments] != ListPointer(0, ElementSize::kStruct, arguments * kValueWords)) {
    return 0;
  }
  const uint64_t* payload = next + arguments * kValueWords;
  for (; payload != nullptr && next != words + kHeadWords + 1 + arguments * kValueWords;
       next += kValueWords) {
    payload = PayloadEnd(next, payload, end);
  }
  return payload == end ? count : 0;
}

}  // namespace lockstep::control
