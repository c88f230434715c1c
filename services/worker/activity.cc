#include "services/worker/activity.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstring>

namespace lockstep::worker {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

// A tenth of what the exact clock costs; a few milliseconds coarse.
int64_t CoarseNanos() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

void Activity::Launch(SessionId session, uint64_t command) {
  Bump(launched_);
  version_.store(version_.load(kRelaxed) + 1, kRelaxed);
  std::atomic_thread_fence(std::memory_order_release);
  kind_.store(Kind::kCommand, kRelaxed);
  session_.store(session.value, kRelaxed);
  command_.store(command, kRelaxed);
  began_nanos_.store(CoarseNanos(), kRelaxed);
  name_length_.store(0, kRelaxed);
  version_.store(version_.load(kRelaxed) + 1, std::memory_order_release);
}

void Activity::Name(std::string_view what, Kind kind) {
  const size_t length = std::min(what.size(), kNameBytes);
  version_.store(version_.load(kRelaxed) + 1, kRelaxed);
  std::atomic_thread_fence(std::memory_order_release);
  kind_.store(kind, kRelaxed);
  name_length_.store(static_cast<uint32_t>(length), kRelaxed);
  for (size_t i = 0; i * sizeof(uint64_t) < length; ++i) {
    uint64_t word = 0;
    std::memcpy(&word, what.data() + i * sizeof word,
                std::min(sizeof word, length - i * sizeof word));
    name_[i].store(word, kRelaxed);
  }
  version_.store(version_.load(kRelaxed) + 1, std::memory_order_release);
}

void Activity::Complete() {
  kind_.store(Kind::kNone, kRelaxed);
  Bump(completed_);
}

WorkerActivity Activity::Now() const {
  // The writer is never in its section for longer than it takes to be put aside by the scheduler;
  // should it be, what is read half is dropped.
  constexpr int kTries = 1000;
  WorkerActivity snapshot;
  for (int i = 0; i < kTries; ++i) {
    const uint64_t version = version_.load(std::memory_order_acquire);
    snapshot.kind = kind_.load(kRelaxed);
    snapshot.session = SessionId(session_.load(kRelaxed));
    snapshot.command = command_.load(kRelaxed);
    const int64_t began = began_nanos_.load(kRelaxed);
    char name[kNameBytes];
    for (size_t word = 0; word < kNameWords; ++word) {
      const uint64_t bytes = name_[word].load(kRelaxed);
      std::memcpy(name + word * sizeof bytes, &bytes, sizeof bytes);
    }
    const uint32_t length = name_length_.load(kRelaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (version % 2 != 0 || version_.load(kRelaxed) != version) continue;
    snapshot.what.assign(name, length);
    snapshot.since =
        std::chrono::milliseconds(std::max<int64_t>(CoarseNanos() - began, 0) / 1'000'000);
    break;
  }
  // Read last: a command that looks unfinished here was so while the rest was read.
  snapshot.completed = completed_.load(kRelaxed);
  snapshot.launched = std::max(launched_.load(kRelaxed), snapshot.completed);
  snapshot.received = received_.load(kRelaxed);
  if (snapshot.launched == snapshot.completed) snapshot.kind = Kind::kNone;
  return snapshot;
}

}  // namespace lockstep::worker
