#include "runtime/plan/layout_codec.h"

#include <string>
#include <utility>
#include <vector>

namespace lockstep::plan {
namespace {

void WriteMesh(wire::Mesh::Builder builder, const Mesh& mesh) {
  auto axes = builder.initAxes(static_cast<unsigned>(mesh.num_axes()));
  for (unsigned a = 0; a < axes.size(); ++a) {
    axes[a].setName(mesh.axes()[a].name);
    axes[a].setSize(static_cast<uint32_t>(mesh.axes()[a].size));
  }
  auto ranks = builder.initRanks(static_cast<unsigned>(mesh.size()));
  for (unsigned i = 0; i < ranks.size(); ++i) ranks.set(i, mesh.RankAt(static_cast<int>(i)));
}

StatusOr<Mesh> ReadMesh(wire::Mesh::Reader reader, int world_size) {
  std::vector<MeshAxis> axes;
  for (auto axis : reader.getAxes()) {
    if (axis.getSize() > Mesh::kMaxRanks) {
      return InvalidArgument("an axis of the mesh has the size ", axis.getSize(),
                             "; the largest is ", Mesh::kMaxRanks);
    }
    axes.push_back({std::string(axis.getName().cStr(), axis.getName().size()),
                    static_cast<int>(axis.getSize())});
  }
  std::vector<Rank> ranks;
  for (const Rank rank : reader.getRanks()) {
    if (rank < 0 || rank >= world_size) {
      return InvalidArgument("the mesh names rank ", rank, ", and the cluster has the ranks 0 to ",
                             world_size - 1);
    }
    ranks.push_back(rank);
  }
  return Mesh::Make(std::move(axes), std::move(ranks));
}

StatusOr<int> ReadDim(uint32_t dim) {
  if (dim >= Shape::kMaxDims) return InvalidArgument("a placement shards dimension ", dim);
  return static_cast<int>(dim);
}

void WritePlacement(wire::Placement::Builder builder, const Placement& placement) {
  if (placement.is_partial()) return builder.setPartial(static_cast<uint8_t>(placement.op));
  if (!placement.is_shard()) return builder.setReplicate();
  const auto dim = static_cast<uint32_t>(placement.dim);
  if (placement.extents == nullptr) return builder.setShard(dim);
  const absl::Span<const int64_t> extents = placement.extents->counts();
  auto shard = builder.initShardByExtents();
  shard.setDim(dim);
  auto list = shard.initExtents(static_cast<unsigned>(extents.size()));
  for (unsigned i = 0; i < list.size(); ++i) list.set(i, extents[i]);
}

StatusOr<Placement> ReadPlacement(wire::Placement::Reader reader) {
  switch (reader.which()) {
    case wire::Placement::REPLICATE:
      return Placement::Replicate();
    case wire::Placement::SHARD: {
      LOCKSTEP_ASSIGN_OR_RETURN(const int dim, ReadDim(reader.getShard()));
      return Placement::Shard(dim);
    }
    case wire::Placement::SHARD_BY_EXTENTS: {
      LOCKSTEP_ASSIGN_OR_RETURN(const int dim, ReadDim(reader.getShardByExtents().getDim()));
      const auto list = reader.getShardByExtents().getExtents();
      // Looked at before anything is made of them; Layout::Make() looks at the numbers.
      if (list.size() > Mesh::kMaxRanks) {
        return InvalidArgument("a placement gives ", list.size(),
                               " extents, and an axis has at "
                               "most ",
                               Mesh::kMaxRanks, " coordinates");
      }
      std::vector<int64_t> extents;
      for (const int64_t extent : list) extents.push_back(extent);
      return Placement::Shard(dim, std::move(extents));
    }
    case wire::Placement::PARTIAL:
      if (reader.getPartial() >= kReductionCount) {
        return InvalidArgument("a placement has the unknown reduction ", +reader.getPartial());
      }
      return Placement::Partial(static_cast<Reduction>(reader.getPartial()));
  }
  return InvalidArgument("unknown placement number ", static_cast<int>(reader.which()));
}

}  // namespace

void WriteLayout(wire::Layout::Builder builder, const Layout& layout) {
  auto dims = builder.initShape(static_cast<unsigned>(layout.shape().ndim()));
  for (unsigned d = 0; d < dims.size(); ++d) dims.set(d, layout.shape()[static_cast<int>(d)]);
  builder.setDtype(static_cast<wire::DType>(layout.dtype()));
  WriteMesh(builder.initMesh(), layout.mesh());
  auto placements = builder.initPlacements(static_cast<unsigned>(layout.placements().size()));
  for (unsigned a = 0; a < placements.size(); ++a) {
    WritePlacement(placements[a], layout.placements()[a]);
  }
}

StatusOr<Layout> ReadLayout(wire::Layout::Reader reader, int world_size) {
  if (reader.getShape().size() > Shape::kMaxDims) {
    return InvalidArgument("a tensor has at most ", Shape::kMaxDims, " dimensions, not ",
                           reader.getShape().size());
  }
  std::vector<int64_t> extents;
  for (const int64_t extent : reader.getShape()) extents.push_back(extent);
  LOCKSTEP_ASSIGN_OR_RETURN(const DType dtype,
                            DTypeFromNumber(static_cast<int>(reader.getDtype())));
  LOCKSTEP_ASSIGN_OR_RETURN(Mesh mesh, ReadMesh(reader.getMesh(), world_size));
  std::vector<Placement> placements;
  for (auto placement : reader.getPlacements()) {
    LOCKSTEP_ASSIGN_OR_RETURN(const Placement read, ReadPlacement(placement));
    placements.push_back(read);
  }
  return Layout::Make(Shape(absl::MakeConstSpan(extents)), dtype, std::move(mesh),
                      std::move(placements));
}

}  // namespace lockstep::plan
