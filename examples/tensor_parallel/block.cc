#include "examples/tensor_parallel/block.h"

namespace lockstep::examples::tensor_parallel {

StatusOr<Block> Block::Load(Session& session, const std::string& module_path,
                            const BlockShape& shape) {
  Block block(session, shape);
  LOCKSTEP_ASSIGN_OR_RETURN(DRef module, session.LoadModule(module_path));
  const struct {
    const char* name;
    DRef* function;
  } functions[] = {
      {"layer_norm", &block.layer_norm_},
      {"project_to_part", &block.project_to_part_},
      {"project_from_part", &block.project_from_part_},
      {"attention", &block.attention_},
      {"gelu", &block.gelu_},
      {"add_bias_and_residual", &block.add_bias_and_residual_},
      {"max_abs_difference", &block.max_abs_difference_},
  };
  for (const auto& [name, function] : functions) {
    LOCKSTEP_ASSIGN_OR_RETURN(*function, session.GetFunction(module, name));
  }
  return block;
}

StatusOr<DRef> Block::SumOverWorkers(const DRef& summand, Placement placement) const {
  if (placement == Placement::kReplicated) return summand;
  return session_->AllReduce(summand, Reduction::kSum);
}

StatusOr<DRef> Block::Forward(const DRef& x, const BlockWeights& w, Placement placement) const {
  Session& s = *session_;
  // Attention. A worker has whole heads, so nothing is exchanged before their outputs are added up.
  LOCKSTEP_ASSIGN_OR_RETURN(DRef normed1, s.Call(layer_norm_, x, w.norm1_gain, w.norm1_bias));
  LOCKSTEP_ASSIGN_OR_RETURN(DRef qkv, s.Call(project_to_part_, normed1, w.qkv, w.qkv_bias));
  LOCKSTEP_ASSIGN_OR_RETURN(DRef heads,
                            s.Call(attention_, qkv, shape_.sequence, shape_.head_dim()));
  LOCKSTEP_ASSIGN_OR_RETURN(DRef summand1, s.Call(project_from_part_, heads, w.attention_out));
  LOCKSTEP_ASSIGN_OR_RETURN(DRef sum1, SumOverWorkers(summand1, placement));
  LOCKSTEP_ASSIGN_OR_RETURN(DRef attended,
                            s.Call(add_bias_and_residual_, sum1, w.attention_out_bias, x));
  // MLP, in the same way by hidden features.
  LOCKSTEP_ASSIGN_OR_RETURN(DRef normed2,
                            s.Call(layer_norm_, attended, w.norm2_gain, w.norm2_bias));
  LOCKSTEP_ASSIGN_OR_RETURN(DRef up, s.Call(project_to_part_, normed2, w.mlp_up, w.mlp_up_bias));
  LOCKSTEP_ASSIGN_OR_RETURN(DRef hidden, s.Call(gelu_, up));
  LOCKSTEP_ASSIGN_OR_RETURN(DRef summand2, s.Call(project_from_part_, hidden, w.mlp_down));
  LOCKSTEP_ASSIGN_OR_RETURN(DRef sum2, SumOverWorkers(summand2, placement));
  return s.Call(add_bias_and_residual_, sum2, w.mlp_down_bias, attended);
}

StatusOr<DRef> Block::MaxAbsDifference(const DRef& a, const DRef& b) const {
  LOCKSTEP_ASSIGN_OR_RETURN(DRef local, session_->Call(max_abs_difference_, a, b));
  return session_->AllReduce(local, Reduction::kMax);
}

}  // namespace lockstep::examples::tensor_parallel
