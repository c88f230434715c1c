// The rivals of commands by ring: what one host's memory can do for a controller and its workers.
//
// The floor is one word that the controller writes, and one that all workers count up: no message
// at all. The ring carries commands of 150 bytes, written once for all workers, which say in words
// of their own how far they have read; whoever waits yields for a while and then sleeps on a futex.
// Neither knows of order, errors, deadlines, or peers that end.
//
//     shared_ring WORKERS        prints floor_p50_us, sync_p50_us, sync_p99_us, commands_per_s, and
//                                paused_p50_us, with pauses between, and waits that sleep at once
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

#include "tools/bench/report.h"
#include "tools/bench/rival_process.h"

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kLifeSeconds = 60;
constexpr int kMostWorkers = 64;
constexpr int kWarmUps = 300;
constexpr int kCommands = 400'000;
constexpr std::chrono::milliseconds kSyncTime{400};
constexpr std::chrono::milliseconds kYieldFor{2};
constexpr std::chrono::milliseconds kPause{1};

enum class Ask : uint8_t { kNothing, kAnswer, kEnd };
using Command = std::array<uint8_t, 150>;  // the first byte is what it asks for

// A word to wait for, on lines of its own.
struct alignas(128) Word {
  std::atomic<uint32_t> value;
  std::atomic<uint32_t> sleepers;
};

void Futex(std::atomic<uint32_t>& word, int operation, uint32_t value) {
  syscall(SYS_futex, &word, operation, value, nullptr, nullptr, 0);
}

void Wake(Word& word) {
  if (word.sleepers.load() != 0) Futex(word.value, FUTEX_WAKE, kMostWorkers);
}

// Until `is_due` of the word, yielding before it sleeps if `yields`.
template <typename IsDue>
void Await(Word& word, const std::atomic<bool>& yields, IsDue is_due) {
  for (const auto end = Clock::now() + kYieldFor; yields.load() && Clock::now() < end;) {
    if (is_due(word.value.load())) return;
    sched_yield();
  }
  word.sleepers.fetch_add(1);
  for (uint32_t now = word.value.load(); !is_due(now); now = word.value.load()) {
    Futex(word.value, FUTEX_WAIT, now);
  }
  word.sleepers.fetch_sub(1);
}

// What is shared. Numbers count from the beginning, and wrap around alike everywhere.
struct Memory {
  static constexpr uint32_t kSlots = 4096;

  Word floor_asked;
  Word floor_answers;
  Word written;                         // commands
  Word answers;                         // of all workers
  std::array<Word, kMostWorkers> read;  // commands, by worker
  std::atomic<bool> yields{true};
  alignas(128) std::array<std::array<uint8_t, 192>, kSlots> ring;
};

Memory& Share() {
  void* const pages = mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  Require(pages != MAP_FAILED, "map memory");
  return *new (pages) Memory();
}

// Questions by nothing but a word.
constexpr uint32_t kFloorEnd = ~uint32_t{0};

void AnswerFloor(Memory& memory) {
  for (uint32_t last = 0; last != kFloorEnd;) {
    uint32_t asked = memory.floor_asked.value.load();
    for (; asked == last; asked = memory.floor_asked.value.load()) sched_yield();
    last = asked;
    memory.floor_answers.value.fetch_add(1);
  }
}

[[noreturn]] void Work(Memory& memory, int worker) {
  LimitLife(kLifeSeconds);
  AnswerFloor(memory);
  uint32_t executed = 0;
  for (Command command{}; static_cast<Ask>(command[0]) != Ask::kEnd;) {
    Await(memory.written, memory.yields, [&](uint32_t written) { return written != executed; });
    std::memcpy(command.data(), memory.ring[executed % Memory::kSlots].data(), command.size());
    ++executed;
    Word& read = memory.read[static_cast<size_t>(worker)];
    read.value.store(executed);
    Wake(read);
    if (static_cast<Ask>(command[0]) == Ask::kNothing) continue;
    memory.answers.value.fetch_add(1);
    Wake(memory.answers);
  }
  std::_Exit(0);
}

class Writer {
 public:
  Writer(Memory& memory, int workers) : memory_(memory), workers_(workers) {}

