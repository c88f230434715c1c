#include "runtime/client/fragment_execution.h"

#include <limits>
#include <numeric>
#include <utility>

#include "runtime/client/layout_commands.h"
#include "runtime/client/session_commands.h"
#include "runtime/client/session_core.h"
#include "runtime/control/message_codec.h"
#include "runtime/fragment/call_codec.h"
#include "runtime/fragment/known_results.h"
#include "runtime/fragment/signature_codec.h"

namespace lockstep {
namespace {

using client::SessionCore;

std::string ArgumentText(size_t number) { return "argument " + std::to_string(number); }

// Whether a number that is given is one of an argument of that dtype.
Status CheckNumber(const FragmentInput& input, DType dtype) {
  if (input.truth() != nullptr) {
    if (dtype == DType::kBool) return OkStatus();
    return InvalidArgument("it is ", dtype, ", and a bool is given");
  }
  if (IsFloat(dtype)) return OkStatus();
  if (input.real() != nullptr) {
    return InvalidArgument("it is ", dtype, ", and a floating-point number is given");
  }
  if (dtype == DType::kInt64) return OkStatus();
  if (dtype != DType::kInt32) return InvalidArgument("it is ", dtype, ", and an integer is given");
  const int64_t integer = *input.integer();
  if (integer >= std::numeric_limits<int32_t>::min() &&
      integer <= std::numeric_limits<int32_t>::max()) {
    return OkStatus();
  }
  return InvalidArgument("it is ", dtype, ", and ", integer, " is beyond it");
}

void WriteNumber(wire::Value::Builder out, const FragmentInput& input, DType dtype) {
  if (input.truth() != nullptr) return out.setBool(*input.truth());
  if (input.real() != nullptr) return out.setFloat64(*input.real());
  if (IsFloat(dtype)) return out.setFloat64(static_cast<double>(*input.integer()));
  out.setInt64(*input.integer());
}

StatusOr<fragment::Input> DescribeRegister(SessionCore& core, const FragmentInput& input,
                                           const fragment::TensorType& type) {
  LOCKSTEP_RETURN_IF_ERROR(core.CheckOwn(*input.ref(), "its register"));
  StatusOr<plan::Layout> layout = client::KnownLayout(core, *input.ref());
  if (layout.ok()) {
    return fragment::Input{layout->dtype(), layout->shape(), input.split(), *std::move(layout)};
  }
  if (input.split() != fragment::Split::kAsPlaced) return layout.status();
  if (input.own_shape().has_value()) {
    return fragment::Input{type.dtype, *input.own_shape(), input.split()};
  }
  if (type.IsClosed()) return fragment::Input{type.dtype, Shape(type.extents), input.split()};
  return InvalidArgument("it is ", type.ToString(), ", and nothing says what the workers have: ",
                         "give own_shape, or say the layout by DeclareLayout()");
}

StatusOr<fragment::Input> Describe(SessionCore& core, const FragmentInput& input,
                                   const fragment::TensorType& type) {
  if (input.ref() != nullptr) return DescribeRegister(core, input, type);
  if (input.tensor() == nullptr) {
    LOCKSTEP_RETURN_IF_ERROR(CheckNumber(input, type.dtype));
    return fragment::Input{type.dtype, Shape{}, fragment::Split::kNone};
  }
  if (input.split() == fragment::Split::kAsPlaced) {
    return InvalidArgument("a tensor of the client's is placed nowhere yet: split it");
  }
  return fragment::Input{input.tensor()->dtype, input.tensor()->shape, input.split()};
}

// Whether each worker has the same of the tensor by both, whatever the meshes are called.
bool LiesAlike(const plan::Layout& a, const plan::Layout& b) {
  if (a.mesh().SortedRanks() != b.mesh().SortedRanks()) return false;
  if (!a.PartialAxes().empty() || !b.PartialAxes().empty()) return false;
  for (const Rank rank : a.mesh().ranks()) {
    if (a.TileAt(*a.mesh().IndexOf(rank)) != b.TileAt(*b.mesh().IndexOf(rank))) return false;
  }
  return true;
}

struct ResultLayout {
  std::shared_ptr<const plan::Layout> layout;  // null: each worker keeps its own
  bool is_told_by_workers = false;             // or it is not known here
};

// One call, from what the caller gives to the command.
class FragmentCall {
 public:
  // All is borrowed.
  FragmentCall(SessionCore& core, const fragment::Signature& signature,
               const std::vector<FragmentInput>& inputs)
      : core_(core), signature_(signature), inputs_(inputs) {}

