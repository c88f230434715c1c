#include "runtime/plan/steps/expand.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "runtime/plan/lowering/teams.h"
#include "runtime/plan/steps/memory.h"

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
      case Move::Kind::kCombine:
        return ExpandCombination(*move.combination, old_tile, new_tile);
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
    // A holder has it in its old tile; what was received before lies in the new one.
    const auto place_of = [&](const Piece& piece, const Flow& flow, int64_t offset) {
      return PlacedIn(HoldsAny(flow) ? *old_tile : *new_tile, piece, flow.box, offset);
    };
    ExpandRounds(exchange, first_number_, place_of, new_tile);
  }

  bool HoldsAny(const Flow& flow) const {
    return std::binary_search(flow.holders.begin(), flow.holders.end(), rank_);
  }
  bool Needs(const Flow& flow) const {
    return std::binary_search(flow.needers.begin(), flow.needers.end(), rank_);
  }

  // Packs what others combine, and itself; reduce-scatter; unpacks what this rank needs of what it
  // has combined; then the exchange.
  void ExpandCombination(const Combination& combination, const std::optional<HeldBox>& old_tile,
                         const std::optional<HeldBox>& new_tile) {
    const Exchange& exchange = combination.exchange;
    const auto flow_of = [&](const Piece& piece) -> const Flow& {
      return exchange.flows[static_cast<size_t>(piece.flow)];
    };
    std::vector<const Piece*> combined;  // by this rank
    std::vector<int64_t> offsets;        // of each, in `result`
    Span result;
    if (const CombiningTeam* const team = combination.TeamWith(rank_)) {
      std::vector<Placed> sending;
      int64_t sent = 0;
      int64_t count = 0;
      bool needs_all = true;
      for (const Piece& piece : team->pieces) {
        sending.push_back(PlacedIn(*old_tile, piece, flow_of(piece).box, sent));
        sent += piece.count;
        if (piece.to != rank_) continue;
        combined.push_back(&piece);
        offsets.push_back(count);
        count += piece.count;
        needs_all = needs_all && Needs(flow_of(piece));
      }
      std::vector<Placed> kept;
      for (size_t i = 0; i < combined.size(); ++i) {
        const Flow& flow = flow_of(*combined[i]);
        if (Needs(flow)) kept.push_back(PlacedIn(*new_tile, *combined[i], flow.box, offsets[i]));
      }
      const Span send = Gathered(sending, sent);
      result = needs_all ? Together(kept, count) : Span{NewBuffer(count), 0, count};
      Add(CollectiveStep{static_cast<int>(first_number_),
                         OperationKind::kReduceScatter,
                         team->ranks,
                         send,
                         result,
                         reshard_.from.reduction(),
                         team->Counts(),
                         {}});
      Scattered(kept, result);
    }
    const auto place_of = [&](const Piece& piece, const Flow& flow, int64_t offset) {
      if (!HoldsAny(flow)) return PlacedIn(*new_tile, piece, flow.box, offset);
      size_t i = 0;
      while (combined[i]->flow != piece.flow) ++i;
      // Of the flow's first element, if all were there.
      const int64_t begin = result.offset + offsets[i] - combined[i]->first;
      return Placed{&piece, result.buffer, DenseWindow(flow.box.extents, begin), &flow.box, offset};
    };
    ExpandRounds(exchange, first_number_ + 1, place_of, new_tile);
  }

  // A piece that this rank sends or receives: where its flow's box is, and its offset in what goes
  // in the round, in all.
  struct Placed {
    const Piece* piece = nullptr;
    int buffer = 0;
    Window window;
    const Box* box = nullptr;
    int64_t offset = 0;
  };
  static Placed PlacedIn(const HeldBox& tile, const Piece& piece, const Box& box, int64_t offset) {
    return {&piece, tile.buffer, WindowOf(box, tile.box), &box, offset};
  }

  template <typename PlaceOf>
  void ExpandRounds(const Exchange& exchange, size_t first_number, PlaceOf&& place_of,
                    const std::optional<HeldBox>& new_tile) {
    for (size_t i = 0; i < exchange.rounds.size(); ++i) {
      ExpandRound(exchange, i, first_number + i, place_of, new_tile);
    }
  }

  // Packs what this rank sends, in the order of the team; all-to-all; unpacks.
  template <typename PlaceOf>
  void ExpandRound(const Exchange& exchange, size_t i, size_t number, PlaceOf&& place_of,
                   const std::optional<HeldBox>& new_tile) {
    const Team& team = TeamAt(number);
    if (team.empty()) return;
    const std::vector<Piece>& round = exchange.rounds[i];
    const PiecesByRank& pieces = exchange.by_rank[i];
    std::vector<int64_t> sent(team.size(), 0);
    std::vector<int64_t> received(team.size(), 0);
    const auto member = [&](Rank rank) {
      return static_cast<size_t>(std::lower_bound(team.begin(), team.end(), rank) - team.begin());
    };
    for (const uint32_t p : pieces.SentBy(rank_)) sent[member(round[p].to)] += round[p].count;
    for (const uint32_t p : pieces.ReceivedBy(rank_)) {
      received[member(round[p].from)] += round[p].count;
    }
    const int64_t to_send = std::accumulate(sent.begin(), sent.end(), int64_t{0});
    const int64_t to_receive = std::accumulate(received.begin(), received.end(), int64_t{0});
    std::vector<Placed> sending;
    std::vector<Placed> receiving;
    std::vector<int64_t> send_offsets = Offsets(sent);
    std::vector<int64_t> recv_offsets = Offsets(received);
    const auto flow_of = [&](const Piece& piece) -> const Flow& {
      return exchange.flows[static_cast<size_t>(piece.flow)];
    };
    for (const uint32_t p : pieces.SentBy(rank_)) {
      int64_t& offset = send_offsets[member(round[p].to)];
      sending.push_back(place_of(round[p], flow_of(round[p]), offset));
      offset += round[p].count;
    }
    for (const uint32_t p : pieces.ReceivedBy(rank_)) {
      int64_t& offset = recv_offsets[member(round[p].from)];
      receiving.push_back(PlacedIn(*new_tile, round[p], flow_of(round[p]).box, offset));
      offset += round[p].count;
    }
    const Span send = Gathered(sending, to_send);
    const Span recv = Together(receiving, to_receive);
    Add(CollectiveStep{static_cast<int>(number), OperationKind::kAllToAll, team, send, recv,
                       Reduction::kSum, sent, received});
    Scattered(receiving, recv);
  }

  // Where the pieces lie one after the other, packed if need be.
  Span Gathered(const std::vector<Placed>& pieces, int64_t count) {
    const Span all = Together(pieces, count);
    for (const Placed& one : pieces) {
      if (all.buffer == one.buffer) break;
      Window packed = DenseWindow(one.box->extents, one.offset - one.piece->first);
      Add(CopyStep{one.buffer, all.buffer, one.window, std::move(packed), one.box->extents,
                   one.piece->first, one.piece->count});
    }
    return all;
  }
  // And back, from where they lie so.
  void Scattered(const std::vector<Placed>& pieces, const Span& all) {
    for (const Placed& one : pieces) {
      if (all.buffer == one.buffer) break;
      Window packed = DenseWindow(one.box->extents, all.offset + one.offset - one.piece->first);
      Add(CopyStep{all.buffer, one.buffer, std::move(packed), one.window, one.box->extents,
                   one.piece->first, one.piece->count});
    }
  }

  // Where the pieces lie one after the other: where they are, if they lie so there, and nothing has
  // to be packed; else in a buffer for that.
  Span Together(const std::vector<Placed>& pieces, int64_t count) {
    std::optional<Span> in_place;
    for (const Placed& one : pieces) {
      const int64_t begin = one.window.offset + one.piece->first - one.offset;
      if (!IsDense(one.window, one.box->extents)) return {NewBuffer(count), 0, count};
      if (!in_place.has_value()) in_place = Span{one.buffer, begin, count};
      if (in_place->buffer != one.buffer || in_place->offset != begin) {
        return {NewBuffer(count), 0, count};
      }
    }
    return in_place.value_or(Span{kInput, 0, 0});
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