  void Send(Ask ask) {
    Command command{};
    command[0] = static_cast<uint8_t>(ask);
    if (sent_ - slowest_ >= Memory::kSlots) AwaitRoom();
    std::memcpy(memory_.ring[sent_ % Memory::kSlots].data(), command.data(), command.size());
    memory_.written.value.store(++sent_);
    Wake(memory_.written);
    if (ask != Ask::kNothing) asked_ += static_cast<uint32_t>(workers_);
  }
  // Waits for the answers of all workers to all that was asked.
  void Gather() {
    Await(memory_.answers, memory_.yields, [&](uint32_t answers) { return answers == asked_; });
  }

 private:
  void AwaitRoom() {
    uint32_t most_behind = 0;
    for (int worker = 0; worker < workers_; ++worker) {
      Word& read = memory_.read[static_cast<size_t>(worker)];
      Await(read, memory_.yields, [&](uint32_t done) { return sent_ - done < Memory::kSlots; });
      most_behind = std::max(most_behind, sent_ - read.value.load());
    }
    slowest_ = sent_ - most_behind;
  }

  Memory& memory_;
  const int workers_;
  uint32_t sent_ = 0;
  uint32_t slowest_ = 0;  // no worker has read less
  uint32_t asked_ = 0;
};

template <typename RoundTrip>
std::vector<double> TimeRoundTrips(RoundTrip round_trip, std::chrono::milliseconds pause = {}) {
  for (int i = 0; i < kWarmUps; ++i) round_trip();
  std::vector<double> micros;
  for (const auto end = Clock::now() + kSyncTime; Clock::now() < end;) {
    if (pause.count() > 0) std::this_thread::sleep_for(pause);
    const auto start = Clock::now();
    round_trip();
    micros.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  return micros;
}

void MeasureFloor(Memory& memory, int workers) {
  uint32_t asked = 0;
  const auto ask = [&](uint32_t number) {
    const uint32_t due = (asked += static_cast<uint32_t>(workers));
    memory.floor_asked.value.store(number);
    while (memory.floor_answers.value.load() != due) sched_yield();
  };
  uint32_t number = 0;
  const std::vector<double> micros = TimeRoundTrips([&] { ask(++number); });
  ask(kFloorEnd);
  std::printf("floor_p50_us %.3f\n", Percentile(micros, 0.5));
}

void MeasureRing(Writer& writer) {
  const std::vector<double> micros = TimeRoundTrips([&] {
    writer.Send(Ask::kAnswer);
    writer.Gather();
  });
  std::printf("sync_p50_us %.3f\nsync_p99_us %.3f\n", Percentile(micros, 0.5),
              Percentile(micros, 0.99));
  const auto start = Clock::now();
  for (int i = 1; i < kCommands; ++i) writer.Send(Ask::kNothing);
  writer.Send(Ask::kAnswer);
  writer.Gather();
  const std::chrono::duration<double> elapsed = Clock::now() - start;
  std::printf("commands_per_s %.0f\n", kCommands / elapsed.count());
}

void MeasurePaused(Memory& memory, Writer& writer) {
  memory.yields.store(false);
  const auto round_trip = [&] {
    writer.Send(Ask::kAnswer);
    writer.Gather();
  };
  std::printf("paused_p50_us %.3f\n", Percentile(TimeRoundTrips(round_trip, kPause), 0.5));
}

int Main(int argc, char** argv) {
  const int workers = argc == 2 ? std::atoi(argv[1]) : 0;
  if (workers < 1 || workers > kMostWorkers) {
    std::fprintf(stderr, "usage: shared_ring WORKERS (1 to %d)\n", kMostWorkers);
    return 2;
  }
  LimitLife(kLifeSeconds);
  Memory& memory = Share();
  for (int worker = 0; worker < workers; ++worker) {
    const pid_t child = fork();
    Require(child >= 0, "fork");
    if (child == 0) Work(memory, worker);
  }
  MeasureFloor(memory, workers);
  Writer writer(memory, workers);
  MeasureRing(writer);
  MeasurePaused(memory, writer);
  writer.Send(Ask::kEnd);
  for (int worker = 0; worker < workers; ++worker) {
    int status = 0;
    Require(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0, "end a worker");
  }
  return 0;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) { return lockstep::bench::Main(argc, argv); }
