// Calls of a fragment that were checked: what follows from how inputs lie and are split, and not
// from which registers they are in.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

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

// Immutable.
struct CheckedCall {
  // How one input is given.
  struct Given {
    enum class Kind { kRegister, kTensor, kNumber };

    Kind kind = Kind::kNumber;
    fragment::Split split = fragment::Split::kNone;
    LayoutPtr layout = nullptr;  // of a register; null: each worker has a tensor of its own
    DType dtype = DType::kFloat32;
    Shape shape = {};  // of a tensor of the client's, or of each worker's own

    bool operator==(const Given& other) const;
  };
  struct Result {
    LayoutPtr layout;                 // null: each worker keeps its own
    bool is_told_by_workers = false;  // or it is not known here
  };

  std::vector<Given> given;
  std::vector<FragmentOutput> outputs;

  std::vector<LayoutPtr> wanted;  // where an input has to be brought; null: it stays
  std::vector<Result> results;
  std::string encoded;  // as workers read it

  bool IsOf(const std::vector<Given>& given, const std::vector<FragmentOutput>& outputs) const;
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
  StatusOr<std::shared_ptr<const CheckedCall>> Check(SessionCore& core, fragment::Kind kind,
                                                     const fragment::Signature& signature,
                                                     const std::vector<FragmentInput>& inputs,
                                                     const std::vector<FragmentOutput>& outputs);

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<const CheckedCall>> kept_;  // the last one last
};

}  // namespace lockstep::client
