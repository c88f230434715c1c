#include "tools/bench/collectives/timing.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "tools/bench/rival_process.h"

namespace lockstep::bench {
namespace {

constexpr size_t kLineBytes = 64;
constexpr int kTrials = 3;
constexpr int kParts = 8;
constexpr double kMaxRepeats = 5000;

// Calls `use` with the elements as unsigned integers of their size.
template <typename Use>
auto WithElements(Element element, void* data, Use&& use) {
  switch (element) {
    case Element::kFloat32:
      return use(static_cast<uint32_t*>(data));
    case Element::kBFloat16:
      return use(static_cast<uint16_t*>(data));
    case Element::kInt8:
      break;
  }
  return use(static_cast<uint8_t*>(data));
}

bool IsInPlace(Kind kind) { return kind == Kind::kAllReduce || kind == Kind::kBroadcast; }

}  // namespace

Timing::Sums& Timing::Sums::operator+=(const Sums& other) {
  operation += other.operation;
  and_reading += other.and_reading;
  whole += other.whole;
  return *this;
}

size_t Timing::InputCount(size_t count) const {
  return operation_.kind == Kind::kAllGather ? count / static_cast<size_t>(ranks_.size()) : count;
}

size_t Timing::ResultCount(size_t count) const {
  return operation_.kind == Kind::kReduceScatter ? count / static_cast<size_t>(ranks_.size())
                                                 : count;
}

void Timing::Run(const std::vector<size_t>& sizes_bytes) {
  const size_t largest_bytes = *std::max_element(sizes_bytes.begin(), sizes_bytes.end());
  input_ = ranks_.Allocate(InputCount(largest_bytes));
  result_ = IsInPlace(operation_.kind) ? input_ : ranks_.Allocate(ResultCount(largest_bytes));
  for (const size_t size : sizes_bytes) Measure(size);
}

void Timing::Measure(size_t size_bytes) {
  const size_t count = size_bytes / SizeBytes(operation_.element);
  Require(IsInPlace(operation_.kind) || count % static_cast<size_t>(ranks_.size()) == 0,
          "each rank has a part of the size");
  Verify(count);
  (void)Repeat(count, 1);
  // The slowest rank's time decides for all how often to repeat. In parts, because a machine that
  // others use may become many times as slow meanwhile.
  const double one = ranks_.Max(Repeat(count, kTrials).whole / kTrials);
  const int part = static_cast<int>(std::clamp(seconds_ / one / kParts, 1.0, kMaxRepeats / kParts));
  Sums sums;
  int repeats = 0;
  for (int i = 0; i < kParts && ranks_.Max(sums.whole) < seconds_; ++i) {
    sums += Repeat(count, part);
    repeats += part;
  }
  const double operation = ranks_.Max(sums.operation) / repeats;
  const double and_reading = ranks_.Max(sums.and_reading) / repeats;
  if (ranks_.rank() != 0) return;
  std::printf("%zu_us %.3f\n%zu_read_us %.3f\n", size_bytes, operation * 1e6, size_bytes,
              and_reading * 1e6);
  std::fflush(stdout);
}

int Timing::Expected(size_t i, size_t part) const {
  const auto rank = static_cast<size_t>(ranks_.rank());
  const auto sum = [&](size_t at) {
    int result = 0;
    for (int from = 0; from < ranks_.size(); ++from) result += Input(from, at);
    return result;
  };
  switch (operation_.kind) {
    case Kind::kAllReduce:
      return sum(i);
    case Kind::kReduceScatter:
      return sum(rank * part + i);
    case Kind::kBroadcast:
      return Input(0, i);
    case Kind::kAllGather:
      return Input(static_cast<int>(i / part), i % part);
    case Kind::kAllToAll:
      return Input(static_cast<int>(i / part), rank * part + i % part);
  }
  return 0;
}

void Timing::Verify(size_t count) {
  const Element element = operation_.element;
  const size_t part = count / static_cast<size_t>(ranks_.size());
  WithElements(element, input_, [&](auto* data) {
    for (size_t i = 0; i < InputCount(count); ++i) {
      data[i] =
          static_cast<std::decay_t<decltype(*data)>>(BitsOf(element, Input(ranks_.rank(), i)));
    }
  });
  const bool is_overwritten = !IsInPlace(operation_.kind) || !HasInput();
  if (is_overwritten) std::memset(result_, 0x55, ResultCount(count) * SizeBytes(element));
  ranks_.Barrier();
  ranks_.Run(operation_, input_, result_, count);
  WithElements(element, result_, [&](auto* data) {
    for (size_t i = 0; i < ResultCount(count); ++i) {
      Require(data[i] == BitsOf(element, Expected(i, part)),
              "the result of the operation is right");
    }
  });
}

void Timing::Fill(size_t count, uint32_t bits) {
  WithElements(operation_.element, input_, [&](auto* data) {
    std::fill_n(data, count, static_cast<std::decay_t<decltype(*data)>>(bits));
  });
}

Timing::Sums Timing::Repeat(size_t count, int repeats) {
  using Clock = std::chrono::steady_clock;
  const auto seconds = [](Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
  };
  const auto* result = static_cast<const unsigned char*>(result_);
  const size_t result_bytes = ResultCount(count) * SizeBytes(operation_.element);
  Sums sums;
  const auto begin = Clock::now();
  for (int i = 0; i < repeats; ++i) {
    if (HasInput()) Fill(InputCount(count), BitsOf(operation_.element, i % 7));
    ranks_.Barrier();
    const auto start = Clock::now();
    ranks_.Run(operation_, input_, result_, count);
    const auto done = Clock::now();
    unsigned sum = 0;
    for (size_t k = 0; k < result_bytes; k += kLineBytes) sum += result[k];
    // The sum is used, so the reads take place.
    asm volatile("" : : "r"(sum) : "memory");
    const auto read = Clock::now();
    sums.operation += seconds(start, done);
    sums.and_reading += seconds(start, read);
  }
  sums.whole = seconds(begin, Clock::now());
  return sums;
}

bool ParseTimingArguments(int argc, char** argv, double* seconds,
                          std::vector<size_t>* sizes_bytes) {
  if (argc < 2) return false;
  *seconds = std::atof(argv[0]);
  for (int i = 1; i < argc; ++i) {
    sizes_bytes->push_back(std::strtoull(argv[i], nullptr, 10));
    if (sizes_bytes->back() == 0 || sizes_bytes->back() % 4 != 0) return false;
  }
  return *seconds > 0;
}

}  // namespace lockstep::bench
