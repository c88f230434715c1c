#include "tests/chaos/random_program.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace lockstep::chaos {
namespace {

// Sums of larger numbers could overflow soon.
constexpr int64_t kLargest = int64_t{1} << 40;
constexpr int64_t kMostElements = 3000;
constexpr size_t kMostRegisters = 30;
constexpr int64_t kMuch = int64_t{1} << 20;  // elements

std::string List(const std::vector<Rank>& ranks) {
  std::string text;
  for (const Rank rank : ranks) text += " " + std::to_string(rank);
  return text;
}

}  // namespace

int64_t Between(Random& random, int64_t first, int64_t last) {
  return first + static_cast<int64_t>(random() % static_cast<uint64_t>(last - first + 1));
}

bool RandomProgram::Register::IsComplete() const {
  return std::all_of(values.begin(), values.end(), [](const auto& v) { return v.has_value(); });
}

const RandomProgram::Register* RandomProgram::AnyComplete() {
  std::vector<const Register*> complete;
  for (const Register& candidate : registers_) {
    if (candidate.IsComplete()) complete.push_back(&candidate);
  }
  if (complete.empty()) return nullptr;
  return complete[static_cast<size_t>(
      Between(random_, 0, static_cast<int64_t>(complete.size()) - 1))];
}

RandomProgram::Register RandomProgram::NewRegister(int64_t elements) const {
  Register made;
  made.elements = elements;
  made.values.resize(static_cast<size_t>(session_.num_workers()));
  return made;
}

Status RandomProgram::Keep(Register made) {
  made.number = made_++;
  registers_.push_back(std::move(made));
  return OkStatus();
}

void RandomProgram::ForgetSince(uint64_t mark) {
  std::erase_if(registers_, [&](const Register& made) { return made.number >= mark; });
}

Status RandomProgram::ForgetLost(const std::vector<Rank>& ranks) {
  for (Register& made : registers_) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<Rank> lost, session_.RanksThatLost(made.ref));
    if (lost != ranks) {
      return MakeStatus(StatusCode::kDataLoss, "ranks", List(ranks),
                        " were replaced, but the session says that ranks", List(lost),
                        " have lost a register");
    }
    for (const Rank rank : ranks) made.values[static_cast<size_t>(rank)].reset();
  }
  return OkStatus();
}

Status RandomProgram::Step() {
  if (registers_.size() >= kMostRegisters) return DropOne();
  switch (Between(random_, 0, 9)) {
    case 0:
      return MakeFull();
    case 1:
      return MakeRanks();
    case 2:
      return CopyIn();
    case 3:
      return DropOne();
    case 4:
      return Sleep();
    case 5:
      return CheckOne();
    default:
      return Collective();
  }
}

Status RandomProgram::MakeFull() {
  Register made = NewRegister(Between(random_, 0, kMostElements));
  const int64_t value = Between(random_, -1000, 1000);
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef full, session_.GetFunction("lockstep.full"));
  LOCKSTEP_ASSIGN_OR_RETURN(made.ref,
                            session_.Call(full, Shape{made.elements}, value, DType::kInt64));
  for (auto& on_rank : made.values) on_rank = value;
  return Keep(std::move(made));
}

Status RandomProgram::MakeRanks() {
  Register made = NewRegister(Between(random_, 1, kMostElements));
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef full, session_.GetFunction("lockstep.full"));
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef worker_rank, session_.GetFunction("lockstep.worker_rank"));
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef rank, session_.Call(worker_rank));
  LOCKSTEP_ASSIGN_OR_RETURN(made.ref,
                            session_.Call(full, Shape{made.elements}, rank, DType::kInt64));
  for (size_t r = 0; r < made.values.size(); ++r) made.values[r] = static_cast<int64_t>(r);
  return Keep(std::move(made));
}

Status RandomProgram::CopyIn() {
  Register made = NewRegister(Between(random_, 1, kMostElements));
  const int64_t value = Between(random_, -1000, 1000);
  const std::vector<int64_t> elements(static_cast<size_t>(made.elements), value);
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef on_worker0, session_.CopyToWorker0(HostTensor::Of<int64_t>(
                                                       Shape{made.elements}, elements)));
  LOCKSTEP_ASSIGN_OR_RETURN(made.ref, session_.BroadcastFromWorker0(on_worker0));
  for (auto& on_rank : made.values) on_rank = value;
  return Keep(std::move(made));
}

Status RandomProgram::CopyMuch() {
  std::vector<int64_t> sent(static_cast<size_t>(Between(random_, kMuch / 8, kMuch)));
  const int64_t first = Between(random_, 0, kLargest);
  std::iota(sent.begin(), sent.end(), first);
  const Shape shape{static_cast<int64_t>(sent.size())};
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef there,
                            session_.CopyToWorker0(shape, ViewOf(sent.data(), sent.size())));
  std::vector<int64_t> back(sent.size());
  LOCKSTEP_RETURN_IF_ERROR(session_.CopyFromWorker0(ViewOf(back.data(), back.size()), there));
  if (back == sent) return OkStatus();
  const auto wrong = std::mismatch(sent.begin(), sent.end(), back.begin());
  return MakeStatus(StatusCode::kDataLoss, "element ", wrong.first - sent.begin(), " of ",
                    sent.size(), " that were copied to worker 0 and back is ", *wrong.second,
                    " and not ", *wrong.first);
}

