// Exchange: who sends which elements to whom, so that a tensor in one layout is in another.
//
// Works for any two layouts of a tensor, on the same mesh or others, by their *tile map*: what a
// tile of the new layout and one of the old have in common is a box, which the ranks that hold the
// old tile can send, and which those of the new tile that lack it have to get. In each flow
//   - a rank receives exactly what it lacks, once;
//   - what leaves the holders is divided evenly among them, and leaves them once if it is
//   forwarded;
//   - what lies on the node of a rank that lacks it comes from there; across nodes each element
//     enters a node once if it is forwarded.
// Forwarding is a scatter to the ranks that lack the box, which then give each other their chunks:
// van de Geijn's broadcast (Barnett et al., "Building a high-performance collective communication
// library", 1994), within each node and among nodes.
//
// Pure functions. Threads: any.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/ids.h"
#include "runtime/plan/box.h"
#include "runtime/plan/layout.h"
#include "runtime/plan/lowering/topology.h"

namespace lockstep::plan {

// A box that `needers` lack and `holders` hold. Ranks ascend; no rank is in both.
struct Flow {
  Box box;
  std::vector<Rank> holders;
  std::vector<Rank> needers;
  bool operator==(const Flow&) const = default;
};

// Elements [first, first + count) of a flow's box, in row-major order, go from a rank to another.
struct Piece {
  Rank from = 0;
  Rank to = 0;
  int flow = 0;  // index
  int64_t first = 0;
  int64_t count = 0;
  bool operator==(const Piece&) const = default;
};

enum class Spread : uint8_t {
  kDirect,     // one round: each rank gets all it lacks from holders
  kForwarded,  // up to three rounds: to some rank each, across nodes, within nodes
};

// Which pieces of a round each rank has to do with, as indices, in the order of the round.
class PiecesByRank {
 public:
  explicit PiecesByRank(const std::vector<Piece>& round);

  absl::Span<const uint32_t> SentBy(Rank rank) const { return sent_.Of(rank); }
  absl::Span<const uint32_t> ReceivedBy(Rank rank) const { return received_.Of(rank); }

 private:
  struct Lists {
    absl::Span<const uint32_t> Of(Rank rank) const;

    std::vector<uint32_t> indices;  // those of rank 0, of rank 1, ...
    std::vector<uint32_t> ends;     // by rank: where those of the rank end
  };
  static Lists Sort(const std::vector<Piece>& round, Rank Piece::*whose);

  Lists sent_;
  Lists received_;
};

struct Exchange {
  std::vector<Flow> flows;
  // In each round a rank sends what it held before it. Rounds are not empty; none at all: every
  // rank has what it needs.
  std::vector<std::vector<Piece>> rounds;
  std::vector<PiecesByRank> by_rank;  // of each round
};

// Both layouts are of one shape and dtype, and have the same number of layers (LayerAt()), each of
// which stays what it is. Nothing if it has more than `most_pieces` pieces.
std::optional<Exchange> PlanExchange(const Layout& from, const Layout& to, const Topology& topology,
                                     Spread spread, int64_t most_pieces);

}  // namespace lockstep::plan
