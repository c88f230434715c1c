#include "runtime/client/register_names.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <memory>
#include <utility>

namespace lockstep::client {

RegisterNames* RegisterNames::Continue(SessionId session, uint32_t generations) {
  auto* const names = new RegisterNames(session);
  names->base_ = generations;
  names->generations_ = generations;
  return names;
}

RegisterName& RegisterNames::At(uint32_t index) {
  while (names_.size() <= index) {
    RegisterName& name = names_.emplace_back();
    name.index = static_cast<uint32_t>(names_.size() - 1);
    name.generation = base_;
    name.owner = this;
    if (name.index < index) free_.push_back(&name);
  }
  return names_[index];
}

DRef RegisterNames::Adopt(RegisterId id, uint64_t named_by) {
  RegisterName& name = At(id.index);
  const bool is_held = name.references.load(std::memory_order_relaxed) > 0;
  // A name of the same place from before: the register that it meant is no more.
  if (is_held && name.generation > id.generation) return DRef();
  name.generation = id.generation;
  name.named_by = named_by;
  // Another name of the same register.
  if (is_held) {
    name.references.fetch_add(1, std::memory_order_relaxed);
    return DRef(&name);
  }
  name.is_found = true;
  // To those of another client.
  name.is_known_to_functions.store(true, std::memory_order_relaxed);
  ++live_;
  std::erase(free_, &name);
  name.references.store(1, std::memory_order_relaxed);
  return DRef(&name);
}

DRef RegisterNames::Acquire(uint64_t command, const NewRegister& made) {
  ++live_;
  RegisterName* name = nullptr;
  if (!free_.empty()) {
    name = free_.back();
    free_.pop_back();
  } else {
    name = &At(static_cast<uint32_t>(names_.size()));
  }
  // One that was adopted is of another client's time.
  name->generation = std::max(name->generation, base_) + 1;
  if (name->generation > generations_.load(std::memory_order_relaxed)) {
    generations_.store(name->generation, std::memory_order_relaxed);
  }
  name->named_by = command;
  name->layout = made.layout;
  name->holders = made.holders;
  name->is_found = made.is_told_by_workers;
  name->is_known_to_functions.store(false, std::memory_order_relaxed);
  name->references.store(1, std::memory_order_relaxed);
  return DRef(name);
}

void RegisterNames::SetLayout(const DRef& ref, std::shared_ptr<const plan::Layout> layout) {
  DropRelaid(ref);
  std::lock_guard lock(mutex_);
  ref.name_->layout = std::move(layout);
  ref.name_->holders.reset();
  ref.name_->is_found = false;
}

bool RegisterNames::ForgetLayout(const DRef& ref) {
  DropRelaid(ref);
  std::shared_ptr<const plan::Layout> dropped;  // when nothing is locked any more
  std::lock_guard lock(mutex_);
  std::swap(dropped, ref.name_->layout);
  ref.name_->holders.reset();
  return std::exchange(ref.name_->is_found, false) || dropped != nullptr;
}

void RegisterNames::SetToldLayout(const DRef& ref, std::shared_ptr<const plan::Layout> layout) {
  std::lock_guard lock(mutex_);
  if (!std::exchange(ref.name_->is_found, false)) return;
  ref.name_->layout = std::move(layout);
}

bool RegisterNames::MayHaveForeignLayout(const DRef& ref) const {
  std::lock_guard lock(mutex_);
  return ref.name_->is_found;
}

std::shared_ptr<const plan::Layout> RegisterNames::LayoutOf(const DRef& ref) const {
  std::lock_guard lock(mutex_);
  return ref.name_->layout;
}

std::shared_ptr<const std::vector<Rank>> RegisterNames::HoldersOf(const DRef& ref) const {
  std::lock_guard lock(mutex_);
  return ref.name_->holders;
}

WriteCount RegisterNames::WritesOf(const RegisterName& name) const {
  const bool is_shared = name.is_known_to_functions.load(std::memory_order_relaxed);
  return {name.writes, is_shared ? shared_writes_ : 0};
}

WriteCount RegisterNames::WritesTo(const DRef& ref) {
  // From now on writes count.
  has_relaid_.store(true, std::memory_order_relaxed);
  std::lock_guard lock(mutex_);
  return WritesOf(*ref.name_);
}

void RegisterNames::KeepRelaid(const DRef& ref, const DRef& copy, Generation generation,
                               WriteCount writes) {
  std::vector<RelaidCopy> dropped;  // when nothing is locked any more
  std::lock_guard lock(mutex_);
  if (WritesOf(*ref.name_) != writes) return;
  std::vector<RelaidCopy>& relaid = ref.name_->relaid;
  // Of no use any more: those that a reset or a write has overtaken, and the oldest of too many.
  const auto useless = std::stable_partition(
      relaid.begin(), relaid.end(),
      [&](const RelaidCopy& old) { return old.generation == generation && old.writes == writes; });
  dropped.assign(std::make_move_iterator(useless), std::make_move_iterator(relaid.end()));
  relaid.erase(useless, relaid.end());
  if (relaid.size() >= kMostRelaid) {
    dropped.push_back(std::move(relaid.front()));
    relaid.erase(relaid.begin());
  }
  relaid.push_back({copy.name_->layout, generation, writes, copy});
}

DRef RegisterNames::FindRelaid(const DRef& ref, const plan::Layout& layout,
                               Generation generation) const {
  std::lock_guard lock(mutex_);
  const WriteCount writes = WritesOf(*ref.name_);
  for (const RelaidCopy& copy : ref.name_->relaid) {
    if (copy.generation == generation && copy.writes == writes && *copy.layout == layout) {
      return copy.ref;
    }
  }
  return DRef();
}

void RegisterNames::DropRelaid(const DRef& ref) {
  if (!has_relaid_.load(std::memory_order_relaxed)) return;
  std::vector<RelaidCopy> dropped;  // when nothing is locked any more
  std::lock_guard lock(mutex_);
  ++ref.name_->writes;
  if (ref.name_->is_known_to_functions.load(std::memory_order_relaxed)) ++shared_writes_;
  std::swap(dropped, ref.name_->relaid);
}

void RegisterNames::CountSharedWrite() {
  std::lock_guard lock(mutex_);
  ++shared_writes_;
}

void RegisterNames::Dropped(RegisterName* name) {
  std::vector<RelaidCopy> relaid;  // dropped when this is done
  std::swap(relaid, name->relaid);
  RegisterName* last = dropped_.load(std::memory_order_relaxed);
  do {
    if (last == &end_marker_) {
      if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
      return;
    }
    name->next_dropped = last;
  } while (!dropped_.compare_exchange_weak(last, name, std::memory_order_release,
                                           std::memory_order_relaxed));
  // Another thread may have ended the session, and deleted this, since.
}

void RegisterNames::CollectDropped(RegisterName* last) {
  for (; last != nullptr; last = last->next_dropped) {
    kills_.push_back(last);
    --live_;
  }
}

void RegisterNames::TakeKills(std::vector<uint64_t>* kills, size_t limit) {
  CollectDropped(dropped_.exchange(nullptr, std::memory_order_acquire));
  for (; limit > 0 && !kills_.empty(); --limit) {
    RegisterName* const name = kills_.back();
    kills_.pop_back();
    kills->push_back(RegisterId{name->index, name->generation}.Packed());
    // An index whose generations are used up is never used again.
    if (name->generation < std::numeric_limits<uint32_t>::max()) free_.push_back(name);
  }
}

void RegisterNames::Unref() {
  CollectDropped(dropped_.exchange(&end_marker_, std::memory_order_acq_rel));
  // Those that were dropped since then have been subtracted already. So it is 0 once: here, or with
  // the last of them.
  const int64_t live = live_;
  if (left_.fetch_add(live, std::memory_order_acq_rel) + live == 0) delete this;
}

}  // namespace lockstep::client

namespace lockstep {

DRef::DRef(const DRef& other) : name_(other.name_) {
  if (name_ != nullptr) name_->references.fetch_add(1, std::memory_order_relaxed);
}

DRef::~DRef() {
  if (name_ != nullptr && name_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    name_->owner->Dropped(name_);
  }
}

RegisterId DRef::id() const {
  return name_ == nullptr ? RegisterId{} : RegisterId{name_->index, name_->generation};
}

SessionId DRef::session() const { return name_ == nullptr ? SessionId{} : name_->owner->session(); }

DRef::operator Value() const {
  return Value(RegisterRef{session(), id(), std::make_shared<const DRef>(*this)});
}

}  // namespace lockstep
