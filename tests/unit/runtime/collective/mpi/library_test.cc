#include "runtime/collective/mpi/library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "runtime/collective/mpi/launcher.h"
#include "runtime/collective/mpi/mpi.h"

namespace lockstep::collective::mpi {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(LibraryTest, AMissingLibraryIsNamedWithTheRemedy) {
  setenv("LOCKSTEP_MPI_LIBRARY", "/nowhere/liblockstep_mpi.so", 1);
  const auto library = LoadLibrary();
  EXPECT_EQ(library.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(Message(library.status()),
              AllOf(HasSubstr("/nowhere/liblockstep_mpi.so"), HasSubstr("mpicc -shared")));
  EXPECT_EQ(Available(), library.status());
}

TEST(LibraryTest, ALibraryOfAnotherKindIsNotTaken) {
  setenv("LOCKSTEP_MPI_LIBRARY", "libc.so.6", 1);
  const auto library = LoadLibrary();
  EXPECT_EQ(library.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(Message(library.status()), HasSubstr("libc.so.6 is of another version"));
}

TEST(LauncherTest, AProcessOfAJobIsKnownByItsRank) {
  for (const char* const name : RankVariables()) unsetenv(name);
  const Status alone = CheckStartedByLauncher();
  EXPECT_EQ(alone.code(), StatusCode::kUnavailable);
  EXPECT_THAT(Message(alone), HasSubstr("$PMI_RANK"));
  setenv("PMI_RANK", "0", 1);
  EXPECT_EQ(CheckStartedByLauncher(), OkStatus());
}

TEST(LauncherTest, TheSizeOfAJobIsKnownIfItsLauncherTells) {
  for (const char* const name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"}) {
    unsetenv(name);
  }
  EXPECT_EQ(JobSize(), std::nullopt);
  setenv("PMI_SIZE", "12", 1);
  EXPECT_EQ(JobSize(), 12);
}

}  // namespace
}  // namespace lockstep::collective::mpi
