// Messages over the frames of an MPI job.
//
// A message that fits a frame is sent at once, and kept by a receiver that does not await it yet. A
// longer one is sent when its receiver awaits it, piece by piece, and put where it belongs.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/collective/message/transport.h"
#include "runtime/collective/mpi/job.h"
#include "runtime/collective/rendezvous.h"

namespace lockstep::collective::mpi {

class MpiTransport final : public message::Transport, private Frames::Receiver {
 public:
  // The members tell each other their ports. kFailedPrecondition if they are not all of one job.
  // `job` is borrowed.
  static StatusOr<std::unique_ptr<MpiTransport>> Connect(Job& job,
                                                         std::shared_ptr<Rendezvous> rendezvous,
                                                         message::Team team,
                                                         const std::atomic<bool>* cancelled,
                                                         Deadline deadline);
  ~MpiTransport() override;

  std::string_view name() const override { return "mpi"; }
  int rank() const override { return team_.rank; }
  int size() const override { return static_cast<int>(team_.members.size()); }
  message::Outcome Run(absl::Span<const message::Outgoing> outgoing,
                       absl::Span<const message::Incoming> incoming, Deadline deadline) override;
  void Cancel() override { cancelled_ = true; }
  void Leave(const Status& why) override;
  std::optional<Status> LeaveReasonOf(Rank peer) override;
  StatusOr<std::unique_ptr<message::Transport>> Split(absl::Span<const Rank> group_ranks,
                                                      uint64_t tag,
                                                      const std::atomic<bool>* cancelled,
                                                      Deadline deadline) override;

 private:
  struct Peer {
    // Not known before the rendezvous.
    int process = -1;
    uint64_t port = 0;
    bool left = false;
    std::optional<Status> leave_reason = {};
    // Frames that it has not taken.
    std::shared_ptr<int> on_its_way = std::make_shared<int>(0);
  };
  struct Arriving {
    std::byte* data = nullptr;
    size_t size_bytes = 0;
    size_t received_bytes = 0;
  };
  struct Leaving {
    message::Outgoing message;
    size_t sent_bytes = 0;
  };
  using Name = std::pair<Rank, uint64_t>;  // of a message: peer and tag

  MpiTransport(Job& job, std::shared_ptr<Rendezvous> rendezvous, message::Team team);
  Status FindPeers(const std::vector<std::string>& addresses);

  // All that follow with the frames' mutex held.
  void TakeFrame(int process, const Frame& frame, absl::Span<const std::byte> payload) override;
  void TakeData(const Frame& frame, absl::Span<const std::byte> payload);
  void Await(const message::Incoming& incoming);
  void Send(Rank to, Frame::Kind kind, uint64_t tag, size_t offset_bytes,
            absl::Span<const std::byte> payload);
  // Sends what may be sent now. False if that is nothing.
  bool Push(std::vector<Leaving>& leaving);
  // How the messages under way stand: kDone, kLost, or kExpired, if the deadline passed now.
  message::Outcome Look(const std::vector<Leaving>& leaving) const;

  Frames& frames_;
  Job& job_;
  const std::shared_ptr<Rendezvous> rendezvous_;
  const message::Team team_;
  std::atomic<bool> cancelled_{false};
  bool left_ = false;

  uint64_t port_ = 0;

  // With the frames' mutex held.
  std::vector<Peer> peers_;            // by rank
  std::map<Name, Arriving> awaited_;   // of the Run() under way
  std::map<Name, std::string> early_;  // came before they were awaited
  std::set<Name> wanted_;              // by their receivers
};

}  // namespace lockstep::collective::mpi
