#include "services/worker/execute/register_listing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/plan/layout.h"
#include "runtime/tensor/storage.h"
#include "tests/unit/services/worker/fake_communicator.h"

namespace lockstep::worker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class SomeModule : public registers::Object {
 public:
  Kind kind() const override { return Kind::kModule; }
  std::string Describe() const override { return "module " + std::string(300, 'x'); }
};

class RegisterListingTest : public testing::Test {
 protected:
  RegisterListingTest() {
    for (const uint32_t id : {7u, 9u}) {
      sessions_.push_back(std::make_shared<SessionState>(
          control::SessionRecord{.id = SessionId(id)}, id == 7 ? &seven_ : &nine_));
    }
  }

  static RegisterId Id(uint32_t index) { return {index, 1}; }
  void Write(uint32_t index, registers::Value value) {
    ASSERT_EQ(seven_.Write(Id(index), std::move(value)), OkStatus());
  }
  // Texts hold as many bytes as they have.
  void WriteText(uint32_t index, size_t size) { Write(index, std::string(size, 'x')); }
  std::vector<RegisterId> Listed(size_t most) {
    std::vector<RegisterId> ids;
    const auto holdings = ListRegisters(sessions_, {SessionId(7), most});
    for (const HeldRegister& held : holdings[0].listed) ids.push_back(held.id);
    return ids;
  }

  std::shared_ptr<tensor::Allocator> allocator_ = tensor::NewHeapAllocator();
  registers::RegisterTotals totals_;
  registers::RegisterFile seven_{&totals_};
  registers::RegisterFile nine_{&totals_};
  std::vector<std::shared_ptr<SessionState>> sessions_;
};

TEST_F(RegisterListingTest, TellsWhatEachKindIsAndNotWhatIsInIt) {
  Write(0, *tensor::Tensor::Empty(*allocator_, DType::kFloat32, {2, 3}));
  Write(1, std::string("secret"));
  Write(2, int64_t{42});
  Write(3, std::shared_ptr<registers::Object>(std::make_shared<SomeModule>()));
  Write(4, std::make_shared<const registers::List>(registers::List{int64_t{1}, int64_t{2}}));
  sessions_[0]->NameRegister("weights", Id(0), 1);
  const auto holdings = ListRegisters(sessions_, {SessionId(), 100});
  ASSERT_EQ(holdings.size(), 2u);
  EXPECT_EQ(holdings[1].session, SessionId(9));
  EXPECT_EQ(holdings[1].registers, 0u);
  EXPECT_EQ(holdings[0].registers, 5u);
  EXPECT_EQ(holdings[0].bytes, seven_.held_bytes());
  ASSERT_EQ(holdings[0].listed.size(), 5u);
  const auto& [tensor, text, number, module, list] =
      std::tie(holdings[0].listed[0], holdings[0].listed[1], holdings[0].listed[2],
               holdings[0].listed[3], holdings[0].listed[4]);
  EXPECT_EQ(tensor.name, "weights");
  EXPECT_EQ(tensor.type, "tensor");
  EXPECT_EQ(tensor.dtype, "float32");
  EXPECT_THAT(tensor.shape, ElementsAre(2, 3));
  EXPECT_EQ(tensor.device, "cpu:0");
  EXPECT_EQ(tensor.bytes, 24u);
  EXPECT_EQ(text.type, "text");
  EXPECT_EQ(text.bytes, 6u);
  EXPECT_EQ(text.detail, "") << "a reader may not read data";
  EXPECT_EQ(number.type, "int64");
  EXPECT_EQ(number.detail, "");
  EXPECT_EQ(module.type, "module");
  EXPECT_EQ(module.detail.size(), 255u);
  EXPECT_EQ(list.detail, "2 items");
}

