// Functions that every worker can call on its own registers, and the table of those with names.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/registers/value.h"
#include "runtime/tensor/processor.h"

namespace lockstep::module {

// Where a call runs. Groups are the session's equal contiguous ones.
struct CallContext : tensor::Processors {
  Rank rank = 0;
  int world_size = 1;
  int num_groups = 1;
  // The GPU's stream for what functions compute: a cudaStream_t.
  void* gpu_stream = nullptr;
  // True once the call is one of those that its session skips: another rank has failed at this
  // command or before it, or the session is reset or closed. What waits for long polls it. May be
  // null.
  bool (*aborted)(void* state) = nullptr;
  void* aborted_state = nullptr;

  int GroupSize() const { return world_size / num_groups; }
  int Group() const { return rank / GroupSize(); }
  Rank GroupRank() const { return rank % GroupSize(); }
  bool IsAborted() const { return aborted != nullptr && aborted(aborted_state); }
};

// Threads: Call() is made by one thread at a time per worker, but one Function object may be shared
// by several workers of a process, so implementations keep no state between calls.
class Function : public registers::Object {
 public:
  Kind kind() const final { return Kind::kFunction; }
  std::string Describe() const override { return "function " + name(); }

  virtual const std::string& name() const = 0;
  // True if it may use the worker's GPU by means of its own, which the worker does not know of.
  virtual bool UsesGpuByItself() const { return true; }

  // True if it may write to the memory of a tensor that it is given as this argument.
  virtual bool MayWriteTo(size_t /*argument*/) const { return true; }

  // True if all that it does with tensors of a GPU is put into CallContext::gpu_stream, and nothing
  // else comes of a call: it does not wait, and it does not fail when it is called again with the
  // same. So what it has put in may be captured, and done again without calling it.
  virtual bool MayBeCaptured() const { return false; }

  // `args` are borrowed for the call. On OK `*result` holds what the function returned (None if
  // nothing). An error's message does not repeat the function's name or rank: the caller adds them.
  virtual Status Call(const CallContext& context, absl::Span<const registers::Value> args,
                      registers::Value* result) = 0;
};

// The function that the value is; null: it is something else, which cannot be called.
std::shared_ptr<Function> FunctionOf(const registers::Value& value);
// The same, for as long as the value is there.
Function* FunctionIn(const registers::Value& value);

// Built by main, then only read. Threads: safe to read from any once it is filled.
class FunctionTable {
 public:
  // kAlreadyExists if the name is taken.
  Status Add(std::shared_ptr<Function> function);

  // kNotFound names the functions whose names are nearest.
  StatusOr<std::shared_ptr<Function>> Find(std::string_view name) const;

  // All names, sorted.
  std::vector<std::string> Names() const;

 private:
  std::map<std::string, std::shared_ptr<Function>, std::less<>> functions_;
};

// The names among `known` that a person who typed `name` may have meant, best first, at most three.
std::vector<std::string> NearestNames(std::string_view name, const std::vector<std::string>& known);

}  // namespace lockstep::module