  // Finds all that can be found before anything is sent.
  Status Check(fragment::Kind kind, const std::vector<FragmentOutput>& outputs) {
    std::vector<Rank> ranks(static_cast<size_t>(core_.facts().num_workers));
    std::iota(ranks.begin(), ranks.end(), 0);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const Status described = DescribeInput(i, ranks);
      if (described.ok()) continue;
      return Annotate(described, ArgumentText(i) + " of `" + signature_.function + "`");
    }
    parts_.outputs = outputs;
    LOCKSTEP_ASSIGN_OR_RETURN(
        const fragment::PlacedCall placed,
        fragment::PlacedCall::Make(kind, signature_, ranks, parts_.inputs, parts_.outputs));
    for (int i = 0; i < signature_.num_arguments(); ++i)
      wanted_.push_back(placed.ArgumentLayout(i));
    for (int i = 0; i < signature_.num_results(); ++i) {
      // What the call does not tell is found by the workers, who have the compiled fragment.
      results_.push_back({nullptr, !placed.KnownShape(i, 0).has_value()});
      if (results_.back().is_told_by_workers) continue;
      LOCKSTEP_ASSIGN_OR_RETURN(fragment::KnownResult known, fragment::DescribeResult(placed, i));
      if (!known.layout.has_value()) continue;
      results_.back().layout = std::make_shared<const plan::Layout>(*std::move(known.layout));
    }
    return OkStatus();
  }

  // Brings inputs to where they are wanted. What lies so is used as it is; what was moved before in
  // this generation, and not written since, is not moved again.
  template <typename Place>
  Status Bring(Generation generation, Place place) {
    registers_.resize(inputs_.size());
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].tensor() != nullptr) {
        LOCKSTEP_ASSIGN_OR_RETURN(registers_[i], place(*inputs_[i].tensor(), *wanted_[i]));
      } else if (inputs_[i].ref() != nullptr) {
        LOCKSTEP_ASSIGN_OR_RETURN(registers_[i], BringRegister(i, generation));
      }
    }
    encoded_ = fragment::EncodeCall(parts_);
    return OkStatus();
  }

  void Write(wire::Command::RunFragment::Builder run, const fragment::ObjectKey& key,
             absl::Span<const DRef> made) const {
    run.initFragment().setHigh(key.high);
    run.getFragment().setLow(key.low);
    run.setCall({reinterpret_cast<const kj::byte*>(encoded_.data()), encoded_.size()});
    auto arguments = run.initArguments(static_cast<unsigned>(inputs_.size()));
    for (unsigned i = 0; i < arguments.size(); ++i) {
      if (registers_[i].IsNull()) {
        WriteNumber(arguments[i], inputs_[i], signature_.arguments[i].type.dtype);
      } else {
        arguments[i].setRegister(registers_[i].id().Packed());
      }
    }
    auto results = run.initResults(static_cast<unsigned>(made.size()));
    for (unsigned i = 0; i < results.size(); ++i) results.set(i, made[i].id().Packed());
  }

  // How the results lie, which are in these registers.
  void TellLayouts(const std::vector<DRef>& made) const {
    for (size_t i = 0; i < made.size(); ++i) {
      if (results_[i].layout != nullptr) core_.SetLayout(made[i], results_[i].layout);
      if (results_[i].is_told_by_workers) core_.ExpectLayout(made[i]);
    }
  }

 private:
  Status DescribeInput(size_t i, const std::vector<Rank>& ranks) {
    // One that is too many is told of by PlacedCall.
    const fragment::TensorType any;
    const bool is_known = i < signature_.arguments.size();
    LOCKSTEP_ASSIGN_OR_RETURN(
        fragment::Input input,
        Describe(core_, inputs_[i], is_known ? signature_.arguments[i].type : any));
    // It may lie as it is wanted, on a mesh with other names: then it stays where it is.
    const auto placement = fragment::PlacementFor(input.split);
    if (input.layout.has_value() && placement.has_value()) {
      LOCKSTEP_ASSIGN_OR_RETURN(plan::Mesh workers, plan::Mesh::Line(ranks));
      const auto wanted =
          plan::Layout::Make(input.shape, input.dtype, std::move(workers), {*placement});
      if (wanted.ok() && *wanted != *input.layout && LiesAlike(*wanted, *input.layout)) {
        input.split = fragment::Split::kAsPlaced;
      }
    }
    parts_.inputs.push_back(std::move(input));
    return OkStatus();
  }

  StatusOr<DRef> BringRegister(size_t i, Generation generation) {
    const DRef& ref = *inputs_[i].ref();
    if (!wanted_[i].has_value() || *parts_.inputs[i].layout == *wanted_[i]) return ref;
    DRef copy = core_.CopyOf(ref, *wanted_[i], generation);
    if (!copy.IsNull()) return copy;
    LOCKSTEP_ASSIGN_OR_RETURN(copy, client::IssueReshard(core_, ref, *wanted_[i]));
    core_.KeepCopy(ref, copy, generation);
    return copy;
  }

  SessionCore& core_;
  const fragment::Signature& signature_;
  const std::vector<FragmentInput>& inputs_;
  fragment::CallParts parts_;
  std::vector<std::optional<plan::Layout>> wanted_;  // by argument
  std::vector<ResultLayout> results_;
  std::vector<DRef> registers_;  // by argument; null: a number
  std::string encoded_;
};

}  // namespace

