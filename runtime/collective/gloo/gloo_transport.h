// Messages over Gloo's TCP pairs.
#pragma once

#include <gloo/transport/context.h>
#include <gloo/transport/device.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/collective/gloo/pending_message.h"
#include "runtime/collective/message/transport.h"
#include "runtime/collective/rendezvous.h"

namespace lockstep::collective::gloo {

// What all communicators of a process share.
struct Network {
  // Listens at one address, and has a thread that reads and writes all connections.
  std::shared_ptr<::gloo::transport::Device> device;
  Status status;  // why there is no device
  std::shared_ptr<Rendezvous> rendezvous;
  std::unique_ptr<PeriodicWaker> waker = std::make_unique<PeriodicWaker>();
};

class GlooTransport final : public message::Transport {
 public:
  // Connects this rank with the other members. One try: others may be connected, or not. One that
  // cannot even listen is named at once, on all of them. Errors as those of gloo::Connect().
  static StatusOr<std::unique_ptr<message::Transport>> Connect(
      std::shared_ptr<const Network> network, message::Team team,
      const std::atomic<bool>* cancelled, Deadline deadline);
  ~GlooTransport() override;

  std::string_view name() const override { return "gloo"; }
  int rank() const override { return team_.rank; }
  int size() const override { return static_cast<int>(team_.members.size()); }
  message::Outcome Run(absl::Span<const message::Outgoing> outgoing,
                       absl::Span<const message::Incoming> incoming, Deadline deadline) override;
  void Cancel() override;
  void Leave(const Status& why) override;
  std::optional<Status> LeaveReasonOf(Rank peer) override;
  StatusOr<std::unique_ptr<message::Transport>> Split(absl::Span<const Rank> group_ranks,
                                                      uint64_t tag,
                                                      const std::atomic<bool>* cancelled,
                                                      Deadline deadline) override;

 private:
  struct LeaveReason;
  using Pendings = std::vector<std::unique_ptr<PendingMessage>>;

  GlooTransport(std::shared_ptr<const Network> network, message::Team team);
  // Makes a listening end for each other member: what each has to be told, by member.
  StatusOr<std::vector<std::string>> Listen(Deadline deadline);
  Status ConnectPairs(const std::vector<std::string>& addresses,
                      const std::atomic<bool>* cancelled);
  void ExpectLeaveReasons();
  std::unique_ptr<PendingMessage> NewPending(Rank peer, const void* data, size_t size_bytes) const;
  // What waiting for it came to; kUnderWay if it has come to nothing by then.
  PendingMessage::State WaitFor(PendingMessage& pending, Deadline deadline);
  void SetAwaited(PendingMessage* pending);
  // Wakes the thread that waits.
  void Wake();
  bool IsCancelled();
  // True if nothing more can come from the peer, nor go there.
  bool IsLost(Rank peer) const;

  const std::shared_ptr<const Network> network_;
  const message::Team team_;
  std::shared_ptr<::gloo::transport::Context> mesh_;  // the connections
  std::vector<LeaveReason> leave_reasons_;            // by rank
  bool left_ = false;

  std::mutex mutex_;  // guards what follows against Cancel() and Wake()
  bool cancelled_ = false;
  PendingMessage* awaited_ = nullptr;

  PeriodicWaker::Handle waker_handle_;
};

}  // namespace lockstep::collective::gloo
