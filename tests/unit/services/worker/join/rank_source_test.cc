#include "services/worker/join/rank_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace lockstep::worker {
namespace {

using testing::HasSubstr;

StatusOr<int> Choose(const WorkerOptions& options, const std::string& host,
                     const std::map<std::string, std::string>& variables) {
  return ChooseRank(options, {host, [&](const char* name) -> const char* {
                                const auto found = variables.find(name);
                                return found == variables.end() ? nullptr : found->second.c_str();
                              }});
}

WorkerOptions From(const std::string& source, int offset = 0) {
  WorkerOptions options;
  options.rank_from = source;
  options.rank_offset = offset;
  return options;
}

TEST(RankSourceTest, WithoutASourceItIsTheOneThatIsGiven) {
  WorkerOptions options;
  EXPECT_EQ(*Choose(options, "workers-3", {{"SLURM_PROCID", "5"}}), -1);
  EXPECT_EQ(*Choose(From("", 1), "workers-3", {}), -2) << "any from 1 on";
  options.rank = 2;
  EXPECT_EQ(*Choose(options, "workers-3", {}), 2);
}

TEST(RankSourceTest, HostsOfAStatefulSetHaveOrdinals) {
  EXPECT_EQ(*Choose(From("hostname"), "workers-3", {}), 3);
  EXPECT_EQ(*Choose(From("hostname"), "lockstep-workers-12.lockstep.default.svc", {}), 12);
  EXPECT_EQ(*Choose(From("hostname", 1), "workers-0", {}), 1);
  EXPECT_THAT(Message(Choose(From("hostname"), "login", {}).status()),
              HasSubstr("\"login\" does not end with a number"));
}

TEST(RankSourceTest, LaunchersSayItInTheEnvironment) {
  EXPECT_EQ(*Choose(From("slurm"), "", {{"SLURM_PROCID", "7"}}), 7);
  EXPECT_EQ(*Choose(From("mpi"), "", {{"OMPI_COMM_WORLD_RANK", "4"}}), 4);
  EXPECT_EQ(*Choose(From("mpi"), "", {{"PMI_RANK", "1"}}), 1);
  EXPECT_THAT(Message(Choose(From("slurm"), "", {}).status()),
              HasSubstr("$SLURM_PROCID, which is not set"));
  EXPECT_THAT(Message(Choose(From("mpi"), "", {{"PMI_RANK", "one"}}).status()),
              HasSubstr("no rank in $PMI_RANK \"one\""));
}

TEST(RankSourceTest, TwoAnswersAreRefused) {
  WorkerOptions options = From("slurm");
  options.rank = 2;
  EXPECT_THAT(Message(Choose(options, "", {{"SLURM_PROCID", "7"}}).status()),
              HasSubstr("one of the two decides"));
}

}  // namespace
}  // namespace lockstep::worker
