#include "examples/digits/train.h"

#include <array>
#include <numeric>
#include <optional>
#include <utility>

#include "examples/digits/batches.h"
#include "examples/digits/epoch_plan.h"
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

// Training goes on in these registers.
struct Trainee {
  EpochRegisters registers;
  DRef ids;  // of the samples, by row
  DRef deal_batches, full, copy;
};

StatusOr<Trainee> Prepare(Session& session, const DRef& module, const Dataset& data, int64_t seed) {
  Trainee t;
  EpochRegisters& r = t.registers;
  LOCKSTEP_ASSIGN_OR_RETURN(t.deal_batches, session.GetFunction(module, "deal_batches"));
  LOCKSTEP_ASSIGN_OR_RETURN(r.gradient, session.GetFunction(module, "gradient"));
  LOCKSTEP_ASSIGN_OR_RETURN(r.step, session.GetFunction(module, "step"));
  LOCKSTEP_ASSIGN_OR_RETURN(t.full, session.GetFunction("lockstep.full"));
  LOCKSTEP_ASSIGN_OR_RETURN(t.copy, session.GetFunction("lockstep.copy"));

  // The data is dealt out, the parameters are the same everywhere.
  LOCKSTEP_ASSIGN_OR_RETURN(Shards training, Scatter(session, data));
  r.images = std::move(training.images);
  r.labels = std::move(training.labels);
  t.ids = std::move(training.ids);
  LOCKSTEP_ASSIGN_OR_RETURN(
      DRef initial,
      PutOnWorker0(session, {kParameters}, InitialParameters(static_cast<uint64_t>(seed))));
  LOCKSTEP_ASSIGN_OR_RETURN(r.parameters, session.BroadcastFromWorker0(initial));
  LOCKSTEP_ASSIGN_OR_RETURN(r.velocity,
                            session.Call(t.full, Shape{kParameters}, 0.0, DType::kFloat32));
  return t;
}

// One step for each batch. Only queues work: the client runs ahead of the workers.
Status TakeSteps(Session& session, const EpochRegisters& r, const EpochSize& size) {
  for (int64_t batch = 0; batch < size.batches; ++batch) {
    LOCKSTEP_ASSIGN_OR_RETURN(DRef local, session.Call(r.gradient, r.images, r.labels,
                                                       r.batch_of_row, batch, r.parameters));
    LOCKSTEP_ASSIGN_OR_RETURN(DRef global, session.AllReduce(local, Reduction::kSum));
    LOCKSTEP_ASSIGN_OR_RETURN(
        DRef none, session.Call(r.step, global, size.learning_rate, size.momentum, r.parameters,
                                r.velocity, r.totals));
  }
  return OkStatus();
}

}  // namespace

StatusOr<TrainResult> Train(Session& session, const std::string& module_path, const Split& data,
                            const TrainOptions& options,
                            const std::function<void(int epoch, double loss)>& on_epoch) {
  LOCKSTEP_ASSIGN_OR_RETURN(DRef module, session.LoadModule(module_path));
  LOCKSTEP_ASSIGN_OR_RETURN(DRef evaluate, session.GetFunction(module, "evaluate"));
  LOCKSTEP_ASSIGN_OR_RETURN(Trainee trainee, Prepare(session, module, data.training, options.seed));
  LOCKSTEP_ASSIGN_OR_RETURN(Shards held_out, Scatter(session, data.held_out));

  TrainResult result;
  const int64_t samples = data.training.size();
  const EpochSize size{samples, BatchesPerEpoch(samples, options.batch_size), options.learning_rate,
                       options.momentum};
  EpochRegisters& registers = trainee.registers;
  std::optional<BoundPlan> plan;
  for (int epoch = 0; epoch < options.epochs; ++epoch) {
    LOCKSTEP_ASSIGN_OR_RETURN(DRef totals,
                              session.Call(trainee.full, Shape{2}, 0.0, DType::kFloat64));
    LOCKSTEP_ASSIGN_OR_RETURN(DRef batch_of_row,
                              session.Call(trainee.deal_batches, trainee.ids, samples,
                                           options.batch_size, options.seed, epoch));
    if (plan.has_value()) {
      // It keeps to the registers that it was bound to.
      LOCKSTEP_RETURN_IF_ERROR(
          session.Call(trainee.copy, batch_of_row, registers.batch_of_row).status());
      LOCKSTEP_RETURN_IF_ERROR(session.Call(trainee.copy, totals, registers.totals).status());
    } else {
      registers.batch_of_row = std::move(batch_of_row);
      registers.totals = std::move(totals);
    }
    if (options.as_plan && !plan.has_value()) {
      LOCKSTEP_ASSIGN_OR_RETURN(plan, PlanEpoch(session, registers, size));
    }
    LOCKSTEP_RETURN_IF_ERROR(plan.has_value() ? plan->Execute()
                                              : TakeSteps(session, registers, size));
    // The only wait of the epoch. Every worker has the same totals; worker-0's are looked at.
    LOCKSTEP_ASSIGN_OR_RETURN(const auto sums, Fetch(session, registers.totals));
    result.losses.push_back(sums[0] / sums[1]);
    on_epoch(epoch, result.losses.back());
  }
  result.parameters.resize(kParameters);
  LOCKSTEP_RETURN_IF_ERROR(session.CopyFromWorker0(
      ViewOf(result.parameters.data(), result.parameters.size()), registers.parameters));

  LOCKSTEP_ASSIGN_OR_RETURN(
      DRef local, session.Call(evaluate, held_out.images, held_out.labels, registers.parameters));
  LOCKSTEP_ASSIGN_OR_RETURN(DRef global, session.AllReduce(local, Reduction::kSum));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto counts, Fetch(session, global));
  result.correct = static_cast<int64_t>(counts[0]);
  result.held_out = static_cast<int64_t>(counts[1]);
  return result;
}

}  // namespace lockstep::examples::digits
