#include "services/worker/report/transfer_counts.h"

#include <algorithm>
#include <functional>
#include <string>

#include "runtime/control/value_codec.h"

namespace lockstep::worker {
namespace {

// The last stands for any that is not known here.
constexpr std::array<const char*, 9> kBackendNames = {
    "shm", "tcp", "gloo", "mpi", "shm+tcp", "shm+gloo", "shm+mpi", "nccl", "other"};

}  // namespace

double CollectiveCounts::BusFactor(wire::CollectiveKind kind, int ranks) {
  const OperationFacts* const facts = control::FindOperation(kind);
  return facts == nullptr ? 0 : lockstep::BusFactor(facts->kind, ranks);
}

size_t CollectiveCounts::BackendOf(std::string_view backend) {
  const auto found = std::find(kBackendNames.begin(), kBackendNames.end() - 1, backend);
  return static_cast<size_t>(found - kBackendNames.begin());
}

uint64_t CollectiveCounts::Add(wire::CollectiveKind kind, const CollectiveFacts& facts,
                               std::chrono::nanoseconds duration) {
  const auto operation = static_cast<size_t>(kind);
  if (operation >= kOperationCount) return 0;
  return counts_[operation][BackendOf(facts.backend)].Add(facts.bytes, BusFactor(kind, facts.ranks),
                                                          duration);
}

std::vector<NamedTransfer> CollectiveCounts::List() const {
  static_assert(kBackendNames.size() == kBackends);
  std::vector<NamedTransfer> list;
  for (const OperationFacts& facts : kOperations) {
    for (size_t backend = 0; backend < kBackends; ++backend) {
      list.push_back({std::string(facts.label), kBackendNames[backend],
                      &counts_[static_cast<size_t>(facts.kind)][backend]});
    }
  }
  return list;
}

void TellTransfers(const std::vector<NamedTransfer>& transfers, metrics::Families& families) {
  using Tell = std::function<void(const TransferCounts&, metrics::Families::Labels)>;
  // One family after the other.
  const auto each = [&](const Tell& tell) {
    for (const NamedTransfer& transfer : transfers) {
      if (transfer.counts->seconds().Count() == 0) continue;
      tell(*transfer.counts, {{"operation", transfer.operation}, {"backend", transfer.backend}});
    }
  };
  each([&](const TransferCounts& counts, auto labels) {
    families.Counter("lockstep_transfers_total", "Operations that this worker has taken part in.",
                     static_cast<double>(counts.seconds().Count()), std::move(labels));
  });
  each([&](const TransferCounts& counts, auto labels) {
    families.Counter("lockstep_transfer_bytes_total",
                     "Sizes of these operations, as nccl-tests count them.",
                     static_cast<double>(counts.bytes()), std::move(labels));
  });
  each([&](const TransferCounts& counts, auto labels) {
    families.Counter("lockstep_transfer_bus_bytes_total",
                     "What these operations carry over the bus of each rank, by nccl-tests' "
                     "formulas.",
                     static_cast<double>(counts.bus_bytes()), std::move(labels));
  });
  each([&](const TransferCounts& counts, auto labels) {
    families.Histogram("lockstep_transfer_seconds",
                       "How long these operations took on this worker, waiting for peers included.",
                       counts.seconds(), std::move(labels));
  });
  each([&](const TransferCounts& counts, auto labels) {
    families.Gauge("lockstep_transfer_bus_bandwidth_bytes_per_second",
                   "Bus bandwidth of the last of these operations.", counts.last_bandwidth(),
                   std::move(labels));
  });
}

}  // namespace lockstep::worker