Status RandomProgram::DropOne() {
  if (registers_.empty()) return OkStatus();
  const int64_t last = static_cast<int64_t>(registers_.size()) - 1;
  registers_.erase(registers_.begin() + static_cast<ptrdiff_t>(Between(random_, 0, last)));
  return OkStatus();
}

Status RandomProgram::Sleep() {
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef sleep, session_.GetFunction("lockstep.sleep"));
  const double seconds = static_cast<double>(Between(random_, 0, 5)) / 1000;
  return session_.Call(sleep, seconds, AnyRank()).status();
}

Status RandomProgram::Collective() {
  const Register* source = AnyComplete();
  if (source == nullptr) return MakeRanks();
  Register made = NewRegister(source->elements);
  const auto& in = source->values;
  switch (Between(random_, 0, 4)) {
    case 0: {
      int64_t sum = 0;
      int64_t largest = 0;
      for (const auto& value : in) {
        sum += *value;
        largest = std::max(largest, std::abs(*value));
      }
      if (largest > kLargest) return OkStatus();
      LOCKSTEP_ASSIGN_OR_RETURN(made.ref, session_.AllReduce(source->ref, Reduction::kSum));
      for (auto& value : made.values) value = sum;
      break;
    }
    case 1: {
      LOCKSTEP_ASSIGN_OR_RETURN(made.ref, session_.AllReduce(source->ref, Reduction::kMax));
      const auto most = *std::max_element(in.begin(), in.end());
      for (auto& value : made.values) value = most;
      break;
    }
    case 2: {
      const Rank root = AnyRank();
      LOCKSTEP_ASSIGN_OR_RETURN(made.ref, session_.Reduce(source->ref, Reduction::kMin, root));
      made.values[static_cast<size_t>(root)] = *std::min_element(in.begin(), in.end());
      break;
    }
    case 3: {
      const Rank root = AnyRank();
      LOCKSTEP_ASSIGN_OR_RETURN(made.ref, session_.Broadcast(source->ref, root));
      for (auto& value : made.values) value = in[static_cast<size_t>(root)];
      break;
    }
    default: {
      const Rank from = AnyRank();
      const Rank to = (from + 1) % session_.num_workers();
      LOCKSTEP_ASSIGN_OR_RETURN(made.ref, session_.Transfer(source->ref, from, to));
      made.values[static_cast<size_t>(to)] = in[static_cast<size_t>(from)];
      break;
    }
  }
  return Keep(std::move(made));
}

Status RandomProgram::Disagree(Rank odd) {
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef tensor, session_.Empty({4}, DType::kInt64));
  const std::vector<int64_t> three(3);
  LOCKSTEP_RETURN_IF_ERROR(
      session_.DebugSet(tensor, odd, HostTensor::Of<int64_t>(Shape{3}, three)));
  return session_.AllReduce(tensor, Reduction::kSum).status();
}

Status RandomProgram::CheckOne() {
  if (registers_.empty()) return OkStatus();
  const int64_t last = static_cast<int64_t>(registers_.size()) - 1;
  const Register& expected = registers_[static_cast<size_t>(Between(random_, 0, last))];
  const Rank rank = AnyRank();
  return expected.values[static_cast<size_t>(rank)].has_value() ? Check(expected, rank)
                                                                : OkStatus();
}

Status RandomProgram::CheckAll() {
  for (const Register& expected : registers_) {
    for (Rank rank = 0; rank < session_.num_workers(); ++rank) {
      if (!expected.values[static_cast<size_t>(rank)].has_value()) continue;
      LOCKSTEP_RETURN_IF_ERROR(Check(expected, rank));
    }
  }
  return OkStatus();
}

Status RandomProgram::Check(const Register& expected, Rank rank) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Value value, session_.DebugGet(expected.ref, rank));
  const auto* tensor = value.As<HostTensor>();
  const int64_t wanted = *expected.values[static_cast<size_t>(rank)];
  const auto wrong = [&](const std::string& what) {
    return MakeStatus(StatusCode::kDataLoss, "a register of rank ", rank, " should hold ",
                      expected.elements, " times ", wanted, ", but ", what);
  };
  if (tensor == nullptr) return wrong("is " + ToString(value));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<int64_t> elements, tensor->Elements<int64_t>());
  if (static_cast<int64_t>(elements.size()) != expected.elements) {
    return wrong("has " + std::to_string(elements.size()) + " elements");
  }
  for (const int64_t element : elements) {
    if (element != wanted) return wrong("has a " + std::to_string(element));
  }
  return OkStatus();
}

}  // namespace lockstep::chaos
