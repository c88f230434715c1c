// Every collective of a session, on every kind of cluster, checked on every rank against a model of
// what it should do.
#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "tests/integration/session_fixture.h"

namespace lockstep::testing {
namespace {

// A tensor of `rows` rows of three elements: enough to tell rows from elements.
constexpr int64_t kColumns = 3;

struct Rows {
  std::vector<float> elements;

  int64_t count() const { return static_cast<int64_t>(elements.size()) / kColumns; }
  Rows Part(int parts, int index) const {
    const lockstep::Part part = EvenPart(count(), parts, index);
    return {{elements.begin() + part.begin * kColumns,
             elements.begin() + (part.begin + part.count) * kColumns}};
  }
  HostTensor ToTensor() const { return HostTensor::Of<float>({count(), kColumns}, elements); }
};

// Different on every rank, and small enough for exact sums.
Rows MakeRows(int64_t count, Rank rank) {
  Rows rows;
  for (int64_t i = 0; i < count * kColumns; ++i) {
    rows.elements.push_back(static_cast<float>(rank * 1000 + i));
  }
  return rows;
}

Rows Sum(const std::vector<Rows>& inputs) {
  Rows sum = inputs.front();
  for (size_t r = 1; r < inputs.size(); ++r) {
    for (size_t i = 0; i < sum.elements.size(); ++i) sum.elements[i] += inputs[r].elements[i];
  }
  return sum;
}

Rows Concat(const std::vector<Rows>& inputs) {
  Rows all;
  for (const Rows& rows : inputs) {
    all.elements.insert(all.elements.end(), rows.elements.begin(), rows.elements.end());
  }
  return all;
}

using Inputs = std::vector<Rows>;
using MaybeRows = std::optional<Rows>;

// A collective and its model.
struct Operation {
  const char* name;
  // Ranks may have different numbers of rows.
  bool uneven;
  std::function<StatusOr<DRef>(Session&, const DRef&, const CollectiveOptions&)> issue;
  // What the member at place `me` has afterwards; `inputs` are the members' in their order.
  std::function<MaybeRows(const Inputs& inputs, int me)> model;
};

// The root of rooted operations: not the first, and there is one in a group of two.
constexpr Rank kRoot = 1;

const Operation kOperations[] = {
    {"AllReduce", false,
     [](Session& s, const DRef& x, const CollectiveOptions& o) {
       return s.AllReduce(x, Reduction::kSum, o);
     },
     [](const Inputs& in, int) -> MaybeRows { return Sum(in); }},
    {"Reduce", false,
     [](Session& s, const DRef& x, const CollectiveOptions& o) {
       return s.Reduce(x, Reduction::kSum, kRoot, o);
     },
     [](const Inputs& in, int me) { return me == kRoot ? MaybeRows(Sum(in)) : std::nullopt; }},
    {"Broadcast", true,
     [](Session& s, const DRef& x, const CollectiveOptions& o) { return s.Broadcast(x, kRoot, o); },
     [](const Inputs& in, int) -> MaybeRows { return in[kRoot]; }},
    {"BroadcastFromWorker0", true,
     [](Session& s, const DRef& x, const CollectiveOptions& o) {
       return s.BroadcastFromWorker0(x, o);
     },
     [](const Inputs& in, int) -> MaybeRows { return in[0]; }},
    {"Scatter", true,
     [](Session& s, const DRef& x, const CollectiveOptions& o) { return s.Scatter(x, kRoot, o); },
     [](const Inputs& in, int me) -> MaybeRows {
       return in[kRoot].Part(static_cast<int>(in.size()), me);
     }},
    {"ScatterFromWorker0", true,
     [](Session& s, const DRef& x, const CollectiveOptions& o) {
       return s.ScatterFromWorker0(x, o);
     },
     [](const Inputs& in, int me) -> MaybeRows {
       return in[0].Part(static_cast<int>(in.size()), me);
     }},
    {"Gather", true,
     [](Session& s, const DRef& x, const CollectiveOptions& o) { return s.Gather(x, kRoot, o); },
     [](const Inputs& in, int me) { return me == kRoot ? MaybeRows(Concat(in)) : std::nullopt; }},
    {"GatherToWorker0", true,
     [](Session& s, const DRef& x, const CollectiveOptions& o) { return s.GatherToWorker0(x, o); },
     [](const Inputs& in, int me) { return me == 0 ? MaybeRows(Concat(in)) : std::nullopt; }},
    {"AllGather", true,
     [](Session& s, const DRef& x, const CollectiveOptions& o) { return s.AllGather(x, o); },
     [](const Inputs& in, int) -> MaybeRows { return Concat(in); }},
    {"ReduceScatter", false,
     [](Session& s, const DRef& x, const CollectiveOptions& o) {
       return s.ReduceScatter(x, Reduction::kSum, o);
     },
     [](const Inputs& in, int me) -> MaybeRows {
       return Sum(in).Part(static_cast<int>(in.size()), me);
     }},
    {"AllToAll", true,
     [](Session& s, const DRef& x, const CollectiveOptions& o) { return s.AllToAll(x, o); },
     [](const Inputs& in, int me) -> MaybeRows {
       Inputs parts;
       for (const Rows& rows : in) parts.push_back(rows.Part(static_cast<int>(in.size()), me));
       return Concat(parts);
     }},
};

// Where a collective takes place: which ranks its members are, for each rank.
struct MemberSet {
  const char* name;
  bool in_group;
  std::vector<Rank> team;

