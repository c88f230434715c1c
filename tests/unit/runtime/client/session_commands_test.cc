#include "runtime/client/session_commands.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "tests/unit/runtime/client/fake_controller.h"

namespace lockstep::client {
namespace {

TEST(IssueCollectiveTest, TheRootIsOneOfThoseThatTakePart) {
  FakeController controller;
  controller.num_workers = 4;
  controller.num_groups = 2;
  const std::unique_ptr<SessionCore> core = controller.Open();
  const auto made = core->IssueNaming([](wire::Command::Builder command, RegisterId result) {
    auto empty = command.initEmpty();
    empty.initShape(1).set(0, 4);
    empty.setResult(result.Packed());
  });
  ASSERT_TRUE(made.ok()) << made.status();
  const auto issue = [&](Rank root, const CollectiveOptions& options) {
    CollectiveCall call{.kind = OperationKind::kBroadcast, .source = *made};
    call.root = root;
    return IssueCollective(*core, call, options).status().code();
  };
  CollectiveOptions of_a_group;
  of_a_group.in_group = true;
  CollectiveOptions of_a_team;
  of_a_team.team = {1, 2, 3};
  const std::pair<CollectiveOptions, Rank> sizes[] = {{{}, 4}, {of_a_group, 2}, {of_a_team, 3}};
  for (const auto& [options, size] : sizes) {
    EXPECT_EQ(issue(size - 1, options), StatusCode::kOk) << size;
    EXPECT_EQ(issue(size, options), StatusCode::kInvalidArgument) << size;
    EXPECT_EQ(issue(-1, options), StatusCode::kInvalidArgument) << size;
  }
}

}  // namespace
}  // namespace lockstep::client
