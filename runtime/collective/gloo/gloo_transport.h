// Messages over Gloo's TCP pairs.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <gloo/transport/context.h>
#include <gloo/transport/device.h>

#include "runtime/collective/gloo/nudger.h"
#include "runtime/collective/gloo/pending.h"
#include "runtime/collective/message/team.h"
#include "runtime/collective/message/transport.h"
#include "runtime/collective/rendezvous.h"

namespace lockstep::collective::gloo {

// What all communicators of a process share.
struct Network {
  // Listens at one address, and has a thread that reads and writes all connections.
  std::shared_ptr<::gloo::transport::Device> device;
  Status status;  // why there is no device
  std::shared_ptr<Rendezvous> rendezvous;
  std::unique_ptr<Nudger> nudger = std::make_unique<Nudger>();
};

class GlooTransport final : public message::Transport {
 public:
  // Connects this rank with the other members. One try: others may be connected, or not. One that
  // cannot even listen is named at once, on all of them. Errors as those of gloo::Connect().
  static StatusOr<std::unique_ptr<GlooTransport>> Connect(std::shared_ptr<const Network> network,
                                                          message::Team team,
                                                          const std::atomic<bool>* cancelled,
                                                          Deadline deadline);
  ~GlooTransport() override;

  std::string_view name() const override { return "gloo"; }
  int rank() const override { return team_.rank; }
  int size() const override { return static_cast<int>(team_.members.size()); }
  message::Outcome Run(absl::Span<const message::Outgoing> outgoing,
                       absl::Span<const message::Incoming> incoming, Deadline deadline) override;
  void Cancel() override;
  void Leave(const Status& why) override;
  std::optional<Status> FarewellOf(Rank peer) override;
  StatusOr<std::unique_ptr<message::Transport>> Split(absl::Span<const Rank> group_ranks,
                                                      uint64_t tag,
                                                      const std::atomic<bool>* cancelled,
                                                      Deadline deadline) override;

 private:
  struct Farewell;
  using Pendings = std::vector<std::unique_ptr<Pending>>;

  GlooTransport(std::shared_ptr<const Network> network, message::Team team);
  // Connects all members, or none: those that do not reach each other try again, together, until
  // the deadline.
  static StatusOr<std::unique_ptr<GlooTransport>> ConnectAll(
      const std::shared_ptr<const Network>& network, const message::Team& team,
      const std::atomic<bool>* cancelled, Deadline deadline);
  // Makes a listening end for each other member: what each has to be told, by member.
  StatusOr<std::vector<std::string>> Listen(Deadline deadline);
  Status ConnectPairs(const std::vector<std::string>& addresses,
                      const std::atomic<bool>* cancelled);
  void ExpectFarewells();
  std::unique_ptr<Pending> NewPending(Rank peer, const void* data, size_t size_bytes) const;
  // What waiting for it came to; kUnderWay if it has come to nothing by then.
  Pending::State WaitFor(Pending& pending, Deadline deadline);
  void SetAwaited(Pending* pending);
  // Nudges whoever waits.
  void Nudge();
  bool IsCancelled();
  // True if nothing more can come from the peer, nor go there.
  bool IsLost(Rank peer) const;

  const std::shared_ptr<const Network> network_;
  const message::Team team_;
  std::shared_ptr<::gloo::transport::Context> mesh_;  // the connections
  std::vector<Farewell> farewells_;                   // by rank
  bool left_ = false;

  std::mutex mutex_;  // guards what follows against Cancel() and Nudge()
  bool cancelled_ = false;
  Pending* awaited_ = nullptr;

  Nudger::Handle nudges_;
};

}  // namespace lockstep::collective::gloo
