// A world of ranks for the conformance suite: threads or child processes, connected by one backend.
//
// A new backend adds its way to connect to Backends() in backends.cc, about thirty lines.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/deadline.h"
#include "runtime/base/dtype.h"
#include "runtime/collective/communicator.h"
#include "runtime/tensor/storage.h"

namespace lockstep::collective {

// One rank inside a test body.
struct RankUnderTest {
  Communicator& comm;
  // Memory that the backend likes best (for shm: the rank's arena).
  tensor::Allocator& allocator;

  int rank() const { return comm.rank(); }
  int size() const { return comm.size(); }
};

struct BackendUnderTest {
  std::string name;
  // Connects `size` ranks and runs `body` on each, at the same time; returns when all are through.
  std::function<void(int size, const std::function<void(RankUnderTest&)>& body)> run;
  // The numbers of ranks that the suite runs with.
  std::vector<int> sizes;
  // True if every rank is a process. Then what a body writes to captured variables is seen by its
  // own rank only.
  bool processes = false;
  // True if ranks find out by themselves, while they wait, that another one was killed.
  bool notices_death = false;
  // True if the end of one rank is the end of all.
  bool dies_together = false;
  // True if only FailuresTest runs with it: what it does besides is done by the same code as with
  // another backend.
  bool fails_only = false;
  // How often in a row tests make a communicator: more than fit at once, where room is what is
  // scarce; less often where making one takes a round of connecting.
  int splits = 200;
  // False if min and max of NaNs, and of zeros of both signs, are the library's affair.
  bool orders_all_floats = true;
  bool reduces_float8 = false;
  // Why it cannot run here; empty: it can.
  std::string why_not = {};

  friend std::ostream& operator<<(std::ostream& out, const BackendUnderTest& backend) {
    return out << backend.name;
  }
};
const std::vector<BackendUnderTest>& Backends();

// What no operation of these tests takes, even on a busy machine; reaching it is a failure.
constexpr auto kPatience = std::chrono::seconds(100);
inline Deadline Patience() { return Deadline::After(kPatience); }

// How test buffers of device memory are written and read, on the thread that has set it.
class DeviceCopies {
 public:
  virtual ~DeviceCopies() = default;
  virtual void ToDevice(void* to, const void* from, size_t size_bytes) = 0;
  virtual void FromDevice(void* to, const void* from, size_t size_bytes) = 0;

  // Null: this thread has no device.
  static DeviceCopies*& OfThisThread();
};

// Elements in memory, written and read as doubles.
class TestBuffer {
 public:
  // `count` elements, in the allocator's memory or (null) in the heap's.
  TestBuffer(tensor::Allocator* allocator, DType dtype, size_t count);

  Buffer buffer() const { return {data_, count_, dtype_}; }
  // `count` elements from `begin`.
  Buffer Part(int64_t begin, int64_t count) const;

  // Element i becomes value(i).
  void Fill(const std::function<double(size_t)>& value);
  std::vector<double> Read() const;
  // The same as they lie in memory.
  void SetBytes(absl::Span<const std::byte> bytes);
  std::vector<std::byte> Bytes() const;

 private:
  std::shared_ptr<tensor::Storage> storage_;
  std::unique_ptr<std::byte[]> heap_;
  bool IsOnDevice() const;

  std::byte* data_ = nullptr;
  size_t count_;
  DType dtype_;
};

// Small numbers whose sums and products over seven ranks are exact in every dtype.
double Pattern(ReduceOp op, DType dtype, int rank, size_t i);
// What reducing Pattern over `ranks` ranks gives, before rounding to the dtype.
double Reduced(ReduceOp op, DType dtype, int ranks, size_t i);
// How far a correctly rounded result of `dtype` may be from Reduced, relative to it.
double Tolerance(ReduceOp op, DType dtype);

// Differs from rank to rank and from element to element, and is exact in every dtype, fp8 too.
double Label(int rank, size_t i);

// Uneven shares of `base` elements or so, some of them zero.
std::vector<int64_t> UnevenCounts(int size, int64_t base);

}  // namespace lockstep::collective
