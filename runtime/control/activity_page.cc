#include "runtime/control/activity_page.h"

#include <time.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "runtime/base/shared_segment.h"

namespace lockstep::control {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

// A tenth of what the exact clock costs; a few milliseconds coarse.
int64_t CoarseNanos() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// The bytes of `text` behind its last whole word; there are some. Without a copy of a length that
// the compiler does not know, which would cost more than all the rest.
uint64_t LastWord(std::string_view text) {
  const size_t count = text.size() % sizeof(uint64_t);
  uint64_t word = 0;
  if (text.size() > sizeof word) {
    std::memcpy(&word, text.data() + text.size() - sizeof word, sizeof word);
    if constexpr (std::endian::native == std::endian::little) {
      return word >> (8 * (sizeof word - count));
    }
    return word << (8 * (sizeof word - count));
  }
  char bytes[sizeof word] = {};
  for (size_t i = 0; i < count; ++i) bytes[i] = text[i];
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

}  // namespace

template <size_t kBytes>
void ActivityPage::Text<kBytes>::Write(std::string_view text) {
  const size_t length = std::min(text.size(), kBytes);
  length_.store(static_cast<uint32_t>(length), kRelaxed);
  size_t i = 0;
  for (; (i + 1) * sizeof(uint64_t) <= length; ++i) {
    uint64_t word;
    std::memcpy(&word, text.data() + i * sizeof word, sizeof word);
    words_[i].store(word, kRelaxed);
  }
  if (i * sizeof(uint64_t) < length) words_[i].store(LastWord(text.substr(0, length)), kRelaxed);
}

template <size_t kBytes>
std::string ActivityPage::Text<kBytes>::Read() const {
  char bytes[kBytes];
  for (size_t i = 0; i < words_.size(); ++i) {
    const uint64_t word = words_[i].load(kRelaxed);
    std::memcpy(bytes + i * sizeof word, &word, sizeof word);
  }
  // Another process may have written any length.
  return std::string(bytes, std::min<size_t>(length_.load(kRelaxed), kBytes));
}

StatusOr<std::shared_ptr<ActivityPage>> ActivityPage::Create(const std::string& name) {
  LOCKSTEP_ASSIGN_OR_RETURN(auto segment, SharedSegment::Create(name, sizeof(ActivityPage)));
  LOCKSTEP_RETURN_IF_ERROR(segment->Reserve(sizeof(ActivityPage)));
  auto* const page = new (segment->data()) ActivityPage;
  const std::shared_ptr<SharedSegment> held = std::move(segment);
  return std::shared_ptr<ActivityPage>(held, page);
}

StatusOr<std::shared_ptr<const ActivityPage>> ActivityPage::Open(const std::string& name) {
  LOCKSTEP_ASSIGN_OR_RETURN(auto segment, SharedSegment::Open(name));
  const auto* const page = reinterpret_cast<const ActivityPage*>(segment->data());
  if (segment->capacity_bytes() < sizeof(ActivityPage) || page->layout_ != kLayout) {
    return FailedPrecondition(name, " is no page of activity of this version");
  }
  const std::shared_ptr<SharedSegment> held = std::move(segment);
  return std::shared_ptr<const ActivityPage>(held, page);
}

void ActivityPage::Launch(SessionId session, uint64_t command) {
  Bump(launched_);
  version_.store(version_.load(kRelaxed) + 1, kRelaxed);
  std::atomic_thread_fence(std::memory_order_release);
  kind_.store(Kind::kCommand, kRelaxed);
  session_.store(session.value, kRelaxed);
  command_.store(command, kRelaxed);
  began_nanos_.store(CoarseNanos(), kRelaxed);
  first_rank_.store(0, kRelaxed);
  last_rank_.store(std::numeric_limits<Rank>::max(), kRelaxed);
  name_.Clear();
  place_.Clear();
  version_.store(version_.load(kRelaxed) + 1, std::memory_order_release);
}

void ActivityPage::Show(SessionId session, uint64_t command, std::string_view what,
                        std::string_view place, Kind kind, Rank first, Rank last,
                        std::chrono::steady_clock::time_point since) {
  version_.store(version_.load(kRelaxed) + 1, kRelaxed);
  std::atomic_thread_fence(std::memory_order_release);
  session_.store(session.value, kRelaxed);
  command_.store(command, kRelaxed);
  // libstdc++'s steady clock is CLOCK_MONOTONIC.
  began_nanos_.store(
      std::chrono::duration_cast<std::chrono::nanoseconds>(since.time_since_epoch()).count(),
      kRelaxed);
  first_rank_.store(first, kRelaxed);
  last_rank_.store(last, kRelaxed);
  version_.store(version_.load(kRelaxed) + 1, std::memory_order_release);
  Name(what, kind);
  At(place);
}

void ActivityPage::Among(Rank first, Rank last) {
  version_.store(version_.load(kRelaxed) + 1, kRelaxed);
  std::atomic_thread_fence(std::memory_order_release);
  first_rank_.store(first, kRelaxed);
  last_rank_.store(last, kRelaxed);
  version_.store(version_.load(kRelaxed) + 1, std::memory_order_release);
}

void ActivityPage::At(std::string_view place) {
  version_.store(version_.load(kRelaxed) + 1, kRelaxed);
  std::atomic_thread_fence(std::memory_order_release);
  place_.Write(place.substr(place.size() - std::min(place.size(), kPlaceBytes)));
  version_.store(version_.load(kRelaxed) + 1, std::memory_order_release);
}

void ActivityPage::Name(std::string_view what, Kind kind) {
  version_.store(version_.load(kRelaxed) + 1, kRelaxed);
  std::atomic_thread_fence(std::memory_order_release);
  kind_.store(kind, kRelaxed);
  name_.Write(what);
  version_.store(version_.load(kRelaxed) + 1, std::memory_order_release);
}

void ActivityPage::Complete() {
  kind_.store(Kind::kNone, kRelaxed);
  Bump(completed_);
}

WorkerActivity ActivityPage::Now() const {
  // The writer is never in its section for longer than it takes to be put aside by the scheduler;
  // should it be, what is read half is dropped.
  constexpr int kTries = 1000;
  WorkerActivity whole;
  for (int i = 0; i < kTries; ++i) {
    WorkerActivity snapshot;
    const uint64_t version = version_.load(std::memory_order_acquire);
    const Kind kind = kind_.load(kRelaxed);
    snapshot.session = SessionId(session_.load(kRelaxed));
    snapshot.command = command_.load(kRelaxed);
    snapshot.first_rank = first_rank_.load(kRelaxed);
    snapshot.last_rank = last_rank_.load(kRelaxed);
    const int64_t began = began_nanos_.load(kRelaxed);
    snapshot.what = name_.Read();
    snapshot.place = place_.Read();
    std::atomic_thread_fence(std::memory_order_acquire);
    if (version % 2 != 0 || version_.load(kRelaxed) != version) continue;
    if (kind == Kind::kCommand || kind == Kind::kCollective) snapshot.kind = kind;
    snapshot.since =
        std::chrono::milliseconds(std::max<int64_t>(CoarseNanos() - began, 0) / 1'000'000);
    whole = std::move(snapshot);
    break;
  }
  // Read last: a command that looks unfinished here was so while the rest was read.
  whole.completed = completed_.load(kRelaxed);
  whole.launched = std::max(launched_.load(kRelaxed), whole.completed);
  whole.received = received_.load(kRelaxed);
  whole.registers = registers_.load(kRelaxed);
  whole.tensor_bytes = tensor_bytes_.load(kRelaxed);
  whole.collectives = collectives_.load(kRelaxed);
  whole.bus_bytes = bus_bytes_.load(kRelaxed);
  // Another process may write there what it likes.
  constexpr uint64_t kLongest = std::numeric_limits<int64_t>::max() / 4;
  whole.in_collectives = std::chrono::nanoseconds(
      static_cast<int64_t>(std::min(collective_nanos_.load(kRelaxed), kLongest)));
  if (whole.launched == whole.completed) whole.kind = Kind::kNone;
  return whole;
}

}  // namespace lockstep::control
