#include "runtime/registers/register_file.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "runtime/base/quantity.h"

namespace lockstep::registers {
namespace {

size_t TensorBytes(const Value& value) {
  const auto* tensor = value.As<tensor::Tensor>();
  return tensor == nullptr || tensor->IsNull() ? 0 : tensor->size_bytes();
}

// What layouts share counts for each.
size_t LayoutBytes(const LayoutPtr& layout) {
  if (layout == nullptr) [[likely]]
    return 0;
  const auto ranks = static_cast<size_t>(layout->mesh().size());
  return sizeof *layout + layout->placements().size() * sizeof(plan::Placement) +
         layout->mesh().axes().size() * sizeof(plan::MeshAxis) + 2 * ranks * sizeof(Rank);
}

// The executing thread alone writes, so plain additions do; readers only need whole numbers.
void Add(std::atomic<int64_t>& total, int64_t change) {
  total.store(total.load(std::memory_order_relaxed) + change, std::memory_order_relaxed);
}

void Add(std::atomic<int64_t>& total, std::atomic<int64_t>& peak, int64_t change) {
  Add(total, change);
  const int64_t now = total.load(std::memory_order_relaxed);
  if (now > peak.load(std::memory_order_relaxed)) peak.store(now, std::memory_order_relaxed);
}

Status NamesNothing() { return InvalidArgument("a register id of generation 0 names nothing"); }

}  // namespace

RegisterFile::~RegisterFile() {
  Add(totals_->live_registers, -static_cast<int64_t>(live_registers_));
  Add(totals_->tensor_bytes, -static_cast<int64_t>(tensor_bytes_));
}

Status RegisterFile::Write(RegisterId id, Value&& value, LayoutPtr layout) {
  if (id.IsNone()) [[unlikely]]
    return NamesNothing();
  if (id.index >= limits_.registers) [[unlikely]] {
    return ResourceExhausted("register ", id, " is beyond the limit of ", limits_.registers,
                             " registers per session; free some, or raise the limit "
                             "(max_registers)");
  }
  Slot& slot = FindOrMake(id.index);
  if (id.generation < slot.generation) [[unlikely]] {
    return FailedPrecondition("register ", id, " is out of date: its place was given to ",
                              RegisterId{id.index, slot.generation});
  }
  if (id.generation == slot.generation && !slot.live) [[unlikely]] {
    return FailedPrecondition("register ", id, " was freed and cannot be written again");
  }
  const size_t bytes = HeldBytes(value);
  const size_t wanted = bytes + LayoutBytes(layout);
  const size_t had = slot.held_bytes + LayoutBytes(slot.layout);
  if (wanted > had) LOCKSTEP_RETURN_IF_ERROR(CheckRoom(wanted - had));
  slot.generation = id.generation;
  generations_ = std::max(generations_, id.generation);
  SetValue(slot, true, std::move(value), bytes);
  if (layout != nullptr) ReplaceLayout(slot, std::move(layout));
  return OkStatus();
}

Status RegisterFile::SetLayout(RegisterId id, LayoutPtr layout) {
  const Slot* const found = Find(id.index);
  if (found == nullptr || found->generation != id.generation || !found->live) return OkStatus();
  const size_t wanted = LayoutBytes(layout);
  const size_t had = LayoutBytes(found->layout);
  if (wanted > had) LOCKSTEP_RETURN_IF_ERROR(CheckRoom(wanted - had));
  ReplaceLayout(FindOrMake(id.index), std::move(layout));
  return OkStatus();
}

void RegisterFile::ReplaceLayout(Slot& slot, LayoutPtr&& layout) {
  held_bytes_ += LayoutBytes(layout) - LayoutBytes(slot.layout);
  layouts_ += size_t{layout != nullptr} - size_t{slot.layout != nullptr};
  slot.layout = std::move(layout);
}

Status RegisterFile::CheckRoom(size_t more) const {
  const size_t held = held_bytes();
  if (more <= limits_.bytes && held <= limits_.bytes - more) [[likely]]
    return OkStatus();
  const size_t lasting = lasting_bytes_->load(std::memory_order_relaxed);
  const std::string of_plans =
      lasting == 0 ? ""
                   : " (" + RoundedSize(lasting) +
                         " of it in plans, whose memory their outputs keep when they are freed: "
                         "free these, too; lockstep.copy makes copies that do not)";
  return ResourceExhausted("the session's registers hold ", RoundedSize(held), of_plans,
                           " on this rank, and ", RoundedSize(more),
                           " more are beyond its limit of ", RoundedSize(limits_.bytes),
                           "; free some, or raise the limit (", limits_.bytes_setting, ")");
}

Status RegisterFile::KeepBeside(size_t bytes) {
  if (bytes > bytes_beside_) LOCKSTEP_RETURN_IF_ERROR(CheckRoom(bytes - bytes_beside_));
  RecordBeside(bytes);
  return OkStatus();
}

void RegisterFile::RecordBeside(size_t bytes) {
  held_bytes_ += bytes - bytes_beside_;
  bytes_beside_ = bytes;
}

Status RegisterFile::Kill(RegisterId id) {
  if (id.IsNone()) [[unlikely]]
    return NamesNothing();
  if (id.index >= limits_.registers) return OkStatus();  // every write there was refused
  Slot& slot = FindOrMake(id.index);
  if (id.generation < slot.generation || (id.generation == slot.generation && !slot.live))
      [[unlikely]] {
    return WhyUnreadable(id, &slot);
  }
  slot.generation = id.generation;
  generations_ = std::max(generations_, id.generation);
  SetValue(slot, false, Value(), 0);
  return OkStatus();
}

void RegisterFile::KillAllBut(const std::vector<RegisterId>& kept) {
  const std::set<RegisterId> spared(kept.begin(), kept.end());
  for (uint32_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    if (chunks_[chunk] == nullptr) continue;
    for (uint32_t i = 0; i < kChunkSlots; ++i) {
      Slot& slot = (*chunks_[chunk])[i];
      const RegisterId id{(chunk << kChunkBits) + i, slot.generation};
      if (slot.live && !spared.contains(id)) SetValue(slot, false, Value(), 0);
    }
  }
}

RegisterFile::Slot& RegisterFile::FindOrMake(uint32_t index) {
  const uint32_t chunk = index >> kChunkBits;
  if (chunk >= chunks_.size()) [[unlikely]]
    chunks_.resize(chunk + 1);
  if (chunks_[chunk] == nullptr) [[unlikely]]
    chunks_[chunk] = std::make_unique<Chunk>();
  return (*chunks_[chunk])[index & (kChunkSlots - 1)];
}

void RegisterFile::SetValue(Slot& slot, bool live, Value&& value, size_t held_bytes) {
  const int64_t more_registers = int64_t{live} - int64_t{slot.live};
  const auto more_bytes =
      static_cast<int64_t>(TensorBytes(value)) - static_cast<int64_t>(TensorBytes(slot.value));
  held_bytes_ += held_bytes - slot.held_bytes;
  slot.held_bytes = held_bytes;
  slot.live = live;
  slot.value = std::move(value);
  if (slot.layout != nullptr) [[unlikely]]
    ReplaceLayout(slot, nullptr);
  if (more_registers != 0) {
    live_registers_ = static_cast<size_t>(static_cast<int64_t>(live_registers_) + more_registers);
    Add(totals_->live_registers, totals_->peak_registers, more_registers);
  }
  if (more_bytes != 0) {
    tensor_bytes_ = static_cast<size_t>(static_cast<int64_t>(tensor_bytes_) + more_bytes);
    Add(totals_->tensor_bytes, totals_->peak_tensor_bytes, more_bytes);
  }
}

Status RegisterFile::WhyUnreadable(RegisterId id, const Slot* slot) {
  if (id.IsNone()) return NamesNothing();
  if (slot == nullptr || slot->generation < id.generation) {
    return NotFound("register ", id, " was never written");
  }
  if (slot->generation == id.generation) return NotFound("register ", id, " was freed");
  const RegisterId newer{id.index, slot->generation};
  if (!slot->live) return NotFound("register ", id, " was freed, and so was ", newer, " after it");
  return NotFound("register ", id, " was freed; its place now holds ", newer, "'s value");
}

StatusOr<RegisterFile*> SessionRegisters::Open(SessionId session) {
  auto& file = files_[session.value];
  if (file != nullptr) return AlreadyExists("session ", session, " is open already");
  file = std::make_unique<RegisterFile>(&totals_, limits_);
  return file.get();
}

StatusOr<RegisterFile*> SessionRegisters::Find(SessionId session) const {
  const auto found = files_.find(session.value);
  if (found == files_.end()) return NotFound("session ", session, " is not open");
  return found->second.get();
}

Status SessionRegisters::Close(SessionId session) {
  const auto found = files_.find(session.value);
  if (found == files_.end()) return NotFound("session ", session, " is not open");
  // Values may run code of modules when they go; take the file out of the map first.
  const std::unique_ptr<RegisterFile> file = std::move(found->second);
  files_.erase(found);
  return OkStatus();
}

}  // namespace lockstep::registers
