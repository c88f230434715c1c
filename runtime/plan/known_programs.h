// Programs that a session's workers have been sent, and keep: its client binds them by their keys.
//
// Client and workers each have one, note each program that is bound, in the order of the commands,
// and so always know of the same ones: which are forgotten follows from that order alone.
//
// It lives for one generation of the session. A reset begins it anew on both sides, because a bind
// that was skipped or failed on some rank has left the ranks with different ones; and nothing else
// is needed: after a worker was replaced, and after a controller was started again, every session
// has failed until it is reset (docs/adr/0007, 0008). On the workers another client that attaches
// begins it anew, too: it has sent nothing.
#pragma once

#include <cstddef>

#include "runtime/plan/plan_key.h"
#include "runtime/plan/recently_used.h"

namespace lockstep::plan {

// Threads: one at a time.
class KnownPrograms {
 public:
  // Of one session. A program of more bytes is sent whole each time.
  static constexpr size_t kMaxPrograms = 64;
  static constexpr size_t kMaxBytes = size_t{4} << 20;

  // True if that very program is known: it may be named by its key.
  bool Has(const EncodedProgram& program) const {
    const EncodedProgram* const known = Find(program.key);
    return known != nullptr && *known == program;
  }
  // Null: there is none. Valid until the next call that changes anything.
  const EncodedProgram* Find(const PlanKey& key) const {
    return programs_.Find([&](const EncodedProgram& known) { return known.key == key; });
  }
  // It is bound now, whether it was known or not. Another one of that key is known no more.
  void NoteBound(const EncodedProgram& program) {
    const EncodedProgram bound = program;  // which may be the one that is removed
    programs_.Remove([&](const EncodedProgram& known) { return known.key == bound.key; });
    programs_.Add(bound, bound.size_bytes());
  }
  void Clear() { programs_.Clear(); }

  size_t bytes() const { return programs_.use().bytes; }

 private:
  RecentlyUsed<EncodedProgram> programs_{{kMaxPrograms, kMaxBytes}};
};

}  // namespace lockstep::plan
