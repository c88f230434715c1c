// The names of a session's registers: which are free, which are held, which are to be killed.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/client/dref.h"
#include "runtime/plan/layout.h"

namespace lockstep::client {

class RegisterNames;

// What may have written to a register's tensor so far, as far as this client does it.
struct WriteCount {
  uint64_t own = 0;     // through this name
  uint64_t shared = 0;  // by functions, or through another name that functions have seen

  bool operator==(const WriteCount&) const = default;
};

// The same tensor in another layout, in a register of its own.
struct RelaidCopy {
  std::shared_ptr<const plan::Layout> layout;
  Generation generation;  // of the session, in which it was made
  WriteCount writes;      // before it was made
  DRef ref;
};

// What is known of how the register lies that a command makes.
struct NewRegister {
  std::shared_ptr<const plan::Layout> layout = nullptr;  // null: it was not said
  bool is_told_by_workers = false;                       // who know it, when they are asked
  // Where each worker has its own: the ranks that have any, ascending; null: all may.
  std::shared_ptr<const std::vector<Rank>> holders = nullptr;
};

// What the copies of one DRef share.
struct RegisterName {
  std::atomic<uint32_t> references{0};
  RegisterName* next_dropped = nullptr;  // the one that was dropped before
  uint32_t index = 0;
  uint32_t generation = 0;
  uint64_t named_by = 0;  // the command that gives the register its first value
  RegisterNames* owner = nullptr;
  std::shared_ptr<const plan::Layout> layout;        // null: it was not said
  std::shared_ptr<const std::vector<Rank>> holders;  // null: all ranks may have any
  std::vector<RelaidCopy> relaid;                    // of what it holds, the last one last
  uint64_t writes = 0;
  // A function was given it, or has made it: its memory may be that of other registers too, and the
  // function may have kept it, to write to it in another call.
  std::atomic<bool> is_known_to_functions{false};
  // Another client's, or a fragment's: the workers may know a layout that was not said here.
  bool is_found = false;
};

// Chooses ids from a free list, so that a call needs no answer to know its result's name. A name
// that is dropped goes onto the kill list; its index is used again, under the next generation, once
// the kill list has been taken for a batch.
//
// Threads: DRefs are dropped, and what is known of them is asked and said, by any thread. Names are
// made and kills taken under the session's lock: for its result a call locks nothing more.
// Ownership: lives until the session and the last DRef are gone (Unref).
class RegisterNames {
 public:
  static RegisterNames* Create(SessionId session) { return new RegisterNames(session); }
  // Of a session that other clients have had: `generations` is the highest that any of them used.
  // Names that are made here are above it.
  static RegisterNames* Continue(SessionId session, uint32_t generations);
  RegisterNames(const RegisterNames&) = delete;
  RegisterNames& operator=(const RegisterNames&) = delete;

  // A name that is not in use, for what the command of this number makes. Needs the session's lock.
  DRef Acquire(uint64_t command, const NewRegister& made = {});
  // Another client's name, which that command gave its first value; before any is acquired. Null if
  // a later one of the same index is adopted already.
  DRef Adopt(RegisterId id, uint64_t named_by);
  // How what the register holds lies on the workers, as far as it is known here; null: it is not.
  // It holds something else than before: what was kept of it in other layouts is dropped.
  void SetLayout(const DRef& ref, std::shared_ptr<const plan::Layout> layout);
  // The same with none; true if it may have one on the workers.
  bool ForgetLayout(const DRef& ref);
  std::shared_ptr<const plan::Layout> LayoutOf(const DRef& ref) const;
  // The ranks that have any of it, until SetLayout(); null: all may.
  std::shared_ptr<const std::vector<Rank>> HoldersOf(const DRef& ref) const;
  // Whether it is that very one: quicker than to compare two.
  bool HasLayout(const DRef& ref, const plan::Layout* layout) const {
    std::lock_guard lock(mutex_);
    return ref.name_->layout.get() == layout;
  }
  // True if the workers may know it: of a register that was adopted, or of which that is expected,
  // until it is set here, or they have told it.
  bool MayHaveForeignLayout(const DRef& ref) const;
  // What the workers know of it; null: nothing. They do not come to know more by themselves: they
  // need not be asked again, as long as this name is held. Of no effect if it was set meanwhile.
  void SetToldLayout(const DRef& ref, std::shared_ptr<const plan::Layout> layout);
  // Before a copy of it is made in another layout.
  WriteCount WritesTo(const DRef& ref);
  // Keeps `copy`, whose layout is known, with `ref`, which it is a copy of: until that is dropped,
  // or may hold something else, as it may already if it was written to since `writes`. The oldest
  // of too many goes.
  static constexpr size_t kMostRelaid = 4;
  void KeepRelaid(const DRef& ref, const DRef& copy, Generation generation, WriteCount writes);
  // One of that generation and layout; null: none is kept.
  DRef FindRelaid(const DRef& ref, const plan::Layout& layout, Generation generation) const;
  // What the register holds may be written to: none is kept of it any more. Where threads share a
  // session, before the command that writes is issued, and after it: a copy that is made between
  // the two may be older.
  void DropRelaid(const DRef& ref);
  // A function is called, which may write to all that functions were ever given, or have made.
  // Before and after, as DropRelaid().
  void NoteFunctionCall() {
    if (has_relaid_.load(std::memory_order_relaxed)) CountSharedWrite();
  }
  void NoteKnownToFunctions(const DRef& given) {
    given.name_->is_known_to_functions.store(true, std::memory_order_relaxed);
  }
  // The highest generation of any name.
  uint32_t generations() const { return generations_.load(std::memory_order_relaxed); }
  // Moves at most `limit` names of the kill list to the end of `kills` (packed ids); their indices
  // may be used again by commands that come later. Needs the session's lock.
  void TakeKills(std::vector<uint64_t>* kills, size_t limit);
  // The session is gone: nothing is killed any more. Once.
  void Unref();

  SessionId session() const { return session_; }

  // Its last DRef is gone.
  void Dropped(RegisterName* name);

 private:
  explicit RegisterNames(SessionId session) : session_(session) {}
  ~RegisterNames() = default;

  RegisterName& At(uint32_t index);
  // Moves those that were dropped to kills_.
  void CollectDropped(RegisterName* last);
  void CountSharedWrite();
  // With mutex_ held.
  WriteCount WritesOf(const RegisterName& name) const;

  const SessionId session_;
  uint32_t base_ = 0;  // generations begin above
  std::atomic<uint32_t> generations_{0};
  std::atomic<bool> has_relaid_{false};  // any was ever kept, or is being made
  mutable std::mutex mutex_;             // over what is known of registers
  uint64_t shared_writes_ = 0;

  // Under the session's lock.
  std::deque<RegisterName> names_;    // by index; addresses are stable
  std::vector<RegisterName*> free_;   // may be acquired
  std::vector<RegisterName*> kills_;  // dropped, and not yet told to the workers
  int64_t live_ = 0;                  // acquired or adopted, and not yet in kills_

  // Dropped, and not yet in kills_: a list, the last one first; &end_marker_ after the session.
  std::atomic<RegisterName*> dropped_{nullptr};
  RegisterName end_marker_;
  // Once the session is gone, the live names that are left; before, 0.
  std::atomic<int64_t> left_{0};
};

}  // namespace lockstep::client
