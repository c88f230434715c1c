#include "runtime/plan/plan_key.h"

#include <capnp/message.h>
#include <kj/exception.h>
#include <xxhash.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/plan/program_codec.h"

namespace lockstep::plan {
namespace {

EncodedProgram Keyed(std::vector<uint64_t> words) {
  const XXH128_hash_t hash = XXH3_128bits(words.data(), words.size() * sizeof(uint64_t));
  return {{hash.high64, hash.low64},
          std::make_shared<const std::vector<uint64_t>>(std::move(words))};
}

// How often each word may be visited, and how deep: as of any message (control::ReadLimits).
capnp::ReaderOptions LimitsFor(size_t words) {
  constexpr uint64_t kVisitsPerWord = 16;
  constexpr uint64_t kAlways = 4096;
  constexpr int kNesting = 32;
  return {kVisitsPerWord * words + kAlways, kNesting};
}

}  // namespace

std::string PlanKey::ToString() const {
  return absl::StrCat(absl::Hex(high, absl::kZeroPad16), absl::Hex(low, absl::kZeroPad16));
}

EncodedProgram Encode(const Program& program) {
  capnp::MallocMessageBuilder message;
  const auto builder = message.initRoot<wire::Program>();
  WriteProgram(builder, program);
  const kj::Array<capnp::word> canonical = capnp::canonicalize(builder.asReader());
  std::vector<uint64_t> words(canonical.size());
  std::memcpy(words.data(), canonical.begin(), words.size() * sizeof(uint64_t));
  return Keyed(std::move(words));
}

StatusOr<EncodedProgram> CopyEncoded(absl::Span<const std::byte> bytes) {
  if (bytes.empty() || bytes.size() % sizeof(uint64_t) != 0) {
    return InvalidArgument("a program of ", bytes.size(), " bytes is cut off");
  }
  std::vector<uint64_t> words(bytes.size() / sizeof(uint64_t));
  std::memcpy(words.data(), bytes.data(), bytes.size());
  return Keyed(std::move(words));
}

StatusOr<Program> Decode(const EncodedProgram& encoded, int world_size) {
  const kj::ArrayPtr<const capnp::word> segment(
      reinterpret_cast<const capnp::word*>(encoded.words->data()), encoded.words->size());
  try {
    capnp::SegmentArrayMessageReader reader(kj::arrayPtr(&segment, 1), LimitsFor(segment.size()));
    return ReadProgram(reader.getRoot<wire::Program>(), world_size);
  } catch (const kj::Exception& exception) {
    return InvalidArgument("a program cannot be read: ",
                           std::string(exception.getDescription().cStr()));
  }
}

}  // namespace lockstep::plan
