#include "services/local/cluster_config.h"

#include <gtest/gtest.h>

#include "tests/support/files.h"

namespace lockstep::local {
namespace {

using support::Write;

using namespace std::chrono_literals;

TEST(ClusterConfigTest, NothingIsRequired) {
  const auto options = LoadCluster({});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->workers, 4);
  EXPECT_EQ(options->ranks.size(), 4u);
  EXPECT_EQ(options->controller.workers, 4);
  EXPECT_EQ(options->controller.client_endpoint, "");
  EXPECT_EQ(options->ranks[0].bulk_endpoint, "");
}

TEST(ClusterConfigTest, RanksStartFromTheWorkerSection) {
  const auto options = LoadCluster({Write("cluster: demo\n"
                                          "controller:\n"
                                          "  heartbeat_interval: 200ms\n"
                                          "worker: {arena_bytes: 1GiB, max_registers: 64}\n"
                                          "ranks:\n"
                                          "  2: {arena_bytes: 2GiB}\n"),
                                    {"workers=3"}});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->controller.cluster, "demo");
  EXPECT_EQ(options->controller.heartbeat_interval, 200ms);
  ASSERT_EQ(options->ranks.size(), 3u);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(options->ranks[rank].rank, rank);
    EXPECT_EQ(options->ranks[rank].cluster, "demo");
    EXPECT_EQ(options->ranks[rank].max_registers, 64u);
  }
  EXPECT_EQ(options->ranks[1].arena_bytes, size_t{1} << 30);
  EXPECT_EQ(options->ranks[2].arena_bytes, size_t{2} << 30);
}

TEST(ClusterConfigTest, SectionsMayBeEmpty) {
  EXPECT_TRUE(LoadCluster({Write("controller:\nworker: {}\nranks:\n"), {}}).ok());
}

TEST(ClusterConfigTest, ProblemsOfEverySectionAreReported) {
  const std::string path = Write(
      "controller:\n"
      "  workers: 4\n"
      "worker:\n"
      "  rank: 1\n"
      "ranks:\n"
      "  7: {device: cpu}\n"
      "  1: {arena_byte: 1GiB}\n"
      "  x: {device: cpu}\n"
      "wrkers: 4\n"
      "title: demo\n");
  const std::string text = Message(LoadCluster({path, {}}).status());
  const auto has = [&](const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nin\n" << text;
  };
  has(path + ":2: controller.workers: cannot be given here: it is the key of that name at the top");
  has(path + ":4: worker.rank: cannot be given here");
  has(path + ":6: ranks.7.device: no such rank; allowed: ranks.0 to ranks.3");
  has(path + ":7: ranks.1.arena_byte: unknown key; did you mean \"ranks.1.arena_bytes\"?");
  has(path + ":8: ranks.x.device: no such rank");
  has(path + ":9: wrkers: unknown key; did you mean \"workers\"?");
  has(path + ":10: title: unknown key; allowed: cluster, workers, hosts, ");
  has(", controller.*, worker.*");
}

}  // namespace
}  // namespace lockstep::local
