#include "runtime/plan/expand.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "runtime/plan/memory.h"
#include "runtime/plan/teams.h"

namespace lockstep::plan {
namespace {

constexpr int kInput = 0;
constexpr int kOutput = 1;

// A tile in a buffer; nothing where a rank is not in the mesh.
struct HeldBox {
  Box box;
  int buffer = 0;
};

class Expander {
 public:
  Expander(const Reshard& reshard, Rank rank) : reshard_(reshard), rank_(rank) {}

  RankSteps Run() {
    steps_.buffer_elements = {ElementsOf(reshard_.from), ElementsOf(reshard_.to)};
    const Layout* before = &reshard_.from;
    int from = kInput;
    for (size_t i = 0; i < reshard_.moves.size(); ++i) {
      const Move& move = reshard_.moves[i];
      const bool last = i + 1 == reshard_.moves.size();
      const int to = last ? kOutput : NewBuffer(ElementsOf(move.to));
      ExpandMove(move, *before, from, to);
      first_number_ += CountCollectives(move);
      before = &move.to;
      from = to;
    }
    if (reshard_.moves.empty()) {
      CopyBetween(TileOf(reshard_.from, kInput), TileOf(reshard_.to, kOutput));
    }
    return std::move(steps_);
  }

 private:
  std::optional<HeldBox> TileOf(const Layout& layout, int buffer) const {
    const std::optional<int> index = layout.mesh().IndexOf(rank_);
    if (!index.has_value()) return std::nullopt;
    return HeldBox{layout.TileAt(*index), buffer};
  }
  int64_t ElementsOf(const Layout& layout) const {
    const std::optional<HeldBox> tile = TileOf(layout, 0);
    return tile.has_value() ? tile->box.NumElements() : 0;
  }
  int NewBuffer(int64_t elements) {
    steps_.buffer_elements.push_back(elements);
    return static_cast<int>(steps_.buffer_elements.size()) - 1;
  }

  // This rank's team in the collective.
  const Team& TeamAt(size_t number) const { return reshard_.teams[number]->With(rank_); }

  void Add(Step step) { steps_.steps.push_back(std::move(step)); }

  // Copies elements of `box`, which both hold.
  void Copy(const Box& box, const HeldBox& from, const HeldBox& to, int64_t first, int64_t count) {
    if (count == 0) return;
    Add(CopyStep{from.buffer, to.buffer, WindowOf(box, from.box), WindowOf(box, to.box),
                 box.extents, first, count});
  }
  // What two tiles have in common.
  void CopyBetween(const std::optional<HeldBox>& from, const std::optional<HeldBox>& to) {
    if (!from.has_value() || !to.has_value()) return;
    const Box both = Intersection(from->box, to->box);
    Copy(both, *from, *to, 0, both.NumElements());
  }
  // Copies elements of `box` between a tile and a buffer, where they begin at `offset`.
  void Pack(const Box& box, const HeldBox& tile, int buffer, int64_t offset, int64_t first,
            int64_t count) {
    Window packed = DenseWindow(box.extents, offset - first);
    Add(CopyStep{tile.buffer, buffer, WindowOf(box, tile.box), std::move(packed), box.extents,
                 first, count});
  }
  void Unpack(const Box& box, int buffer, int64_t offset, const HeldBox& tile, int64_t first,
              int64_t count) {
    Window packed = DenseWindow(box.extents, offset - first);
    Add(CopyStep{buffer, tile.buffer, std::move(packed), WindowOf(box, tile.box), box.extents,
                 first, count});
  }

  void ExpandMove(const Move& move, const Layout& before, int from, int to) {
    const std::optional<HeldBox> old_tile = TileOf(before, from);
    const std::optional<HeldBox> new_tile = TileOf(move.to, to);
    switch (move.kind) {
      case Move::Kind::kExchange:
        return ExpandExchange(*move.exchange, old_tile, new_tile, before, move.to);
      case Move::Kind::kMakePartial:
        if (!new_tile.has_value() || new_tile->box.IsEmpty()) return;
        if (!old_tile.has_value() || !Contains(old_tile->box, new_tile->box)) {
          Add(FillStep{{to, 0, new_tile->box.NumElements()}, move.to.reduction()});
        }
        return CopyBetween(old_tile, new_tile);
      case Move::Kind::kAllReduce:
        if (!old_tile.has_value() || old_tile->box.IsEmpty()) return;
        return Add(CollectiveStep{static_cast<int>(first_number_),
                                  OperationKind::kAllReduce,
                                  TeamAt(first_number_),
                                  {from, 0, old_tile->box.NumElements()},
                                  {to, 0, old_tile->box.NumElements()},
                                  before.reduction(),
                                  {},
                                  {}});
      case Move::Kind::kAllGather:
        if (old_tile.has_value()) ExpandAllGather(move, before, *old_tile, *new_tile);
        return;
      case Move::Kind::kReduceScatter:
        if (old_tile.has_value()) ExpandReduceScatter(move, before, *old_tile, *new_tile);
        return;
    }
  }