TEST_F(RegisterListingTest, ThoseThatHoldMostAreListedById) {
  WriteText(0, 10);
  WriteText(1, 30);
  WriteText(2, 20);
  WriteText(300, 40);
  EXPECT_THAT(Listed(0), IsEmpty());
  EXPECT_THAT(Listed(1), ElementsAre(Id(300)));
  EXPECT_THAT(Listed(3), ElementsAre(Id(1), Id(2), Id(300)));
  EXPECT_EQ(Listed(100).size(), 4u);
}

TEST_F(RegisterListingTest, OfEqualOnesAllRanksListTheSame) {
  for (const uint32_t index : {5u, 1u, 300u, 3u}) WriteText(index, 8);
  EXPECT_THAT(Listed(2), ElementsAre(Id(1), Id(3)));
}

TEST_F(RegisterListingTest, AnAnswerIsBoundedWhateverIsAsked) {
  for (uint32_t i = 0; i < kMostListedRegisters + 10; ++i) Write(i, int64_t{1});
  EXPECT_EQ(Listed(1'000'000).size(), kMostListedRegisters);
  EXPECT_EQ(ListRegisters(sessions_, {SessionId(7), 1})[0].registers, kMostListedRegisters + 10);
}

TEST_F(RegisterListingTest, OneSessionCanBeAskedFor) {
  EXPECT_EQ(ListRegisters(sessions_, {SessionId(9), 1}).at(0).session, SessionId(9));
  EXPECT_THAT(ListRegisters(sessions_, {SessionId(8), 1}), IsEmpty());
}

TEST_F(RegisterListingTest, LayoutsAreToldInWordsAndOnceEach) {
  const auto on = [](const std::vector<Rank>& ranks) {
    const plan::Mesh mesh =
        *plan::Mesh::Make({{"x", 2}, {"y", static_cast<int>(ranks.size() / 2)}}, ranks);
    return std::make_shared<const plan::Layout>(*plan::Layout::Make(
        {4, 2}, DType::kFloat32, mesh,
        {plan::Placement::Shard(1), plan::Placement::Partial(Reduction::kMax)}));
  };
  for (const uint32_t index : {0u, 1u, 2u}) {
    ASSERT_EQ(seven_.Write(Id(index), int64_t{1}, on({3, 2, 1, 0})), OkStatus());
  }
  Write(3, int64_t{1});
  const auto listed = ListRegisters(sessions_, {SessionId(7), 100})[0].listed;
  ASSERT_EQ(listed.size(), 4u);
  ASSERT_NE(listed[0].layout, nullptr);
  const HeldLayout& layout = *listed[0].layout;
  EXPECT_EQ(layout.dtype, "float32");
  EXPECT_THAT(layout.shape, ElementsAre(4, 2));
  EXPECT_THAT(layout.axes, ElementsAre(HeldLayout::Axis{"x", 2}, HeldLayout::Axis{"y", 2}));
  EXPECT_THAT(layout.ranks, ElementsAre(3, 2, 1, 0));
  EXPECT_THAT(layout.placements, ElementsAre("shard(1)", "partial(max)"));
  EXPECT_EQ(listed[1].layout, listed[0].layout) << "equal ones are told once";
  EXPECT_EQ(listed[3].layout, nullptr);
  EXPECT_FALSE(listed[3].layout_left_out);
  // The answer is a message on the liveness socket.
  std::vector<Rank> many(kMostListedLayoutRanks);
  std::iota(many.begin(), many.end(), 0);
  ASSERT_EQ(seven_.Write(Id(3), std::string("most bytes"), on(many)), OkStatus());
  const auto bounded = ListRegisters(sessions_, {SessionId(7), 100})[0].listed;
  size_t told = 0;
  for (const HeldRegister& held : bounded) {
    EXPECT_NE(held.layout != nullptr, held.layout_left_out);
    told += held.layout == nullptr ? 0 : held.layout->ranks.size();
  }
  EXPECT_GT(told, 0u);
  EXPECT_LE(told, kMostListedLayoutRanks + 12);
}

}  // namespace
}  // namespace lockstep::worker
