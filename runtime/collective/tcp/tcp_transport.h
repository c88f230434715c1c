// Messages over TCP, moved by the thread that waits for them.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/collective/message/transport.h"
#include "runtime/collective/tcp/connection.h"
#include "runtime/collective/tcp/mesh.h"

namespace lockstep::collective::tcp {

// No thread of its own: a message passes none but the two that send and receive it.
class TcpTransport final : public message::Transport {
 public:
  // Connects this rank with the other members; see ConnectMesh().
  static StatusOr<std::unique_ptr<message::Transport>> Connect(
      std::shared_ptr<const Network> network, const message::Team& team,
      const std::atomic<bool>* cancelled, Deadline deadline);
  ~TcpTransport() override;

  std::string_view name() const override { return "tcp"; }
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
  TcpTransport(std::shared_ptr<const Network> network, message::Team team,
               std::vector<Connection> connections, Socket cancel);

  Connection& With(Rank peer) { return connections_[static_cast<size_t>(peer)]; }
  // Until the messages of `peers` are through, or something ends that; `peers` are then those whose
  // messages are not.
  message::Outcome::Kind MoveMessages(std::vector<Rank>& peers, Deadline deadline);
  // Until something can be done for one of them, or Cancel().
  void Sleep(const std::vector<Rank>& peers, Deadline deadline);

  const std::shared_ptr<const Network> network_;
  const message::Team team_;
  std::vector<Connection> connections_;  // by rank
  bool left_ = false;
  const Socket cancel_;  // an eventfd: readable once it is cancelled
  std::atomic<bool> cancelled_{false};
};

}  // namespace lockstep::collective::tcp