  std::vector<int> SliceAlong(const Layout& layout, const std::vector<int>& axes) const {
    return layout.mesh().Slice(*layout.mesh().IndexOf(rank_), axes);
  }
  // The members' tiles in `parts`, which together are `whole`.
  struct Parts {
    std::vector<Box> boxes;
    std::vector<int64_t> counts;
    // They lie in `whole` one after the other, each without gaps.
    bool in_a_row = true;
  };
  Parts PartsAlong(const Layout& parts, const std::vector<int>& axes, const Box& whole) const {
    Parts result;
    int64_t offset = 0;
    for (int index : SliceAlong(parts, axes)) {
      const Box box = parts.TileAt(index);
      result.boxes.push_back(box);
      result.counts.push_back(box.NumElements());
      if (box.IsEmpty()) continue;
      const Window window = WindowOf(box, whole);
      if (window.offset != offset || !IsDense(window, box.extents)) result.in_a_row = false;
      offset += box.NumElements();
    }
    return result;
  }

  void ExpandAllGather(const Move& move, const Layout& before, const HeldBox& old_tile,
                       const HeldBox& new_tile) {
    if (new_tile.box.IsEmpty()) return;
    const Parts parts = PartsAlong(before, move.axes, new_tile.box);
    const int64_t total = new_tile.box.NumElements();
    const int gathered = parts.in_a_row ? new_tile.buffer : NewBuffer(total);
    Add(CollectiveStep{static_cast<int>(first_number_),
                       OperationKind::kAllGather,
                       TeamAt(first_number_),
                       {old_tile.buffer, 0, old_tile.box.NumElements()},
                       {gathered, 0, total},
                       Reduction::kSum,
                       parts.counts,
                       {}});
    if (parts.in_a_row) return;
    int64_t offset = 0;
    for (size_t i = 0; i < parts.boxes.size(); ++i) {
      if (parts.counts[i] > 0) {
        Unpack(parts.boxes[i], gathered, offset, new_tile, 0, parts.counts[i]);
      }
      offset += parts.counts[i];
    }
  }

  void ExpandReduceScatter(const Move& move, const Layout& before, const HeldBox& old_tile,
                           const HeldBox& new_tile) {
    if (old_tile.box.IsEmpty()) return;
    const Parts parts = PartsAlong(move.to, move.axes, old_tile.box);
    const int64_t total = old_tile.box.NumElements();
    const int packed = parts.in_a_row ? old_tile.buffer : NewBuffer(total);
    int64_t offset = 0;
    for (size_t i = 0; i < parts.boxes.size() && !parts.in_a_row; ++i) {
      if (parts.counts[i] > 0) Pack(parts.boxes[i], old_tile, packed, offset, 0, parts.counts[i]);
      offset += parts.counts[i];
    }
    Add(CollectiveStep{static_cast<int>(first_number_),
                       OperationKind::kReduceScatter,
                       TeamAt(first_number_),
                       {packed, 0, total},
                       {new_tile.buffer, 0, new_tile.box.NumElements()},
                       before.reduction(),
                       parts.counts,
                       {}});
  }

  void ExpandExchange(const Exchange& exchange, const std::optional<HeldBox>& old_tile,
                      const std::optional<HeldBox>& new_tile, const Layout& before,
                      const Layout& after) {
    if (old_tile.has_value() && new_tile.has_value() &&
        before.LayerAt(*before.mesh().IndexOf(rank_)) ==
            after.LayerAt(*after.mesh().IndexOf(rank_))) {
      CopyBetween(old_tile, new_tile);
    }
    for (size_t i = 0; i < exchange.rounds.size(); ++i) {
      ExpandRound(exchange, i, old_tile, new_tile);
    }
  }

