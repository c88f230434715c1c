// Programs as they travel and are kept: their bytes, and the key that names these.
//
// The bytes are those of a wire::Program in Cap'n Proto's canonical form: equal programs have equal
// bytes, and programs that differ in anything (a layout, a literal, a line) have others. They begin
// with Program::kVersion, which stands for the format and for what lowering makes of it; what else
// lowering depends on (the rank, the topology) belongs to whoever keeps what was lowered.
//
// A key saves sending and comparing: it never decides alone that two programs are equal. Whatever
// is found by a key is compared by its bytes, so two programs of one key cost time, and nothing
// else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/status.h"
#include "runtime/plan/program.h"

namespace lockstep::plan {

// 128 bits of a hash (XXH3, which is the same on all machines).
struct PlanKey {
  uint64_t high = 0;
  uint64_t low = 0;

  // 32 hexadecimal digits.
  std::string ToString() const;
  bool operator==(const PlanKey&) const = default;
};

// Immutable, and cheap to copy. Threads: any.
struct EncodedProgram {
  PlanKey key;
  // Of one segment without framing; never null. Words, because readers want them aligned.
  std::shared_ptr<const std::vector<uint64_t>> words;

  size_t size_bytes() const { return words->size() * sizeof(uint64_t); }
  absl::Span<const std::byte> bytes() const {
    return {reinterpret_cast<const std::byte*>(words->data()), size_bytes()};
  }
  // Of all their bytes.
  bool operator==(const EncodedProgram& other) const {
    return key == other.key && (words == other.words || *words == *other.words);
  }
};

EncodedProgram Encode(const Program& program);

// What has come from elsewhere, copied; it may be no program at all. kInvalidArgument: these are no
// whole words.
StatusOr<EncodedProgram> CopyEncoded(absl::Span<const std::byte> bytes);

// The errors of ReadProgram(); kInvalidArgument, too, for bytes that are no message.
StatusOr<Program> Decode(const EncodedProgram& encoded, int world_size);

}  // namespace lockstep::plan
