// The same block as a program that is lowered once.
#include <numeric>
#include <utility>
#include <vector>

#include "examples/tensor_parallel/block.h"
#include "runtime/plan/program.h"

namespace lockstep::examples::tensor_parallel {
namespace {

using plan::Layout;
using plan::Pass;
using plan::Read;
using plan::ValueId;

// Layouts over all workers.
class Layouts {
 public:
  static StatusOr<Layouts> Over(int workers) {
    std::vector<Rank> ranks(static_cast<size_t>(workers));
    std::iota(ranks.begin(), ranks.end(), 0);
    LOCKSTEP_ASSIGN_OR_RETURN(plan::Mesh mesh, plan::Mesh::Line(std::move(ranks)));
    return Layouts(std::move(mesh));
  }

  // All of it on every worker; a part of a dimension; a summand of full extents.
  StatusOr<Layout> Whole(const Shape& shape) const {
    return Make(shape, plan::Placement::Replicate());
  }
  StatusOr<Layout> Split(const Shape& shape, int dim) const {
    return Make(shape, plan::Placement::Shard(dim));
  }
  StatusOr<Layout> Summand(const Shape& shape) const {
    return Make(shape, plan::Placement::Partial(Reduction::kSum));
  }

 private:
  explicit Layouts(plan::Mesh mesh) : mesh_(std::move(mesh)) {}
  StatusOr<Layout> Make(const Shape& shape, const plan::Placement& placement) const {
    return Layout::Make(shape, DType::kFloat32, mesh_, {placement});
  }
  plan::Mesh mesh_;
};

Status CheckCanBePlanned(int workers, const BlockShape& shape) {
  if (shape.heads % workers == 0 && shape.hidden % workers == 0) return OkStatus();
  return Unimplemented("the workers do not divide heads and hidden features evenly");
}

}  // namespace

StatusOr<BoundPlan> Block::Plan(const DRef& x, const BlockWeights& w) const {
  LOCKSTEP_RETURN_IF_ERROR(CheckCanBePlanned(session_->num_workers(), shape_));
  LOCKSTEP_ASSIGN_OR_RETURN(const Layouts layouts, Layouts::Over(session_->num_workers()));
  const int64_t width = shape_.width;
  const int64_t qkv_rows = 3 * shape_.head_dim();
  const Shape tokens_by_width = {shape_.tokens(), width};
  LOCKSTEP_ASSIGN_OR_RETURN(const Layout vector, layouts.Whole({width}));
  LOCKSTEP_ASSIGN_OR_RETURN(const Layout whole, layouts.Whole(tokens_by_width));
  LOCKSTEP_ASSIGN_OR_RETURN(const Layout summand, layouts.Summand(tokens_by_width));
  LOCKSTEP_ASSIGN_OR_RETURN(const Layout columns, layouts.Split(tokens_by_width, 1));
  LOCKSTEP_ASSIGN_OR_RETURN(const Layout qkv_columns,
                            layouts.Split({shape_.tokens(), 3 * width}, 1));
  LOCKSTEP_ASSIGN_OR_RETURN(const Layout hidden_columns,
                            layouts.Split({shape_.tokens(), shape_.hidden}, 1));
  LOCKSTEP_ASSIGN_OR_RETURN(const Layout qkv_weights,
                            layouts.Split({shape_.heads, qkv_rows, width}, 0));
  LOCKSTEP_ASSIGN_OR_RETURN(const Layout qkv_biases, layouts.Split({shape_.heads, qkv_rows}, 0));
  LOCKSTEP_ASSIGN_OR_RETURN(const Layout head_weights,
                            layouts.Split({shape_.heads, shape_.head_dim(), width}, 0));
  LOCKSTEP_ASSIGN_OR_RETURN(const Layout hidden_weights,
                            layouts.Split({shape_.hidden, 1, width}, 0));
  LOCKSTEP_ASSIGN_OR_RETURN(const Layout hidden_biases, layouts.Split({shape_.hidden, 1}, 0));

  plan::ProgramBuilder p;
  PlanRegisters registers;
  const auto input = [&](const char* name, const DRef& ref, const Layout& layout) {
    registers.inputs[name] = ref;
    return Read(p.Input(name, layout));
  };
  const auto x_in = input("x", x, whole);
  // Attention. A worker has whole heads, so nothing is exchanged before their outputs are added up.
  const ValueId normed1 = p.Call(
      "layer_norm",
      {x_in, input("norm1_gain", w.norm1_gain, vector), input("norm1_bias", w.norm1_bias, vector)},
      whole);
  const ValueId qkv = p.Call(
      "project_to_part",
      {Read(normed1), input("qkv", w.qkv, qkv_weights), input("qkv_bias", w.qkv_bias, qkv_biases)},
      qkv_columns);
  const ValueId heads =
      p.Call("attention", {Read(qkv), Pass(shape_.sequence), Pass(shape_.head_dim())}, columns);
  const ValueId summand1 =
      p.Call("project_from_part",
             {Read(heads), input("attention_out", w.attention_out, head_weights)}, summand);
  const ValueId attended = p.Call("add_bias_and_residual",
                                  {Read(p.Reshard(summand1, whole)),
                                   input("attention_out_bias", w.attention_out_bias, vector), x_in},
                                  whole);
  // MLP, in the same way by hidden features.
  const ValueId normed2 = p.Call("layer_norm",
                                 {Read(attended), input("norm2_gain", w.norm2_gain, vector),
                                  input("norm2_bias", w.norm2_bias, vector)},
                                 whole);
  const ValueId up = p.Call("project_to_part",
                            {Read(normed2), input("mlp_up", w.mlp_up, hidden_weights),
                             input("mlp_up_bias", w.mlp_up_bias, hidden_biases)},
                            hidden_columns);
  const ValueId hidden = p.Call("gelu", {Read(up)}, hidden_columns);
  const ValueId summand2 = p.Call(
      "project_from_part", {Read(hidden), input("mlp_down", w.mlp_down, hidden_weights)}, summand);
  p.Output("y", p.Call("add_bias_and_residual",
                       {Read(p.Reshard(summand2, whole)),
                        input("mlp_down_bias", w.mlp_down_bias, vector), Read(attended)},
                       whole));
  LOCKSTEP_ASSIGN_OR_RETURN(const plan::Program program, p.Build());
  registers.functions = {{"layer_norm", layer_norm_},
                         {"project_to_part", project_to_part_},
                         {"project_from_part", project_from_part_},
                         {"attention", attention_},
                         {"gelu", gelu_},
                         {"add_bias_and_residual", add_bias_and_residual_}};
  return session_->Bind(program, registers);
}

}  // namespace lockstep::examples::tensor_parallel
