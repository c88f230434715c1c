// The handshakes of runtime/collective/shm under C++'s memory model, every interleaving and every
// value that a load may return: on arm64 as well as here. Found by this: Team::Abandon() needs a
// fence behind its store.
//
// Needs Relacy, which nothing else here does, so its target runs only where it is named:
//
//     apt-get install relacy-dev
//     bazel test //tests/models:shm_handshakes_test
//
// Tensors are modelled as relaxed atomics: that one rank may read what another writes is what these
// handshakes are for, and what is read then must not count.
#include <cstdio>

#include <relacy/relacy.hpp>

namespace {

using Word = rl::atomic<unsigned>;

// Team::Leave() and Abandon(), by a rank that then uses its tensor for something else; its peer is
// in the middle of reading that, up to Team::FinishPhase(). `has_fence`: see Abandon().
template <bool has_fence>
struct AbandonedReader : rl::test_suite<AbandonedReader<has_fence>, 2> {
  Word left, touching, abandoned, tensor;

  void before() {
    left($) = 0;
    touching($) = 1;
    abandoned($) = 0;
    tensor($) = 1;
  }
  void thread(unsigned rank) { rank == 0 ? Leave() : Read(); }

  void Leave() {
    left($).store(1, rl::mo_seq_cst);
    rl::atomic_thread_fence(rl::mo_seq_cst, $);
    if (touching($).load(rl::mo_seq_cst) != 0) {
      abandoned($).store(1, rl::mo_seq_cst);
      if (has_fence) rl::atomic_thread_fence(rl::mo_release, $);
    }
    tensor($).store(2, rl::mo_relaxed);
  }
  void Read() {
    const unsigned read = tensor($).load(rl::mo_relaxed);
    rl::atomic_thread_fence(rl::mo_acquire, $);
    if (abandoned($).load(rl::mo_relaxed) != 0) return;  // its operation fails
    touching($).store(0, rl::mo_release);
    RL_ASSERT(read == 1);
  }
};

// Team::BeginTouching() against Leave(): the one that leaves waits for all that touch.
struct BeginAgainstLeave : rl::test_suite<BeginAgainstLeave, 2> {
  Word left, touching, tensor;

  void before() {
    left($) = 0;
    touching($) = 0;
    tensor($) = 1;
  }
  void thread(unsigned rank) { rank == 0 ? Leave() : Read(); }

  void Leave() {
    left($).store(1, rl::mo_seq_cst);
    rl::atomic_thread_fence(rl::mo_seq_cst, $);
    if (touching($).load(rl::mo_seq_cst) == 0) tensor($).store(2, rl::mo_relaxed);
  }
  void Read() {
    touching($).store(1, rl::mo_seq_cst);
    if (left($).load(rl::mo_seq_cst) != 0) return;
    const unsigned read = tensor($).load(rl::mo_relaxed);
    touching($).store(0, rl::mo_release);
    RL_ASSERT(read == 1);
  }
};

// Mailbox::Incoming::Step() against a sender that leaves, and waits for it or gives that up.
struct MessageAgainstLeave : rl::test_suite<MessageAgainstLeave, 2> {
  Word left, reading, taken, tensor;

  void before() {
    left($) = 0;
    reading($) = 0;
    taken($) = 0;
    tensor($) = 1;
  }
  void thread(unsigned rank) { rank == 0 ? Leave() : Receive(); }

  void Leave() {
    left($).store(1, rl::mo_seq_cst);
    rl::atomic_thread_fence(rl::mo_seq_cst, $);
    (void)(reading($).load(rl::mo_seq_cst) <= taken($).load(rl::mo_seq_cst));
    tensor($).store(2, rl::mo_relaxed);
  }
  void Receive() {
    reading($).store(1, rl::mo_seq_cst);
    if (left($).load(rl::mo_seq_cst) != 0) return;
    const unsigned read = tensor($).load(rl::mo_relaxed);
    rl::atomic_thread_fence(rl::mo_acquire, $);
    if (left($).load(rl::mo_seq_cst) != 0) return;
    taken($).store(1, rl::mo_release);
    RL_ASSERT(read == 1);
  }
};

// Waiter::Sleep() against Team::Notify(): a rank that sleeps is woken.
struct SleepAgainstNotify : rl::test_suite<SleepAgainstNotify, 2> {
  Word published, waiting_for, bell;
  bool sleeps = false;
  bool rang = false;
  unsigned heard = 0;

  void before() {
    published($) = 0;
    waiting_for($) = 0;
    bell($) = 0;
  }
  void thread(unsigned rank) { rank == 0 ? Notify() : FallAsleep(); }

  void Notify() {
    published($).store(1, rl::mo_release);
    rl::atomic_thread_fence(rl::mo_seq_cst, $);
    if (waiting_for($).load(rl::mo_relaxed) == 0) return;
    bell($).fetch_add(1, rl::mo_seq_cst);
    rang = true;
  }
  void FallAsleep() {
    heard = bell($).load(rl::mo_acquire);
    waiting_for($).store(1, rl::mo_relaxed);
    rl::atomic_thread_fence(rl::mo_seq_cst, $);
    sleeps = published($).load(rl::mo_acquire) == 0;
  }
  // The futex does not let it sleep on a bell that has moved since.
  void after() { RL_ASSERT(!sleeps || (rang && heard == 0)); }
};

// Team::Meet() twice: a slot is filled again only when its last reader is through with it.
struct TwoMeetings : rl::test_suite<TwoMeetings, 2> {
  Word seq[2];
  rl::var<unsigned> slot[2][2];  // by rank and parity; plain memory

  void before() {
    for (unsigned rank = 0; rank < 2; ++rank) seq[rank]($) = 0;
  }
  void thread(unsigned rank) {
    for (unsigned n = 1; n <= 3; ++n) {
      slot[rank][n % 2]($) = n;
      seq[rank]($).store(n, rl::mo_release);
      // (The rank that has not come is not waited for, but asked once: all orders are tried.)
      if (seq[1 - rank]($).load(rl::mo_acquire) < n) return;
      RL_ASSERT(slot[1 - rank][n % 2]($) == n);
    }
  }
};

template <typename Model>
bool Holds(const char* name) {
  rl::test_params params;
  params.search_type = rl::sched_full;
  params.context_bound = 6;
  const bool holds = rl::simulate<Model>(params);
  std::printf("%s: %s\n", name, holds ? "holds" : "VIOLATED");
  return holds;
}

}  // namespace

int main() {
  const bool found = !Holds<AbandonedReader<false>>("an abandoned reader, without the fence");
  const bool all = Holds<AbandonedReader<true>>("an abandoned reader") &
                   Holds<BeginAgainstLeave>("BeginTouching() against Leave()") &
                   Holds<MessageAgainstLeave>("a message against Leave()") &
                   Holds<SleepAgainstNotify>("Sleep() against Notify()") &
                   Holds<TwoMeetings>("slots of Meet()");
  return found && all ? 0 : 1;
}