  // Packs what this rank sends, in the order of the team; all-to-all; unpacks.
  void ExpandRound(const Exchange& exchange, size_t number, const std::optional<HeldBox>& old_tile,
                   const std::optional<HeldBox>& new_tile) {
    const Team& team = TeamAt(first_number_ + number);
    if (team.empty()) return;
    const std::vector<Piece>& round = exchange.rounds[number];
    const PiecesByRank& pieces = exchange.by_rank[number];
    std::vector<int64_t> sent(team.size(), 0);
    std::vector<int64_t> received(team.size(), 0);
    const auto place_of = [&](Rank rank) {
      return static_cast<size_t>(std::lower_bound(team.begin(), team.end(), rank) - team.begin());
    };
    for (const uint32_t i : pieces.SentBy(rank_)) sent[place_of(round[i].to)] += round[i].count;
    for (const uint32_t i : pieces.ReceivedBy(rank_)) {
      received[place_of(round[i].from)] += round[i].count;
    }
    const int64_t to_send = std::accumulate(sent.begin(), sent.end(), int64_t{0});
    const int64_t to_receive = std::accumulate(received.begin(), received.end(), int64_t{0});
    // A holder has it in its old tile; what was received before lies in the new one.
    const auto tile_of = [&](const Piece& piece) -> const HeldBox& {
      const std::vector<Rank>& holders = exchange.flows[static_cast<size_t>(piece.flow)].holders;
      return std::binary_search(holders.begin(), holders.end(), rank_) ? *old_tile : *new_tile;
    };
    std::vector<Placed> sending;
    std::vector<Placed> receiving;
    std::vector<int64_t> send_offsets = Offsets(sent);
    std::vector<int64_t> recv_offsets = Offsets(received);
    const auto box_of = [&](const Piece& piece) {
      return &exchange.flows[static_cast<size_t>(piece.flow)].box;
    };
    for (const uint32_t i : pieces.SentBy(rank_)) {
      int64_t& offset = send_offsets[place_of(round[i].to)];
      sending.push_back({&round[i], box_of(round[i]), tile_of(round[i]), offset});
      offset += round[i].count;
    }
    for (const uint32_t i : pieces.ReceivedBy(rank_)) {
      int64_t& offset = recv_offsets[place_of(round[i].from)];
      receiving.push_back({&round[i], box_of(round[i]), *new_tile, offset});
      offset += round[i].count;
    }
    const Span send = Together(sending, to_send);
    const Span recv = Together(receiving, to_receive);
    for (const Placed& one : sending) {
      if (send.buffer == one.tile.buffer) break;
      Pack(*one.box, one.tile, send.buffer, one.offset, one.piece->first, one.piece->count);
    }
    Add(CollectiveStep{static_cast<int>(first_number_ + number), OperationKind::kAllToAll, team,
                       send, recv, Reduction::kSum, sent, received});
    for (const Placed& one : receiving) {
      if (recv.buffer == one.tile.buffer) break;
      Unpack(*one.box, recv.buffer, one.offset, one.tile, one.piece->first, one.piece->count);
    }
  }

  // A piece that this rank sends or receives: it is at `offset` of what goes in the round, in all.
  struct Placed {
    const Piece* piece = nullptr;
    const Box* box = nullptr;
    HeldBox tile;
    int64_t offset = 0;
  };

  // Where the pieces lie one after the other: in their tile, if they lie so there, and nothing has
  // to be packed; else in a buffer for that.
  Span Together(const std::vector<Placed>& pieces, int64_t count) {
    std::optional<Span> in_tile;
    for (const Placed& one : pieces) {
      const Window window = WindowOf(*one.box, one.tile.box);
      const int64_t begin = window.offset + one.piece->first - one.offset;
      if (!IsDense(window, one.box->extents)) return {NewBuffer(count), 0, count};
      if (!in_tile.has_value()) in_tile = Span{one.tile.buffer, begin, count};
      if (in_tile->buffer != one.tile.buffer || in_tile->offset != begin) {
        return {NewBuffer(count), 0, count};
      }
    }
    return in_tile.value_or(Span{kInput, 0, 0});
  }

  static std::vector<int64_t> Offsets(const std::vector<int64_t>& counts) {
    std::vector<int64_t> offsets;
    int64_t offset = 0;
    for (int64_t count : counts) {
      offsets.push_back(offset);
      offset += count;
    }
    return offsets;
  }

  const Reshard& reshard_;
  const Rank rank_;
  RankSteps steps_;
  size_t first_number_ = 0;  // of the collectives of the move that is expanded
};

}  // namespace

RankSteps Expand(const Reshard& reshard, Rank rank) { return Expander(reshard, rank).Run(); }

}  // namespace lockstep::plan
