// A transformer block whose weights are split over the workers (Shoeybi et al., "Megatron-LM",
// arXiv:1909.08053): attention by heads, the MLP by hidden features. Each half of the block needs
// one allreduce.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/status.h"
#include "runtime/client/session.h"

namespace lockstep::examples::tensor_parallel {

struct BlockShape {
  int64_t batch = 2;
  int64_t sequence = 64;
  int64_t width = 128;
  int64_t heads = 8;
  int64_t hidden = 512;

  int64_t tokens() const { return batch * sequence; }
  int64_t head_dim() const { return width / heads; }
};

// f32 tensors. Those of the lower group are split by rows: `heads` or `hidden` rows are dealt out.
struct BlockWeights {
  DRef norm1_gain, norm1_bias;  // [width]
  DRef attention_out_bias;      // [width]
  DRef norm2_gain, norm2_bias;  // [width]
  DRef mlp_down_bias;           // [width]

  DRef qkv, qkv_bias;        // [heads, 3 * head_dim, width], [heads, 3 * head_dim]
  DRef attention_out;        // [heads, head_dim, width]
  DRef mlp_up, mlp_up_bias;  // [hidden, 1, width], [hidden, 1]
  DRef mlp_down;             // [hidden, 1, width]
};

enum class Placement {
  kSplit,       // every worker has a part of the lower group: a summand has to be reduced
  kReplicated,  // every worker has everything, and computes the whole block by itself
};

// Draws weights on the client, the same ones for the same seed, and places them on the workers.
// Every worker gets a part even if workers do not divide heads; with more workers than heads some
// parts are empty.
StatusOr<BlockWeights> PlaceWeights(Session& session, const BlockShape& shape, Placement placement,
                                    uint64_t seed);

// Borrows the session.
class Block {
 public:
  // `module_path`: the library of transformer_module.cc, as the workers see it.
  static StatusOr<Block> Load(Session& session, const std::string& module_path,
                              const BlockShape& shape);

  // x: f32 [tokens, width] on every worker, the same everywhere; so is the result. Only queues
  // work.
  StatusOr<DRef> Forward(const DRef& x, const BlockWeights& weights, Placement placement) const;

  // Forward() of parts as a plan: lowered and bound once, executed as often as one likes; its
  // output "y" is the result. kUnimplemented, with the reason, if that cannot be: the
  // workers do not divide heads or hidden features evenly.
  StatusOr<BoundPlan> Plan(const DRef& x, const BlockWeights& parts) const;

  // The largest difference of any two elements on any worker, as an f32 [1] on every worker.
  StatusOr<DRef> MaxAbsDifference(const DRef& a, const DRef& b) const;

 private:
  Block(Session& session, const BlockShape& shape) : session_(&session), shape_(shape) {}
  StatusOr<DRef> SumOverWorkers(const DRef& summand, Placement placement) const;

  Session* session_;
  BlockShape shape_;
  DRef layer_norm_, project_to_part_, project_from_part_, attention_, gelu_;
  DRef add_bias_and_residual_, max_abs_difference_;
};

}  // namespace lockstep::examples::tensor_parallel