StatusOr<CompiledFragment> CompiledFragment::Compile(const std::shared_ptr<SessionCore>& core,
                                                     const fragment::Fragment& fragment) {
  if (fragment.kind() == fragment::Kind::kFunction) {
    return Unimplemented("`", fragment.name(),
                         "` is the name of a function, which is not compiled: call it by Call()");
  }
  CompiledFragment compiled;
  LOCKSTEP_ASSIGN_OR_RETURN(const control::Frame body,
                            core->CompileFragment(fragment, &compiled.generation_));
  auto facts = std::make_shared<Facts>();
  facts->name = fragment.name();
  facts->kind = fragment.kind();
  facts->key = fragment::KeyOf(fragment);
  LOCKSTEP_RETURN_IF_ERROR(control::DecodeMessage<wire::FragmentSignature>(
      body, [&](wire::FragmentSignature::Reader reader) -> Status {
        LOCKSTEP_ASSIGN_OR_RETURN(facts->signature, fragment::ReadSignature(reader));
        return OkStatus();
      }));
  compiled.facts_ = std::move(facts);
  compiled.core_ = core;
  return compiled;
}

Status CompiledFragment::CheckUsable(SessionCore& core) const {
  if (facts_ == nullptr) return FailedPrecondition("no fragment was compiled to this handle");
  if (core_.lock().get() != &core) {
    return FailedPrecondition(facts_->name, " was compiled in another session");
  }
  if (core.generation() == generation_) return OkStatus();
  return FailedPrecondition("the session was reset since ", facts_->name,
                            " was compiled; compile it again");
}

StatusOr<std::vector<DRef>> CompiledFragment::Execute(SessionCore& core,
                                                      const std::vector<FragmentInput>& inputs,
                                                      const std::vector<FragmentOutput>& outputs,
                                                      Place place) const {
  LOCKSTEP_RETURN_IF_ERROR(CheckUsable(core));
  FragmentCall call(core, facts_->signature, inputs);
  LOCKSTEP_RETURN_IF_ERROR(call.Check(facts_->kind, outputs));
  LOCKSTEP_RETURN_IF_ERROR(call.Bring(generation_, place));
  LOCKSTEP_ASSIGN_OR_RETURN(
      std::vector<DRef> made,
      core.IssueNamingIn(generation_, facts_->name.c_str(), facts_->signature.results.size(),
                         [&](wire::Command::Builder command, absl::Span<const DRef> names) {
                           call.Write(command.initRunFragment(), facts_->key, names);
                         }));
  call.TellLayouts(made);
  return made;
}

}  // namespace lockstep
