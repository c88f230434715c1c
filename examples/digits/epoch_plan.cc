#include "examples/digits/epoch_plan.h"

#include <numeric>
#include <utility>
#include <vector>

#include "examples/digits/mlp.h"
#include "runtime/plan/program.h"

namespace lockstep::examples::digits {

using plan::Layout;
using plan::Pass;
using plan::Placement;
using plan::Read;
using plan::Update;
using plan::ValueId;

StatusOr<BoundPlan> PlanEpoch(Session& session, const EpochRegisters& registers,
                              const EpochSize& size) {
  std::vector<Rank> ranks(static_cast<size_t>(session.num_workers()));
  std::iota(ranks.begin(), ranks.end(), 0);
  LOCKSTEP_ASSIGN_OR_RETURN(const plan::Mesh mesh, plan::Mesh::Line(std::move(ranks), "workers"));
  const auto on_all = [&](const Shape& shape, DType dtype, const Placement& placement) {
    return Layout::Make(shape, dtype, mesh, {placement});
  };
  // Rows are dealt out as a scatter does it.
  const Placement rows = Placement::Shard(0);
  const Placement same = Placement::Replicate();
  LOCKSTEP_ASSIGN_OR_RETURN(const Layout images,
                            on_all({size.samples, kPixels}, DType::kUInt8, rows));
  LOCKSTEP_ASSIGN_OR_RETURN(const Layout labels, on_all({size.samples}, DType::kUInt8, rows));
  LOCKSTEP_ASSIGN_OR_RETURN(const Layout batch_of_row, on_all({size.samples}, DType::kInt32, rows));
  LOCKSTEP_ASSIGN_OR_RETURN(const Layout parameters, on_all({kParameters}, DType::kFloat32, same));
  LOCKSTEP_ASSIGN_OR_RETURN(const Layout totals, on_all({2}, DType::kFloat64, same));
  // Each worker's sums are a summand of the gradient.
  LOCKSTEP_ASSIGN_OR_RETURN(const Layout summand, on_all({kGradientSize}, DType::kFloat64,
                                                         Placement::Partial(Reduction::kSum)));

  plan::ProgramBuilder p;
  const ValueId images_in = p.Input("images", images);
  const ValueId labels_in = p.Input("labels", labels);
  const ValueId batches_in = p.Input("batch_of_row", batch_of_row);
  const ValueId parameters_in = p.Input("parameters", parameters);
  const ValueId velocity_in = p.Input("velocity", parameters);
  const ValueId totals_in = p.Input("totals", totals);
  for (int64_t batch = 0; batch < size.batches; ++batch) {
    const ValueId local = p.Call(
        "gradient",
        {Read(images_in), Read(labels_in), Read(batches_in), Pass(batch), Read(parameters_in)},
        summand);
    p.Call("step",
           {Read(p.AllReduce(local, "workers", Reduction::kSum)), Pass(size.learning_rate),
            Pass(size.momentum), Update(parameters_in), Update(velocity_in), Update(totals_in)});
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const plan::Program program, p.Build());
  return session.Bind(program,
                      {.inputs = {{"images", registers.images},
                                  {"labels", registers.labels},
                                  {"batch_of_row", registers.batch_of_row},
                                  {"parameters", registers.parameters},
                                  {"velocity", registers.velocity},
                                  {"totals", registers.totals}},
                       .functions = {{"gradient", registers.gradient}, {"step", registers.step}}});
}

}  // namespace lockstep::examples::digits
