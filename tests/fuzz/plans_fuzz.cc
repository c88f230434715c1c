// A serialized program, as a worker reads, lowers and checks it for each rank of two worlds; then
// its steps, spoilt after that as the input says: what CheckSteps() accepts of them is executed,
// and stays within the memory that it is given.
//
// The first byte says how many spoils there are (a few), each of eight bytes; the rest is the
// program.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/plan/passes/program_lowering.h"
#include "runtime/plan/plan_key.h"
#include "runtime/plan/steps/check_steps.h"
#include "runtime/plan/steps/program_steps.h"
#include "runtime/registers/register_file.h"
#include "runtime/tensor/processor.h"
#include "runtime/tensor/storage.h"
#include "services/worker/execute/plan_tensors.h"
#include "services/worker/execute/step_runner.h"
#include "tests/fuzz/targets.h"

namespace lockstep::fuzz {
namespace {

using plan::StepBuffer;
using tensor::Tensor;

// Of one rank's plan: an input is to take milliseconds.
constexpr int64_t kMostBytes = 1 << 20;
constexpr size_t kMostSteps = 1000;
constexpr int64_t kMostEffort = 1 << 14;

// Sets one number of a rank's steps.
struct Spoil {
  uint8_t what = 0;  // odd: a step, even: a buffer
  uint8_t field = 0;
  uint16_t index = 0;
  int32_t value = 0;

  // Mostly small ones matter, and absurd ones.
  int64_t Number() const {
    return (field & 0x80) == 0 ? value : int64_t{value} * (int64_t{1} << 32);
  }
};

// Sets the field of the number that it is given, of those that it is shown.
class Setter {
 public:
  Setter(size_t field, int64_t value) : left_(field), value_(value) {}

  template <typename T>
  void operator()(T& number) {
    if (left_-- == 0) number = static_cast<T>(value_);
  }
  // One of so many that there are.
  template <typename T>
  void OneOf(T& name, int64_t count) {
    if (left_-- == 0)
      name = static_cast<T>(static_cast<uint64_t>(value_) % static_cast<uint64_t>(count));
  }
  void operator()(Shape& shape) {
    for (int d = 0; d < shape.ndim(); ++d) (*this)(shape[d]);
  }
  template <typename T>
  void operator()(std::vector<T>& numbers) {
    for (T& number : numbers) (*this)(number);
  }
  void operator()(plan::Span& span) {
    (*this)(span.buffer);
    (*this)(span.offset);
    (*this)(span.count);
  }
  void operator()(plan::Window& window) {
    (*this)(window.offset);
    (*this)(window.strides);
  }
  void operator()(plan::CallStep& call) {
    (*this)(call.op);
    (*this)(call.result_buffer);
    (*this)(call.argument_buffers);
  }
  void operator()(plan::CopyStep& copy) {
    (*this)(copy.from_buffer);
    (*this)(copy.to_buffer);
    (*this)(copy.first);
    (*this)(copy.count);
    (*this)(copy.extents);
    (*this)(copy.from);
    (*this)(copy.to);
  }
  void operator()(plan::FillStep& fill) {
    (*this)(fill.to);
    OneOf(fill.op, kReductionCount);
  }
  void operator()(plan::CollectiveStep& collective) {
    (*this)(collective.send);
    (*this)(collective.recv);
    (*this)(collective.number);
    OneOf(collective.kind, kOperationCount);
    (*this)(collective.counts);
    (*this)(collective.recv_counts);
    (*this)(collective.team);
  }
  void operator()(plan::ProgramStep& step) {
    (*this)(step.op);
    (*this)(step.waits_for);
    OneOf(step.lane, 2);
    (*this)(step.together);
    std::visit(*this, step.what);
  }
  void operator()(StepBuffer& buffer) {
    // kOutput is of single reshards, which place it themselves.
    OneOf(buffer.home, static_cast<int64_t>(StepBuffer::Home::kOutput));
    if (left_-- == 0) buffer.home = StepBuffer::Home::kInside;
    OneOf(buffer.dtype, kDTypeCount);
    (*this)(buffer.arena_offset);
    (*this)(buffer.inside);
    (*this)(buffer.offset);
    (*this)(buffer.last_step);
    (*this)(buffer.extents);
  }

 private:
  size_t left_;
  int64_t value_;
};

void Apply(const Spoil& spoil, plan::ProgramSteps* steps) {
  Setter set(spoil.field & 0x7f, spoil.Number());
  if (spoil.what == 0xff) return set(steps->arena_bytes);
  if (spoil.what % 2 == 0 && !steps->buffers.empty()) {
    set(steps->buffers[spoil.index % steps->buffers.size()]);
  } else if (!steps->steps.empty()) {
    set(steps->steps[spoil.index % steps->steps.size()]);
  }
}

// Executes the steps of one rank as a worker does, but for functions and other ranks: the memory
// that these would read is read, and what they would write is written.
class Execution {
 public:
  explicit Execution(const plan::Program& program, const plan::ProgramSteps& steps)
      : program_(program), steps_(steps), tensors_(steps) {}

  void Run() {
    Require(tensors_.TakeArena(*host_, registers_));
    Require(tensors_.ClearArena(*host_));
    for (size_t i = 0; i < steps_.buffers.size(); ++i) {
      if (steps_.buffers[i].home == StepBuffer::Home::kInput) PlaceNew(i);
    }
    for (size_t i = 0; i < steps_.steps.size(); ++i) {
      tensors_.DropBefore(i);
      (void)plan::LinesOf(program_, steps_.steps[i]);
      std::visit([this](const auto& what) { Do(what); }, steps_.steps[i].what);
    }
    tensors_.DropBefore(steps_.steps.size());
  }

