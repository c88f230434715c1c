// The registers of one session on one worker, and the register files of all sessions.
//
// A client names registers itself: it takes an index from its free list and, each time it reuses
// one, a generation higher by one. A slot here remembers the highest generation it has seen, so a
// name that is out of date is an error and never another register's data.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/plan/layout.h"
#include "runtime/registers/lasting_storage.h"
#include "runtime/registers/value.h"

namespace lockstep::registers {

// How the tensor in a register lies on the workers; null: that is not known. Never changed, so
// registers whose tensors lie alike may share one.
using LayoutPtr = std::shared_ptr<const plan::Layout>;

// What the registers hold now, over all sessions of a worker. Written by the executing thread, read
// by any (metrics, status).
struct RegisterTotals {
  std::atomic<int64_t> live_registers = 0;
  // Sizes of the tensors that registers hold directly. Two registers that share memory count twice.
  std::atomic<int64_t> tensor_bytes = 0;
  // The most that each of them ever was.
  std::atomic<int64_t> peak_registers = 0;
  std::atomic<int64_t> peak_tensor_bytes = 0;
};

// Threads: one at a time.
// Errors: kInvalidArgument    the id names nothing (generation 0)
//         kNotFound           read or killed, but never written, or freed, or taken by a newer one
//         kFailedPrecondition written under a name that was freed or is out of date
//         kResourceExhausted  written beyond the limits
class RegisterFile {
 public:
  static constexpr uint32_t kDefaultMaxRegisters = 1 << 20;

  struct Limits {
    uint32_t registers = kDefaultMaxRegisters;  // indices below it may be used
    // Of all values together, in HeldBytes(), and of their layouts.
    size_t bytes = std::numeric_limits<size_t>::max();
    // What an error tells to raise: the setting that `bytes` comes from, and where it is.
    std::string_view bytes_setting = "max_session_bytes";
  };

  // `totals`, which outlives the file, counts along.
  explicit RegisterFile(RegisterTotals* totals, const Limits& limits)
      : totals_(totals), limits_(limits) {}
  explicit RegisterFile(RegisterTotals* totals) : RegisterFile(totals, Limits()) {}
  ~RegisterFile();
  RegisterFile(const RegisterFile&) = delete;
  RegisterFile& operator=(const RegisterFile&) = delete;

  // Makes `id` hold `value`, which lies by `layout`. An older generation that still holds a value
  // loses it.
  Status Write(RegisterId id, Value&& value, LayoutPtr layout = nullptr);

  // The value of `id`; valid until that register is written or killed.
  StatusOr<const Value*> Read(RegisterId id) const {
    const Slot* slot = Find(id.index);
    if (slot == nullptr || slot->generation != id.generation || !slot->live) [[unlikely]] {
      return WhyUnreadable(id, slot);
    }
    return &slot->value;
  }

  // Says how what `id` holds lies; null: that is not known any more. Nothing if it holds no value:
  // a layout is always one of what is there.
  Status SetLayout(RegisterId id, LayoutPtr layout);
  // Null, too, if `id` holds no value.
  LayoutPtr LayoutOf(RegisterId id) const {
    const Slot* slot = Find(id.index);
    return slot == nullptr || slot->generation != id.generation ? nullptr : slot->layout;
  }
  // Whether LayoutOf() is that very one: quicker than to copy it.
  bool HasLayout(RegisterId id, const plan::Layout* layout) const {
    const Slot* slot = Find(id.index);
    return slot != nullptr && slot->generation == id.generation && slot->layout.get() == layout;
  }
  bool HasLayouts() const { return layouts_ > 0; }

  // OK if `more` bytes are within the limit: to be asked before memory is taken for them.
  Status CheckRoom(size_t more) const;
  // How many bytes are left within it.
  size_t room_bytes() const {
    const size_t held = held_bytes();
    return held < limits_.bytes ? limits_.bytes - held : 0;
  }

  // So many bytes are kept for the session beside its registers from now on: they count among the
  // held. kResourceExhausted, and it stays as it was, if they are more than before, and too many.
  Status KeepBeside(size_t bytes);
  // The same of what is kept already, and is not given up because there is too much of it.
  void RecordBeside(size_t bytes);

