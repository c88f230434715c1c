// Ranks of several nodes as processes of this host: what they send to another node goes over TCP
// (loopback). For the benchmark of the allreduce between hosts.
//
//     allreduce_network lockstep RANKS SECONDS SIZE...   two nodes, with half of the ranks each
//     allreduce_network lockstep-encrypted RANKS ...     the same, encrypted
//     allreduce_network lockstep-gloo RANKS ...          the same, carried by Gloo
//     allreduce_network gloo-ring RANKS ...              Gloo's own algorithms, among all ranks
//     allreduce_network gloo-bcube RANKS ...             see timing.h for the rest
#include <sys/wait.h>
#include <unistd.h>

#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"
#include "runtime/collective/folder_rendezvous.h"
#include "runtime/collective/gloo/gloo.h"
#include "runtime/collective/shm/shm.h"
#include "runtime/collective/tcp/tcp.h"
#include "runtime/collective/two_level/two_level_communicator.h"
#include "runtime/tensor/arena.h"
#include "tools/bench/collectives/communicator_ranks.h"
#include "tools/bench/collectives/timing.h"
#include "tools/bench/rival_process.h"

namespace lockstep::bench {
namespace {

constexpr char kLoopback[] = "127.0.0.1";

struct RankConfig {
  std::string system;
  int rank = 0;
  int ranks = 0;
  std::string folder;
  std::vector<std::string> arena_names;
};

class GlooRanks final : public Ranks {
 public:
  explicit GlooRanks(const RankConfig& config) : bcube_(config.system == "gloo-bcube") {
    auto context = std::make_shared<gloo::rendezvous::Context>(config.rank, config.ranks);
    gloo::transport::tcp::attr attributes;
    attributes.hostname = kLoopback;
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    gloo::rendezvous::FileStore store(config.folder);
    context->connectFullMesh(store, device);
    context_ = std::move(context);
  }

  int rank() const override { return context_->rank; }
  int size() const override { return context_->size; }
  void* Allocate(size_t size_bytes) override {
    memory_.emplace_back(size_bytes / sizeof(float));
    return memory_.back().data();
  }
  void Barrier() override {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }
  void Run(const Operation& /*an allreduce of float32*/, const void* /*send*/, void* recv,
           size_t count) override {
    Reduce(static_cast<float*>(recv), count, &gloo::sum<float>);
  }
  double Max(double value) override {
    Reduce(&value, 1, &gloo::max<double>);
    return value;
  }

 private:
  template <typename T>
  void Reduce(T* data, size_t count, void (*function)(void*, const void*, const void*, size_t)) {
    gloo::AllreduceOptions options(context_);
    options.setAlgorithm(bcube_ ? gloo::AllreduceOptions::Algorithm::BCUBE
                                : gloo::AllreduceOptions::Algorithm::RING);
    options.setOutput(data, count);
    options.setReduceFunction(function);
    gloo::allreduce(options);
  }

  const bool bcube_;
  std::shared_ptr<gloo::Context> context_;
  std::vector<std::vector<float>> memory_;
};

collective::message::NetworkOptions NetworkOptions(const RankConfig& config) {
  collective::message::NetworkOptions options;
  options.rank = config.rank;
  options.size = config.ranks;
  options.rendezvous = std::make_shared<collective::FolderRendezvous>(config.folder, config.rank);
  options.address = kLoopback;
  return options;
}

StatusOr<std::unique_ptr<collective::message::MessageCommunicator>> ConnectNodes(
    const RankConfig& config) {
  if (config.system == "lockstep-gloo") {
    return collective::gloo::Connect(NetworkOptions(config), Soon());
  }
  collective::tcp::Protection protection;
  if (config.system == "lockstep-encrypted") {
    protection.plaintext = collective::tcp::Plaintext::kNowhere;
  }
  return collective::tcp::Connect(NetworkOptions(config), protection, Soon());
}

std::unique_ptr<Ranks> ConnectLockstep(const RankConfig& config) {
  auto arena =
      tensor::Arena::Create({.name = config.arena_names[static_cast<size_t>(config.rank)]});
  RequireOk(arena.status());
  std::vector<std::vector<Rank>> nodes(2);
  for (Rank rank = 0; rank < config.ranks; ++rank) {
    nodes[static_cast<size_t>(rank * 2 / config.ranks)].push_back(rank);
  }
  collective::shm::Options options;
  options.rank = config.rank;
  options.arena = *arena;
  options.arena_names = config.arena_names;
  options.members = nodes[static_cast<size_t>(config.rank * 2 / config.ranks)];
  // As workers do.
  options.wait.yield_for = std::chrono::microseconds(config.system == "lockstep-gloo" ? 20 : 200);
  auto node = collective::shm::Connect(options, Soon());
  RequireOk(node.status());
  auto network = ConnectNodes(config);
  RequireOk(network.status());
  return std::make_unique<CommunicatorRanks>(
      collective::two_level::Combine(nodes, *std::move(node), *std::move(network)), *arena);
}

void RunRank(const RankConfig& config, double seconds, const std::vector<size_t>& sizes_bytes) {
  std::signal(SIGPIPE, SIG_IGN);
  const std::unique_ptr<Ranks> ranks = config.system == "gloo-ring" || config.system == "gloo-bcube"
                                           ? std::make_unique<GlooRanks>(config)
                                           : ConnectLockstep(config);
  Timing(*ranks, Operation(), seconds).Run(sizes_bytes);
  ranks->Barrier();
}

int Main(RankConfig config, double seconds, const std::vector<size_t>& sizes_bytes) {
  LimitLife(kRankLifeSeconds);
  const collective::RendezvousFolder folder;
  config.folder = folder.path();
  config.arena_names = ArenaNames(config.ranks);
  return RunRanks(config.ranks, [&](int rank) {
    config.rank = rank;
    RunRank(config, seconds, sizes_bytes);
  });
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  lockstep::bench::RankConfig config;
  config.system = argc > 1 ? argv[1] : "";
  config.ranks = argc > 2 ? std::atoi(argv[2]) : 0;
  double seconds = 0;
  std::vector<size_t> sizes_bytes;
  bool is_known = false;
  for (const char* system :
       {"lockstep", "lockstep-encrypted", "lockstep-gloo", "gloo-ring", "gloo-bcube"}) {
    is_known |= config.system == system;
  }
  if (!is_known || config.ranks < 2 || config.ranks > 64 || config.ranks % 2 != 0 ||
      !lockstep::bench::ParseTimingArguments(argc - 3, argv + 3, &seconds, &sizes_bytes)) {
    std::fprintf(
        stderr,
        "usage: allreduce_network lockstep|lockstep-encrypted|lockstep-gloo|gloo-ring|gloo-bcube "
        "RANKS SECONDS SIZE...\n");
    return 2;
  }
  return lockstep::bench::Main(config, seconds, sizes_bytes);
}
