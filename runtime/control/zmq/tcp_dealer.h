// The connecting end over tcp: it shows keys, notices when it is turned away, and tries again with
// the keys that hold by then.
// Private to this folder.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "runtime/base/deadline.h"
#include "runtime/control/channel.h"
#include "runtime/control/zmq/dealer_channel.h"
#include "runtime/control/zmq/handshakes.h"
#include "runtime/control/zmq/zmq_channel.h"

namespace lockstep::control {

class TcpDealer final : public DealerChannel {
 public:
  static StatusOr<std::unique_ptr<ClientChannel>> Connect(std::shared_ptr<ZmqContext> context,
                                                          const std::string& endpoint,
                                                          const ZmqOptions& options);
  ~TcpDealer() override;

  bool HasInput() override;
  int wait_fd() const override { return all_fd_; }
  Status Send(const Message& message) override;
  bool Receive(Message* message) override;
  Status trouble() const override { return trouble_; }
  uint64_t interruptions() override {
    Look();
    return interruptions_;
  }

 private:
  TcpDealer(Socket socket, std::shared_ptr<ZmqContext> context, std::string endpoint,
            const ZmqOptions& options, const RoutingId& id);
  Status Start();

  // Looks now and then: it is asked for on the way of every message.
  void LookSometimes();
  void Look();
  void NoteHandshakes();
  void Note(Handshake handshake);
  void ConnectAgain();
  // Each attempt has a socket of its own, and only that is watched: else the end of one attempt, of
  // which we hear late, would look like that of the next.
  Status Renew();
  // Shows the keys that hold now, to the next of the listeners that we take for the right one, and
  // connects.
  Status Attempt();
  Status ShowKeys();
  void TryAgainAfter(std::chrono::milliseconds pause);
  // For the next attempt.
  void Keep(const Message& message);
  void Forget();

  const std::shared_ptr<ZmqContext> context_;
  const std::string endpoint_;
  const ZmqOptions options_;
  const RoutingId id_;
  std::optional<Handshakes> handshakes_;
  int all_fd_ = -1;    // readable when one of the others is
  int timer_fd_ = -1;  // when to try again
  unsigned looks_ = 0;
  bool connected_ = false;
  bool will_try_again_ = false;
  uint64_t interruptions_ = 0;
  bool has_news_ = false;  // of that
  size_t attempts_ = 0;
  KeyPair shown_;
  PublicKey expected_;
  size_t listeners_ = 0;
  Status trouble_;
  // What was sent before a listener had let us in: of an attempt that fails, nothing has arrived.
  std::deque<Message> not_taken_;
  size_t not_taken_bytes_ = 0;
  bool keeps_;  // false: it may not, or there was too much of it
};

}  // namespace lockstep::control