  // Counts memory that outlives what has counted it, among the held bytes.
  const LastingBytes& lasting_bytes() const { return lasting_bytes_; }

  // Frees `id`, so that every later use of the name fails. OK also if nothing was ever written: the
  // command that should have done it may have failed.
  Status Kill(RegisterId id);

  // Frees all but those in `kept`.
  void KillAllBut(const std::vector<RegisterId>& kept);

  // Calls `visit(id, value, held_bytes)` for every register that has a value, by index; the bytes
  // are the value's.
  template <typename Visit>
  void ForEachLive(Visit&& visit) const {
    for (uint32_t chunk = 0; chunk < chunks_.size(); ++chunk) {
      if (chunks_[chunk] == nullptr) continue;
      for (uint32_t i = 0; i < kChunkSlots; ++i) {
        const Slot& slot = (*chunks_[chunk])[i];
        if (!slot.live) continue;
        visit(RegisterId{(chunk << kChunkBits) + i, slot.generation}, slot.value, slot.held_bytes);
      }
    }
  }

  // The highest generation that was written or killed.
  uint32_t generations() const { return generations_; }
  size_t live_registers() const { return live_registers_; }
  size_t tensor_bytes() const { return tensor_bytes_; }
  // Of all values, in HeldBytes(), of their layouts, of what is kept beside them, and of memory
  // that outlives what has counted it.
  size_t held_bytes() const {
    return held_bytes_ + lasting_bytes_->load(std::memory_order_relaxed);
  }

 private:
  struct Slot {
    uint32_t generation = 0;  // the highest that was written or killed; 0 is none
    bool live = false;
    size_t held_bytes = 0;  // of the value
    Value value;
    LayoutPtr layout;  // only of a value that is there
  };
  // Slots come in chunks, so that they never move and a lone high index costs little.
  static constexpr uint32_t kChunkBits = 8;
  static constexpr uint32_t kChunkSlots = 1 << kChunkBits;
  using Chunk = std::array<Slot, kChunkSlots>;

  const Slot* Find(uint32_t index) const {
    const uint32_t chunk = index >> kChunkBits;
    if (chunk >= chunks_.size() || chunks_[chunk] == nullptr) return nullptr;
    return &(*chunks_[chunk])[index & (kChunkSlots - 1)];
  }
  Slot& FindOrMake(uint32_t index);
  void SetValue(Slot& slot, bool live, Value&& value, size_t held_bytes);
  void ReplaceLayout(Slot& slot, LayoutPtr&& layout);
  static Status WhyUnreadable(RegisterId id, const Slot* slot);

  RegisterTotals* const totals_;
  const Limits limits_;
  std::vector<std::unique_ptr<Chunk>> chunks_;
  size_t live_registers_ = 0;
  size_t tensor_bytes_ = 0;
  size_t held_bytes_ = 0;
  size_t bytes_beside_ = 0;
  const LastingBytes lasting_bytes_ = std::make_shared<std::atomic<size_t>>(0);
  size_t layouts_ = 0;  // registers that have one
  uint32_t generations_ = 0;
};

// The register files of a worker, by session.
//
// Threads: one at a time; totals() from any.
class SessionRegisters {
 public:
  // `limits` are those of each session.
  explicit SessionRegisters(const RegisterFile::Limits& limits) : limits_(limits) {}
  SessionRegisters() : SessionRegisters(RegisterFile::Limits()) {}

  // kAlreadyExists if the session is open.
  StatusOr<RegisterFile*> Open(SessionId session);
  // kNotFound if it is not. The file lives until Close().
  StatusOr<RegisterFile*> Find(SessionId session) const;
  // Frees all registers of the session. kNotFound if it is not open.
  Status Close(SessionId session);

  size_t open_sessions() const { return files_.size(); }
  const RegisterTotals& totals() const { return totals_; }

 private:
  const RegisterFile::Limits limits_;
  RegisterTotals totals_;  // before files_, which count down when they go
  absl::flat_hash_map<uint32_t, std::unique_ptr<RegisterFile>> files_;  // by SessionId::value
};

}  // namespace lockstep::registers