 private:
  static void Require(const Status& status) {
    if (status.ok()) return;
    std::cerr << "steps that were accepted cannot be executed: " << status << "\n";
    std::abort();
  }
  void PlaceNew(size_t buffer) {
    const StepBuffer& one = steps_.buffers[buffer];
    tensors_.Place(buffer, *Tensor::Empty(*allocator_, one.dtype, one.extents));
    std::memset(tensors_[buffer].data_as<char>(), 0, tensors_[buffer].size_bytes());
  }
  DType DTypeOf(int buffer) const { return steps_.buffers[static_cast<size_t>(buffer)].dtype; }

  void Touch(const Buffer& buffer) {
    auto* const bytes = static_cast<uint8_t*>(buffer.data);
    const size_t size = buffer.count * SizeOf(buffer.dtype);
    if (size == 0) return;
    read_ = std::accumulate(bytes, bytes + size, read_);
    std::memset(bytes, static_cast<int>(read_ & 0xff), size);
  }

  void Do(const plan::CallStep& call) {
    for (const int argument : call.argument_buffers) {
      if (argument < 0) continue;
      const Tensor& tensor = tensors_[static_cast<size_t>(argument)];
      Touch(
          {tensor.data_as<std::byte>(), static_cast<size_t>(tensor.NumElements()), tensor.dtype()});
    }
    if (call.result_buffer >= 0) PlaceNew(static_cast<size_t>(call.result_buffer));
  }
  void Do(const plan::CopyStep& copy) {
    Require(worker::RunCopy(copy, tensors_.memory(), SizeOf(DTypeOf(copy.to_buffer)), *host_));
  }
  void Do(const plan::FillStep& fill) {
    Require(worker::RunFill(fill, tensors_.memory(), DTypeOf(fill.to.buffer), *host_));
  }
  void Do(const plan::CollectiveStep& collective) {
    const DType dtype = DTypeOf(collective.send.buffer);
    Touch(worker::BufferOf(collective.send, tensors_.memory(), dtype));
    Touch(worker::BufferOf(collective.recv, tensors_.memory(), dtype));
  }

  const plan::Program& program_;
  const plan::ProgramSteps& steps_;
  const std::shared_ptr<tensor::Allocator> allocator_ = tensor::NewHeapAllocator();
  const std::unique_ptr<tensor::Processor> host_ = tensor::NewHostProcessor(*allocator_);
  registers::RegisterTotals totals_;
  const registers::RegisterFile registers_{&totals_};
  worker::PlanTensors tensors_;
  unsigned read_ = 0;
};

bool IsSmall(const plan::ProgramSteps& steps) {
  int64_t left = kMostBytes - steps.arena_bytes;
  if (left < 0 || steps.steps.size() > kMostSteps) return false;
  return std::all_of(steps.buffers.begin(), steps.buffers.end(), [&](const StepBuffer& buffer) {
    if (buffer.home == StepBuffer::Home::kArena) return true;
    return buffer.size_bytes() <= left && (left -= buffer.size_bytes()) >= 0;
  });
}

void TryRank(const plan::LoweredProgram& lowered, Rank rank, const std::vector<Spoil>& spoils) {
  plan::ProgramSteps steps =
      plan::ExpandProgram(lowered, rank, {.lanes_overlap = spoils.size() % 2 == 1});
  if (const Status right = plan::CheckSteps(*lowered.program, steps, rank); !right.ok()) {
    std::cerr << "what was lowered is refused: " << right << "\n";
    std::abort();
  }
  if (IsSmall(steps)) Execution(*lowered.program, steps).Run();
  for (const Spoil& spoil : spoils) {
    Apply(spoil, &steps);
    if (!plan::CheckSteps(*lowered.program, steps, rank).ok()) return;
    if (IsSmall(steps)) Execution(*lowered.program, steps).Run();
  }
}

}  // namespace

void LowerPlans(const uint8_t* data, size_t size) {
  if (size == 0) return;
  constexpr size_t kMostSpoils = 7;
  std::vector<Spoil> spoils(*data & kMostSpoils);
  const size_t begin = 1 + spoils.size() * sizeof(Spoil);
  if (size < begin) return;
  if (!spoils.empty()) std::memcpy(spoils.data(), data + 1, spoils.size() * sizeof(Spoil));
  std::vector<std::byte> bytes((size - begin + 7) / 8 * 8);
  if (size > begin) std::memcpy(bytes.data(), data + begin, size - begin);
  const StatusOr<plan::EncodedProgram> encoded = plan::CopyEncoded(bytes);
  if (!encoded.ok()) return;
  for (const std::vector<int>& nodes :
       {std::vector<int>{0, 0, 1, 1}, std::vector<int>{0, 0, 0, 0, 1, 1, 1, 1}}) {
    const auto ranks = static_cast<int>(nodes.size());
    StatusOr<plan::Program> program = plan::Decode(*encoded, ranks);
    if (!program.ok()) continue;
    const StatusOr<plan::LoweredProgram> lowered =
        plan::LowerProgram(std::make_shared<const plan::Program>(*std::move(program)),
                           plan::Topology(nodes), plan::CostModel(), nullptr, kMostEffort);
    if (!lowered.ok()) continue;
    for (Rank rank = 0; rank < ranks; ++rank) TryRank(*lowered, rank, spoils);
  }
}

}  // namespace lockstep::fuzz
