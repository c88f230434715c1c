// Fragments of a session: pieces of a program that every worker has compiled, and calls of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "runtime/base/ids.h"
#include "runtime/base/shape.h"
#include "runtime/base/status.h"
#include "runtime/client/dref.h"
#include "runtime/control/value.h"
#include "runtime/fragment/fragment.h"
#include "runtime/fragment/load.h"
#include "runtime/fragment/object_key.h"
#include "runtime/fragment/placed_call.h"
#include "runtime/fragment/signature.h"
#include "runtime/fragment/split.h"
#include "runtime/plan/layout.h"

namespace lockstep {

class BoundPlan;

namespace client {
class CheckedCalls;
class CompiledFragments;
class SessionCore;
}  // namespace client

// What one argument of a fragment is given:
//
//     session.Execute(fragment, {{x, Split::kRows}, weights, 0.5}, {{Combine::kAdd}})
class FragmentInput {
 public:
  // NOLINTBEGIN(google-explicit-constructor): calls take their inputs as they are
  // A register. `own_shape`: with Split::kAsPlaced, where each worker has a tensor of its own, the
  // shape of each, if the fragment does not state it.
  FragmentInput(DRef ref, fragment::Split split = fragment::Split::kNone,
                std::optional<Shape> own_shape = {})
      : value_(std::move(ref)), split_(split), own_shape_(std::move(own_shape)) {}
  // A tensor of the client's, which is borrowed as long as this lives; a temporary is taken over.
  FragmentInput(const HostTensor& tensor, fragment::Split split = fragment::Split::kNone)
      : value_(HostTensorPtr(std::shared_ptr<void>(), &tensor)), split_(split) {}
  FragmentInput(HostTensor&& tensor, fragment::Split split = fragment::Split::kNone)
      : value_(std::make_shared<const HostTensor>(std::move(tensor))), split_(split) {}
  // A number, which travels with the call. Integers are taken as floating-point numbers, too.
  template <typename T>
  requires(std::is_same_v<T, bool>) FragmentInput(T number) : value_(number) {}
  template <typename T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool> &&
           (std::is_signed_v<T> || sizeof(T) < sizeof(int64_t))) FragmentInput(T number)
      : value_(static_cast<int64_t>(number)) {}
  template <typename T>
  requires(std::is_floating_point_v<T>) FragmentInput(T number)
      : value_(static_cast<double>(number)) {}
  // NOLINTEND(google-explicit-constructor)

  // How a tensor is dealt out to the workers.
  fragment::Split split() const { return split_; }
  const std::optional<Shape>& own_shape() const { return own_shape_; }
  // Null: it is something else.
  const DRef* ref() const { return std::get_if<DRef>(&value_); }
  const HostTensor* tensor() const {
    const auto* held = std::get_if<HostTensorPtr>(&value_);
    return held == nullptr ? nullptr : held->get();
  }
  const bool* truth() const { return std::get_if<bool>(&value_); }
  const int64_t* integer() const { return std::get_if<int64_t>(&value_); }
  const double* real() const { return std::get_if<double>(&value_); }

 private:
  using HostTensorPtr = std::shared_ptr<const HostTensor>;

  std::variant<DRef, HostTensorPtr, bool, int64_t, double> value_;
  fragment::Split split_ = fragment::Split::kNone;
  std::optional<Shape> own_shape_;
};

// What becomes of one result: {Combine::kAdd}; of a function, which does not state what it returns,
// {Combine::kRows, Shape{10}, DType::kFloat64}.
using FragmentOutput = fragment::Output;

// Made by Session::Compile(). A handle: copies name the same. It belongs to the session, and to the
// time between two resets.
//
// Threads: any.
class CompiledFragment {
 public:
  CompiledFragment() = default;

  // What it takes and gives; of a function, its name alone. Of one that was compiled.
  const fragment::Signature& signature() const { return facts_->signature; }
  const std::string& name() const { return facts_->name; }
  // How each worker has come by it: one of them may have compiled it, and others found it then.
  // In the order of ranks.
  const std::vector<fragment::Load>& loads() const { return facts_->loads; }

 private:
  friend class BoundPlan;
  friend class Session;
  friend class client::CompiledFragments;
  struct Facts {
    std::string name;
    fragment::Kind kind = fragment::Kind::kMlir;
    fragment::ObjectKey key;
    fragment::Signature signature;
    std::vector<fragment::Load> loads;
    std::shared_ptr<client::CheckedCalls> calls;
  };
  // Puts a tensor of the client's onto the workers.
  using Place = absl::FunctionRef<StatusOr<DRef>(const HostTensor&, const plan::Layout&)>;

  // Waits until all workers have it.
  static StatusOr<CompiledFragment> Compile(const std::shared_ptr<client::SessionCore>& core,
                                            const fragment::Fragment& fragment);
  // Whether it was compiled in this session, and whether that was not reset since:
  // kFailedPrecondition, with what to do.
  Status CheckSession(const std::shared_ptr<client::SessionCore>& core) const;
  Status CheckGeneration(client::SessionCore& core) const;
  StatusOr<std::vector<DRef>> Execute(const std::shared_ptr<client::SessionCore>& session,
                                      absl::Span<const FragmentInput> inputs,
                                      absl::Span<const FragmentOutput> outputs, Place place) const;

  std::weak_ptr<client::SessionCore> core_;
  Generation generation_;
  std::shared_ptr<const Facts> facts_;
};

}  // namespace lockstep
