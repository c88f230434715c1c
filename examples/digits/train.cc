#include "examples/digits/train.h"

#include <array>
#include <numeric>

#include "examples/digits/batches.h"
#include "examples/digits/mlp.h"

namespace lockstep::examples::digits {
namespace {

// A new tensor on worker-0, and nowhere else.
template <typename T>
StatusOr<DRef> PutOnWorker0(Session& session, const Shape& shape, const std::vector<T>& elements) {
  return session.CopyToWorker0(shape, ViewOf(elements.data(), elements.size()));
}

// A data set dealt out over the workers: row i of `images` and `labels` is sample ids[i].
struct Shards {
  DRef images, labels, ids;
};

// Worker-0 gets everything and scatters it. Shards differ in size if the workers do not divide it.
StatusOr<Shards> Scatter(Session& session, const Dataset& data) {
  const int64_t rows = data.size();
  std::vector<int32_t> all_ids(data.labels.size());
  std::iota(all_ids.begin(), all_ids.end(), 0);
  LOCKSTEP_ASSIGN_OR_RETURN(DRef images, PutOnWorker0(session, {rows, kPixels}, data.images));
  LOCKSTEP_ASSIGN_OR_RETURN(DRef labels, PutOnWorker0(session, {rows}, data.labels));
  LOCKSTEP_ASSIGN_OR_RETURN(DRef ids, PutOnWorker0(session, {rows}, all_ids));

  Shards shards;
  LOCKSTEP_ASSIGN_OR_RETURN(shards.images, session.ScatterFromWorker0(images));
  LOCKSTEP_ASSIGN_OR_RETURN(shards.labels, session.ScatterFromWorker0(labels));
  LOCKSTEP_ASSIGN_OR_RETURN(shards.ids, session.ScatterFromWorker0(ids));
  return shards;
}

// The two doubles of `from`, as worker-0 has them. Waits for everything issued before.
StatusOr<std::array<double, 2>> Fetch(Session& session, const DRef& from) {
  std::array<double, 2> pair{};
  LOCKSTEP_RETURN_IF_ERROR(session.CopyFromWorker0(ViewOf(pair.data(), pair.size()), from));
  return pair;
}

}  // namespace

StatusOr<TrainResult> Train(Session& session, const std::string& module_path, const Split& data,
                            const TrainOptions& options,
                            const std::function<void(int epoch, double loss)>& on_epoch) {
  LOCKSTEP_ASSIGN_OR_RETURN(DRef module, session.LoadModule(module_path));
  LOCKSTEP_ASSIGN_OR_RETURN(DRef deal_batches, session.GetFunction(module, "deal_batches"));
  LOCKSTEP_ASSIGN_OR_RETURN(DRef gradient, session.GetFunction(module, "gradient"));
  LOCKSTEP_ASSIGN_OR_RETURN(DRef step, session.GetFunction(module, "step"));
  LOCKSTEP_ASSIGN_OR_RETURN(DRef evaluate, session.GetFunction(module, "evaluate"));
  LOCKSTEP_ASSIGN_OR_RETURN(DRef full, session.GetFunction("lockstep.full"));

  // The data is dealt out, the parameters are the same everywhere.
  LOCKSTEP_ASSIGN_OR_RETURN(Shards training, Scatter(session, data.training));
  LOCKSTEP_ASSIGN_OR_RETURN(Shards held_out, Scatter(session, data.held_out));
  LOCKSTEP_ASSIGN_OR_RETURN(
      DRef initial,
      PutOnWorker0(session, {kParameters}, InitialParameters(static_cast<uint64_t>(options.seed))));
  LOCKSTEP_ASSIGN_OR_RETURN(DRef parameters, session.BroadcastFromWorker0(initial));
  LOCKSTEP_ASSIGN_OR_RETURN(DRef velocity,
                            session.Call(full, Shape{kParameters}, 0.0, DType::kFloat32));

  TrainResult result;
  const int64_t samples = data.training.size();
  const int64_t batches = BatchesPerEpoch(samples, options.batch_size);
  for (int epoch = 0; epoch < options.epochs; ++epoch) {
    LOCKSTEP_ASSIGN_OR_RETURN(DRef totals, session.Call(full, Shape{2}, 0.0, DType::kFloat64));
    LOCKSTEP_ASSIGN_OR_RETURN(
        DRef batch_of_row,
        session.Call(deal_batches, training.ids, samples, options.batch_size, options.seed, epoch));
    for (int64_t batch = 0; batch < batches; ++batch) {
      // These three only queue work: the client runs ahead of the workers.
      LOCKSTEP_ASSIGN_OR_RETURN(DRef local, session.Call(gradient, training.images, training.labels,
                                                         batch_of_row, batch, parameters));
      LOCKSTEP_ASSIGN_OR_RETURN(DRef global, session.AllReduce(local, Reduction::kSum));
      LOCKSTEP_ASSIGN_OR_RETURN(
          DRef none, session.Call(step, global, options.learning_rate, options.momentum, parameters,
                                  velocity, totals));
    }
    // The only wait of the epoch. Every worker has the same totals; worker-0's are looked at.
    LOCKSTEP_ASSIGN_OR_RETURN(const auto sums, Fetch(session, totals));
    result.losses.push_back(sums[0] / sums[1]);
    on_epoch(epoch, result.losses.back());
  }

  LOCKSTEP_ASSIGN_OR_RETURN(DRef local,
                            session.Call(evaluate, held_out.images, held_out.labels, parameters));
  LOCKSTEP_ASSIGN_OR_RETURN(DRef global, session.AllReduce(local, Reduction::kSum));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto counts, Fetch(session, global));
  result.correct = static_cast<int64_t>(counts[0]);
  result.held_out = static_cast<int64_t>(counts[1]);
  return result;
}

}  // namespace lockstep::examples::digits
