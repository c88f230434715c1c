#include "runtime/client/layout_commands.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "runtime/client/checked_call.h"
#include "runtime/fragment/signature.h"
#include "tests/unit/runtime/client/fake_controller.h"

namespace lockstep::client {
namespace {

class LayoutCommandsTest : public testing::Test {
 protected:
  // What a fragment makes of which the workers may know how it lies. They know nothing here.
  DRef Made() {
    const auto call = std::make_shared<const SentCall>();
    const std::vector<NewRegister> results = {{.is_told_by_workers = true}};
    const auto made =
        core_->IssueFragmentCallIn(Generation(0), "f", call, results,
                                   [](wire::Command::Builder command, uint32_t, bool,
                                      absl::Span<const DRef>) { command.initRunFragment(); });
    EXPECT_TRUE(made.ok()) << made.status();
    return made->front();
  }
  // How often they were asked for a layout.
  int Questions() const {
    int questions = 0;
    for (const FakeController::Batch& batch : controller_.batches) {
      questions += static_cast<int>(
          std::count(batch.commands.begin(), batch.commands.end(), wire::Command::FIND_LAYOUT));
    }
    return questions;
  }

  FakeController controller_;
  const std::unique_ptr<SessionCore> core_ = controller_.Open();
};

TEST_F(LayoutCommandsTest, WorkersThatKnowNoLayoutAreAskedOnce) {
  const fragment::Signature signature{
      "f", {{{DType::kFloat64, {3}}}}, {{{DType::kFloat64, {3}}, /*sizes_known=*/true}}};
  CheckedCalls calls;
  const auto take = [&](const DRef& ref) {
    const std::vector<FragmentInput> inputs = {{ref, fragment::Split::kAsPlaced}};
    const std::vector<FragmentOutput> outputs = {{fragment::Combine::kNone}};
    const auto call = calls.Check(*core_, {fragment::Kind::kMlir, signature}, inputs, outputs);
    EXPECT_TRUE(call.ok()) << call.status();
    return Questions();
  };
  {
    const DRef made = Made();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(take(made), 1);
    EXPECT_EQ(KnownLayout(*core_, made).status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(Questions(), 1);
    // What is said of it is known here.
    const auto layout = plan::Layout::Make({3}, DType::kFloat64, *plan::Mesh::Line({0}),
                                           {plan::Placement::Replicate()});
    EXPECT_EQ(IssueDeclareLayout(*core_, made, *layout), OkStatus());
    EXPECT_EQ(*KnownLayout(*core_, made), *layout);
    EXPECT_EQ(ForgetLayout(*core_, made), OkStatus());
    EXPECT_EQ(take(made), 1);
  }
  // Of another register they are asked, also where it has the place of the first.
  EXPECT_EQ(take(Made()), 2);
}

}  // namespace
}  // namespace lockstep::client
