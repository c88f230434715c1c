// make_seeds DIRECTORY: writes the seeds that are made from messages into DIRECTORY/TARGET/.
#include <cstdio>

#include "tests/fuzz/seeds.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_seeds DIRECTORY\n");
    return 2;
  }
  lockstep::fuzz::SeedFolder folder(argv[1]);
  lockstep::fuzz::AddValueSeeds(folder);
  lockstep::fuzz::AddWorkerSeeds(folder);
  lockstep::fuzz::AddControllerSeeds(folder);
  lockstep::fuzz::AddLivenessSeeds(folder);
  lockstep::fuzz::AddClientSeeds(folder);
  lockstep::fuzz::AddBulkSeeds(folder);
  lockstep::fuzz::AddNpySeeds(folder);
  lockstep::fuzz::AddPlanSeeds(folder);
  lockstep::fuzz::AddFragmentSeeds(folder);
  lockstep::fuzz::AddRingSeeds(folder);
  lockstep::fuzz::AddTreeSeeds(folder);
  std::printf("%d seeds\n", folder.count());
  return 0;
}
