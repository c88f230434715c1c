// Ranks that are the processes of an MPI job: mpirun starts this test program again, for one test.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/collective/message/message_communicator.h"

namespace lockstep::collective {

// Why there can be none here; empty: there can.
std::string WhyNoMpiJob();

// In every process of the job, with this rank's connections to all others. `world` is the same in
// all of them, and differs from that of any other job or call.
using MpiRankMain =
    std::function<void(const std::string& world, std::unique_ptr<message::MessageCommunicator>)>;

// In a process of the job, runs `rank_main`; else, starts a job of `size` processes that run the
// current test, and returns when they have ended.
void RunMpiJob(int size, const MpiRankMain& rank_main);

}  // namespace lockstep::collective