  // Empty: the rank does not take part.
  std::vector<Rank> MembersWith(Rank rank) const {
    if (in_group) return rank < 2 ? std::vector<Rank>{0, 1} : std::vector<Rank>{2, 3};
    if (team.empty()) return {0, 1, 2, 3};
    return std::count(team.begin(), team.end(), rank) > 0 ? team : std::vector<Rank>();
  }
};
const MemberSet kMemberSets[] = {
    {"the world", false, {}},
    {"groups", true, {}},
    {"a team", false, {3, 0, 2}},
    {"a team of two", false, {2, 1}},
};

class CollectivesTest : public SessionFixture {
 protected:
  void Check(const Operation& operation, const MemberSet& member_set,
             const std::vector<int64_t>& row_counts, bool with_destination);
};
INSTANTIATE_TEST_SUITE_P(Clusters, CollectivesTest, ::testing::ValuesIn(AllKinds()), NameOf);

void CollectivesTest::Check(const Operation& operation, const MemberSet& member_set,
                            const std::vector<int64_t>& row_counts, bool with_destination) {
  SCOPED_TRACE(std::string(operation.name) + " in " + member_set.name +
               (with_destination ? " with a destination" : "") + ", rows " +
               ::testing::PrintToString(row_counts));
  Inputs inputs;
  for (Rank rank = 0; rank < kWorkers; ++rank) {
    inputs.push_back(MakeRows(row_counts[static_cast<size_t>(rank)], rank));
  }
  // What each rank should have in the end.
  std::vector<MaybeRows> expected;
  for (Rank rank = 0; rank < kWorkers; ++rank) {
    const std::vector<Rank> members = member_set.MembersWith(rank);
    Inputs of_members;
    for (Rank member : members) of_members.push_back(inputs[static_cast<size_t>(member)]);
    const auto me = std::find(members.begin(), members.end(), rank) - members.begin();
    expected.push_back(members.empty() ? std::nullopt
                                       : operation.model(of_members, static_cast<int>(me)));
  }

  std::vector<HostTensor> tensors;
  for (const Rows& rows : inputs) tensors.push_back(rows.ToTensor());
  const DRef source = PerRank(tensors);
  CollectiveOptions options;
  options.in_group = member_set.in_group;
  options.team = member_set.team;
  if (with_destination) {
    std::vector<HostTensor> targets;
    for (const MaybeRows& rows : expected) {
      HostTensor target = rows.value_or(Rows()).ToTensor();
      std::fill(target.data.begin(), target.data.end(), '\x55');
      targets.push_back(target);
    }
    options.destination = PerRank(targets);
  }
  const StatusOr<DRef> result = operation.issue(*session_, source, options);
  ASSERT_TRUE(result.ok()) << result.status();
  if (with_destination) {
    EXPECT_EQ(result->id(), options.destination.id());
  }
  for (Rank rank = 0; rank < kWorkers; ++rank) {
    const MaybeRows& rows = expected[static_cast<size_t>(rank)];
    if (rows.has_value()) {
      EXPECT_EQ(Get(*result, rank), Value(rows->ToTensor())) << "rank " << rank;
    }
    // The source is only read.
    EXPECT_EQ(Get(source, rank), Value(tensors[static_cast<size_t>(rank)])) << "rank " << rank;
  }
}

TEST_P(CollectivesTest, EvenRows) {
  for (const Operation& operation : kOperations) {
    for (const MemberSet& member_set : kMemberSets)
      Check(operation, member_set, {4, 4, 4, 4}, false);
  }
}

TEST_P(CollectivesTest, EvenRowsIntoADestination) {
  for (const Operation& operation : kOperations) {
    for (const MemberSet& member_set : kMemberSets)
      Check(operation, member_set, {4, 4, 4, 4}, true);
  }
}

// Rows that cannot be dealt out evenly: some ranks get one more.
TEST_P(CollectivesTest, RowsThatDoNotDivide) {
  for (const Operation& operation : kOperations) {
    for (const MemberSet& member_set : kMemberSets)
      Check(operation, member_set, {7, 7, 7, 7}, false);
  }
}

TEST_P(CollectivesTest, FewerRowsThanRanks) {
  for (const Operation& operation : kOperations) {
    for (const MemberSet& member_set : kMemberSets)
      Check(operation, member_set, {1, 1, 1, 1}, false);
  }
}

TEST_P(CollectivesTest, DifferentRowsOnEachRank) {
  for (const Operation& operation : kOperations) {
    if (!operation.uneven) continue;
    for (const MemberSet& member_set : kMemberSets) {
      Check(operation, member_set, {2, 5, 0, 9}, false);
      Check(operation, member_set, {0, 3, 1, 4}, true);
    }
  }
}

TEST_P(CollectivesTest, NoRowsAtAll) {
  for (const Operation& operation : kOperations) {
    for (const MemberSet& member_set : kMemberSets)
      Check(operation, member_set, {0, 0, 0, 0}, false);
  }
}

TEST_P(CollectivesTest, RowsBeyondWhatRidesInAMessage) {
  for (const Operation& operation : kOperations) {
    Check(operation, kMemberSets[0], {30'001, 30'001, 30'001, 30'001}, false);
  }
}

TEST_P(CollectivesTest, EveryReductionOfEachKindOfElement) {
  const DRef floats =
      PerRank({HostTensor::Of<float>({2}, {{1, -4}}), HostTensor::Of<float>({2}, {{2, 3}}),
               HostTensor::Of<float>({2}, {{3, 2}}), HostTensor::Of<float>({2}, {{4, 1}})});
  const DRef integers = Call("lockstep.cast", floats, DType::kInt64);
  const DRef halves = Call("lockstep.cast", floats, DType::kFloat16);
  const struct {
    Reduction op;
    std::vector<float> result;
  } cases[] = {{Reduction::kSum, {10, 2}},
               {Reduction::kProd, {24, -24}},
               {Reduction::kMin, {1, -4}},
               {Reduction::kMax, {4, 3}},
               {Reduction::kAvg, {2.5f, 0.5f}}};
  for (const auto& c : cases) {
    SCOPED_TRACE(static_cast<int>(c.op));
    const DRef sum = Unwrap(session_->AllReduce(floats, c.op));
    EXPECT_EQ(Elements<float>(sum, 3), c.result);
    const DRef of_integers = Unwrap(session_->AllReduce(integers, c.op));
    EXPECT_EQ(Elements<int64_t>(of_integers, 0),
              (std::vector<int64_t>{static_cast<int64_t>(c.result[0]),
                                    static_cast<int64_t>(c.result[1])}));
    const DRef of_halves =
        Call("lockstep.cast", Unwrap(session_->AllReduce(halves, c.op)), DType::kFloat32);
    EXPECT_EQ(Elements<float>(of_halves, 1), c.result);
  }
}

TEST_P(CollectivesTest, ScalarsAreReducedBroadcastAndSent) {
  const DRef rank = FullOfRank({});
  EXPECT_EQ(Elements<float>(Unwrap(session_->AllReduce(rank, Reduction::kSum)), 2),
            std::vector<float>{6});
  EXPECT_EQ(Elements<float>(Unwrap(session_->Reduce(rank, Reduction::kMax, 3)), 3),
            std::vector<float>{3});
  EXPECT_EQ(Elements<float>(Unwrap(session_->Broadcast(rank, 2)), 0), std::vector<float>{2});
  EXPECT_EQ(Elements<float>(Unwrap(session_->Transfer(rank, 1, 3)), 3), std::vector<float>{1});
  EXPECT_EQ(Get(Unwrap(session_->Broadcast(rank, 2)), 0).As<HostTensor>()->shape, Shape());
}

TEST_P(CollectivesTest, SourceMayBeTheDestination) {
  const DRef tensor = FullOfRank({5});
  (void)Unwrap(session_->AllReduce(tensor, Reduction::kSum, {.destination = tensor}));
  EXPECT_EQ(Elements<float>(tensor, 1), (std::vector<float>(5, 6)));
  const DRef other = FullOfRank({5});
  (void)Unwrap(session_->Broadcast(other, 3, {.destination = other}));
  EXPECT_EQ(Elements<float>(other, 0), (std::vector<float>(5, 3)));
  const DRef exchanged = Unwrap(session_->AllToAll(FullOfRank({4, 2})));
  EXPECT_EQ(Elements<float>(exchanged, 2), (std::vector<float>{0, 0, 1, 1, 2, 2, 3, 3}));
}

// Ranks that receive nothing have no register.
// As users of TVM Disco do: its scatter deals out elements, not rows.
TEST_P(CollectivesTest, ScatterIntoEqualPartsOfAnotherShape) {
  std::vector<float> elements(36);
  std::iota(elements.begin(), elements.end(), 0);
  const HostTensor whole = HostTensor::Of<float>({3, 4, 3}, elements);
  const DRef source = PerRank({whole, whole, whole, whole});
  const HostTensor target = HostTensor::Of<float>({3, 3}, std::vector<float>(9));
  CollectiveOptions options;
  options.destination = PerRank({target, target, target, target});
  ASSERT_TRUE(session_->ScatterFromWorker0(source, options).ok());
  for (Rank rank = 0; rank < kWorkers; ++rank) {
    const std::vector<float> part(elements.begin() + 9 * rank, elements.begin() + 9 * (rank + 1));
    EXPECT_EQ(Get(options.destination, rank), Value(HostTensor::Of<float>({3, 3}, part)));
  }
  // What is joined again may have any shape, too.
  CollectiveOptions joined;
  joined.destination = PerRank({whole, whole, whole, whole});
  ASSERT_TRUE(session_->AllGather(options.destination, joined).ok());
  EXPECT_EQ(Get(joined.destination, 3), Value(whole));
}

TEST_P(CollectivesTest, OnlyTheRootOfAReduceHasTheResult) {
  const DRef sum = Unwrap(session_->Reduce(FullOfRank({2}), Reduction::kSum, 2));
  EXPECT_EQ(Elements<float>(sum, 2), (std::vector<float>{6, 6}));
  EXPECT_EQ(session_->DebugGet(sum, 1).status().code(), StatusCode::kNotFound);
}

TEST_P(CollectivesTest, BarriersOfAllPlaces) {
  for (const MemberSet& member_set : kMemberSets) {
    CollectiveOptions options;
    options.in_group = member_set.in_group;
    options.team = member_set.team;
    EXPECT_OK(session_->Barrier(options));
  }
  EXPECT_OK(session_->SyncAll());
}

TEST_P(CollectivesTest, AnyWorkerSendsToAnyOther) {
  for (Rank from = 0; from < kWorkers; ++from) {
    for (Rank to = 0; to < kWorkers; ++to) {
      if (from == to) continue;
      const DRef sent = Unwrap(session_->Transfer(FullOfRank({3, 2}), from, to));
      EXPECT_EQ(Elements<float>(sent, to), std::vector<float>(6, static_cast<float>(from)));
    }
  }
  const DRef here = FullOfRank({3, 2});
  (void)Unwrap(session_->Transfer(FullOfRank({3, 2}), 3, 1, {.destination = here}));
  EXPECT_EQ(Elements<float>(here, 1), std::vector<float>(6, 3));
  EXPECT_EQ(Elements<float>(here, 2), std::vector<float>(6, 2));
  EXPECT_EQ(Elements<float>(Unwrap(session_->SendFromWorker0(FullOfRank({1}), 2)), 2),
            std::vector<float>{0});
}

TEST_P(CollectivesTest, GroupsPassTensorsOn) {
  const DRef source = FullOfRank({2});
  EXPECT_OK(session_->SendToNextGroup(source));
  const DRef received = Unwrap(session_->ReceiveFromPreviousGroup());
  EXPECT_EQ(Elements<float>(received, 2), (std::vector<float>{0, 0}));
  EXPECT_EQ(Elements<float>(received, 3), (std::vector<float>{1, 1}));
  EXPECT_EQ(session_->DebugGet(received, 0).status().code(), StatusCode::kNotFound);
}

TEST_P(CollectivesTest, LargeTransfersBetweenGroupsDoNotBlock) {
  constexpr int64_t kElements = 300'000;
  const DRef source = FullOfRank({kElements});
  EXPECT_OK(session_->SendToNextGroup(source));
  const DRef received = Unwrap(session_->ReceiveFromPreviousGroup({.destination = source}));
  EXPECT_EQ(Elements<float>(received, 3), std::vector<float>(kElements, 1));
  EXPECT_EQ(Elements<float>(received, 1), std::vector<float>(kElements, 1));
}

// Each wait lasted until the collective_timeout, and failed the session.
TEST_P(CollectivesTest, WaitsForAMessageWithoutItsOtherHalfAreRefused) {
  const DRef source = FullOfRank({2});
  EXPECT_OK(session_->SyncAll());
  EXPECT_OK(session_->SendToNextGroup(source));
  for (const lockstep::Status& status :
       {session_->SyncAll(), session_->Sync(1), session_->DebugGet(source, 0).status(),
        session_->CopyFromWorker0(source).status(), session_->Close(),
        session_->AllReduce(source, Reduction::kSum).status()}) {
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(Message(status), ::testing::HasSubstr("but nothing receives it there"));
  }
  EXPECT_EQ(Elements<float>(source, 3), (std::vector<float>{3, 3})) << "it has nothing to send";
  const DRef received = Unwrap(session_->ReceiveFromPreviousGroup());
  const DRef sum = Unwrap(session_->AllReduce(source, Reduction::kSum));
  EXPECT_EQ(Elements<float>(received, 3), (std::vector<float>{1, 1}));
  EXPECT_EQ(Elements<float>(sum, 0), (std::vector<float>{6, 6}));

  (void)Unwrap(session_->ReceiveFromPreviousGroup());
  EXPECT_EQ(session_->Sync(2).code(), StatusCode::kFailedPrecondition);
  EXPECT_OK(session_->Sync(0));
  EXPECT_OK(session_->Reset());
  EXPECT_OK(session_->SyncAll());
  // What is left is no obstacle to the end of the session, nor to others.
  EXPECT_OK(session_->SendToNextGroup(source));
  session_.reset();
  session_ = std::make_unique<Session>(Open(SharedCluster(GetParam())));
  EXPECT_OK(session_->SyncAll());
}

TEST_P(CollectivesTest, ManyCollectivesInARow) {
  DRef value = FullOfRank({16});
  for (int i = 0; i < 300; ++i) {
    value = Unwrap(session_->AllReduce(value, i % 2 == 0 ? Reduction::kAvg : Reduction::kMax));
  }
  EXPECT_EQ(Elements<float>(value, 0), std::vector<float>(16, 1.5f));
}

}  // namespace
}  // namespace lockstep::testing
