#include "examples/fragments/calls.h"

#include <fstream>
#include <numeric>
#include <sstream>
#include <utility>

#include "examples/support/find_file.h"

namespace lockstep::examples::fragments {

StatusOr<Fragment> ReadFragment(const std::string& name) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string path, FindFile("examples/fragments/" + name));
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return Fragment::Mlir(text.str(), name);
}

StatusOr<DRef> PlaceByRows(Session& session, const HostTensor& tensor) {
  std::vector<Rank> ranks(static_cast<size_t>(session.num_workers()));
  std::iota(ranks.begin(), ranks.end(), 0);
  LOCKSTEP_ASSIGN_OR_RETURN(plan::Mesh workers, plan::Mesh::Line(std::move(ranks)));
  LOCKSTEP_ASSIGN_OR_RETURN(const plan::Layout rows,
                            plan::Layout::Make(tensor.shape, tensor.dtype, std::move(workers),
                                               {plan::Placement::Shard(0)}));
  return session.Place(tensor, rows);
}

}  // namespace lockstep::examples::fragments
