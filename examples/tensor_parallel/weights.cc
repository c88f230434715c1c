#include <cmath>
#include <random>
#include <vector>

#include "examples/tensor_parallel/block.h"

namespace lockstep::examples::tensor_parallel {
namespace {

// Draws tensors one after the other and places them.
class Placer {
 public:
  Placer(Session& session, Placement placement, uint64_t seed)
      : session_(session), placement_(placement), random_(seed) {}

  // A tensor of normal numbers around `mean`; every worker gets all of it.
  StatusOr<DRef> Everywhere(const Shape& shape, double mean, double deviation) {
    LOCKSTEP_ASSIGN_OR_RETURN(DRef on_worker0, Draw(shape, mean, deviation));
    return session_.BroadcastFromWorker0(on_worker0);
  }

  // The same around 0; its rows are dealt out if the placement says so.
  StatusOr<DRef> ByRows(const Shape& shape, double deviation) {
    if (placement_ == Placement::kReplicated) return Everywhere(shape, 0, deviation);
    LOCKSTEP_ASSIGN_OR_RETURN(DRef on_worker0, Draw(shape, 0, deviation));
    return session_.ScatterFromWorker0(on_worker0);
  }

 private:
  StatusOr<DRef> Draw(const Shape& shape, double mean, double deviation) {
    std::normal_distribution<double> distribution(mean, deviation);
    std::vector<float> elements(static_cast<size_t>(shape.NumElements()));
    for (float& element : elements) element = static_cast<float>(distribution(random_));
    return session_.CopyToWorker0(shape, ViewOf(elements.data(), elements.size()));
  }

  Session& session_;
  const Placement placement_;
  std::mt19937_64 random_;
};

}  // namespace

StatusOr<BlockWeights> PlaceWeights(Session& session, const BlockShape& shape, Placement placement,
                                    uint64_t seed) {
  const int64_t width = shape.width;
  const int64_t qkv_rows = 3 * shape.head_dim();
  // Sums of `inputs` products keep the size of their factors.
  const double from_width = 1 / std::sqrt(static_cast<double>(width));
  const double from_hidden = 1 / std::sqrt(static_cast<double>(shape.hidden));

  Placer place(session, placement, seed);
  BlockWeights w;
  LOCKSTEP_ASSIGN_OR_RETURN(w.norm1_gain, place.Everywhere({width}, 1, 0.1));
  LOCKSTEP_ASSIGN_OR_RETURN(w.norm1_bias, place.Everywhere({width}, 0, 0.1));
  LOCKSTEP_ASSIGN_OR_RETURN(w.attention_out_bias, place.Everywhere({width}, 0, 0.1));
  LOCKSTEP_ASSIGN_OR_RETURN(w.norm2_gain, place.Everywhere({width}, 1, 0.1));
  LOCKSTEP_ASSIGN_OR_RETURN(w.norm2_bias, place.Everywhere({width}, 0, 0.1));
  LOCKSTEP_ASSIGN_OR_RETURN(w.mlp_down_bias, place.Everywhere({width}, 0, 0.1));

  LOCKSTEP_ASSIGN_OR_RETURN(w.qkv, place.ByRows({shape.heads, qkv_rows, width}, from_width));
  LOCKSTEP_ASSIGN_OR_RETURN(w.qkv_bias, place.ByRows({shape.heads, qkv_rows}, 0.1));
  LOCKSTEP_ASSIGN_OR_RETURN(w.attention_out,
                            place.ByRows({shape.heads, shape.head_dim(), width}, from_width));
  LOCKSTEP_ASSIGN_OR_RETURN(w.mlp_up, place.ByRows({shape.hidden, 1, width}, from_width));
  LOCKSTEP_ASSIGN_OR_RETURN(w.mlp_up_bias, place.ByRows({shape.hidden, 1}, 0.1));
  LOCKSTEP_ASSIGN_OR_RETURN(w.mlp_down, place.ByRows({shape.hidden, 1, width}, from_hidden));
  return w;
}

}  // namespace lockstep::examples::tensor_parallel
