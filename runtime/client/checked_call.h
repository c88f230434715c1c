// Calls of a fragment that were checked: what follows from how inputs lie and are split, and not
// from which registers they are in.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/dtype.h"
#include "runtime/base/shape.h"
#include "runtime/base/status.h"
#include "runtime/client/fragment_execution.h"
#include "runtime/client/session_core.h"
#include "runtime/fragment/fragment.h"
#include "runtime/fragment/placed_call.h"
#include "runtime/fragment/signature.h"
#include "runtime/plan/layout.h"

namespace lockstep::client {

using LayoutPtr = std::shared_ptr<const plan::Layout>;
using HoldersPtr = std::shared_ptr<const std::vector<Rank>>;

// What is called. Borrowed.
struct Callee {
  fragment::Kind kind;
  const fragment::Signature& signature;  // of a function, its name alone

  bool is_function() const { return kind == fragment::Kind::kFunction; }
  // Null: it is a function, which states none.
  const fragment::TensorType* ArgumentType(size_t i) const {
    return is_function() ? nullptr : &signature.arguments[i].type;
  }
};

// Immutable, but for the number that the session keeps there.
struct CheckedCall : SentCall {
  // How one input is given.
  struct Given {
    enum class Kind { kRegister, kTensor, kNumber };

    Kind kind = Kind::kNumber;
    fragment::Split split = fragment::Split::kNone;
    LayoutPtr layout = nullptr;  // of a register; null: each worker has a tensor of its own
    DType dtype = DType::kFloat32;
    Shape shape = {};              // of a tensor of the client's, or of each worker's own
    HoldersPtr holders = nullptr;  // of each worker's own: who has one; null: all

    // Whatever each worker has, for a function to look at.
    bool IsAsItIs(fragment::Kind called) const {
      return called == fragment::Kind::kFunction && kind == Kind::kRegister && layout == nullptr;
    }
  };

  std::vector<Given> given;
  std::vector<FragmentOutput> outputs;

  std::vector<LayoutPtr> wanted;  // where an input has to be brought; null: it stays
  std::vector<NewRegister> results;

  // Whether it is that of such inputs, as far as it is known here how they lie.
  bool IsOf(SessionCore& core, const Callee& callee, absl::Span<const FragmentInput> inputs,
            absl::Span<const FragmentOutput> outputs) const;
};

// Those of one fragment; one that is made in a loop is checked once.
//
// Threads: safe.
class CheckedCalls {
 public:
  // Kept, the last ones.
  static constexpr size_t kMost = 8;

  // kInvalidArgument: the call does not fit the signature (see fragment::PlacedCall), or an input
  // is none of a fragment's. May ask the workers for a layout that another client has made.
  StatusOr<std::shared_ptr<const CheckedCall>> Check(SessionCore& core, const Callee& callee,
                                                     absl::Span<const FragmentInput> inputs,
                                                     absl::Span<const FragmentOutput> outputs);

 private:
  // Null: there is none.
  std::shared_ptr<const CheckedCall> Find(SessionCore& core, const Callee& callee,
                                          absl::Span<const FragmentInput> inputs,
                                          absl::Span<const FragmentOutput> outputs) const;

  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<const CheckedCall>> kept_;  // the last one last
};

}  // namespace lockstep::client
