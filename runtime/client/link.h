// A session's connection to the controller: what was asked, what came back, how much more may be
// sent, and whether all is well.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/silence.h"
#include "runtime/base/status.h"
#include "runtime/client/session_messages.h"
#include "runtime/control/channel.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/shm/ring_client_channel.h"
#include "runtime/control/zmq/zmq_context.h"
#include "schemas/session.capnp.h"

namespace lockstep::client {

// How much of a session may be on its way: what keeps every queue between client and workers
// bounded. Counts what was sent, and what the slowest worker has consumed. Units: FlowCost of
// runtime/control/batch.h, in bytes.
//
// Threads: one at a time.
class FlowWindow {
 public:
  // `sent` bytes were sent before, by another client, of which `under_way` are yet to be consumed.
  explicit FlowWindow(uint64_t window_bytes, uint64_t sent = 0, uint64_t under_way = 0)
      : window_(window_bytes), sent_(sent), consumed_(sent - std::min(under_way, sent)) {}

  // True if another command may join the `open` bytes that are yet to be sent. What is on its way
  // thus exceeds the window by less than one batch, and a batch larger than the window can be sent.
  // (Workers report what they consumed every eighth of the window; up to that much stays unreported
  // for ever.)
  bool HasRoom(uint64_t open) const { return sent_ - consumed_ + open < window_; }
  void Sent(uint64_t cost) { sent_ += cost; }
  uint64_t sent() const { return sent_; }
  // Reports of several workers may overtake each other, but never what was sent.
  void Consumed(uint64_t total) { consumed_ = std::max(consumed_, std::min(total, sent_)); }

 private:
  uint64_t window_;
  uint64_t sent_;
  uint64_t consumed_;
};

// A thread that waits for what another thread may read from the socket.
struct Sleeper {
  void Wake() const;

  int wake_fd = -1;  // an eventfd; -1: the thread is awake
};

// An answer that a thread waits for.
struct PendingAnswer : Sleeper {
  bool done = false;
  control::RemoteError error;
  control::Frame body;  // empty if the answer has none
};

// Threads: none of its own; callers hold the session's lock, except for wait_fd().
class Link {
 public:
  static StatusOr<std::unique_ptr<Link>> Open(const OpenRequest& request,
                                              std::shared_ptr<control::ZmqContext> context);
  // The same over a channel that leads to the controller.
  static StatusOr<std::unique_ptr<Link>> Open(const OpenRequest& request,
                                              std::unique_ptr<control::ClientChannel> channel);

  const SessionStart& start() const { return start_; }
  const SessionFacts& facts() const { return facts_; }
  // In rank order.
  const std::vector<Peer>& workers() const { return workers_; }
  // Ranks whose worker was replaced since the session was opened: the first command that the
  // present one was sent.
  const std::map<Rank, uint64_t>& replaced() const { return replaced_; }
  FlowWindow& flow() { return flow_; }
  int wait_fd() const { return channel_->wait_fd(); }
  // As those of its channel.
  bool by_memory() const { return channel_->by_memory(); }
  // A thread asks for an answer, and then looks for it until it has come. It may sleep meanwhile.
  class Looking {
   public:
    explicit Looking(Link& link) : channel_(*link.channel_) { channel_.BeginLooking(); }
    ~Looking() { channel_.EndLooking(); }
    Looking(const Looking&) = delete;
    Looking& operator=(const Looking&) = delete;

   private:
    control::ClientChannel& channel_;
  };
  // Around sleeping on wait_fd(), of each thread that does. What came until then is taken in.
  void BeginSleep();
  void EndSleep();
  control::ClientChannel& channel() { return *channel_; }

  // Sends a message of the session, then looks for input (a send may hide its arrival from
  // wait_fd()). What cannot be sent is missing for ever: the session is lost then.
  Status Send(const control::Message& message);
  // Takes in everything that has arrived.
  void Drain();

  // What functions print, and the position to tell the controller when it has been dealt with.
  using OnOutput = std::function<void(std::vector<WorkerOutput> lines, uint64_t position)>;
  void SetOnOutput(OnOutput on_output) { on_output_ = std::move(on_output); }

  // `answer` is filled in when the answer to `request` arrives. Forget() before it goes away.
  // Requests are counted upwards.
  void Expect(RequestId request, PendingAnswer* answer) {
    last_request_ = request;
    pending_[request] = answer;
  }
  void Forget(RequestId request) { pending_.erase(request); }

  // `sleeper` waits until more may be sent: it is woken when that, or the session's state, changes.
  void AwaitRoom(Sleeper* sleeper) { room_sleepers_.push_back(sleeper); }
  void StopAwaitingRoom(Sleeper* sleeper) { std::erase(room_sleepers_, sleeper); }
  void WakeRoomSleepers() const;

  // Why nothing can be asked (controller gone or silent, or restarted and not resumed yet), else
  // OK.
  Status Lost() const;
  // The same without a look at the clock, which would tell that the controller is silent.
  Status KnownLost() const;
  // Why nothing can ever be asked again, else OK.
  Status Over() const { return gone_; }
  // The first cause if the session's work of this generation has failed, else OK. Of a generation
  // that may not have begun: why.
  Status Failed() const { return failure_.ok() ? not_begun_ : failure_.ToStatus(); }
  // The last that was begun here.
  Generation generation() const { return generation_; }
  // That batches are sent in: this one, or, where its reset may not have been done, the last that
  // is known to have begun on the other side.
  Generation sent_generation() const { return not_begun_.ok() ? generation_ : begun_; }
  // Forgets the failure; messages of older generations are ignored from now on. Its reset is sent
  // next, and what other threads issue meanwhile follows it.
  void StartGeneration(Generation generation);
  // The reset that was to begin `generation` was answered, or could not be. The session counts as
  // failed from then on unless it has begun: unless the controller has said OK, or that ranks have
  // not come to it in time.
  void EndReset(Generation generation, const Status& answered);

  Status SendKeepAlive();
  // A loop comes round at least so often, and says so: time in which this process was stopped is
  // not the controller's silence.
  std::chrono::milliseconds longest_round() const { return facts_.lease / 4; }
  void NoteRound() { silence_.Round(Deadline::Clock::now()); }

  // The number of the first command that has not been sent: where a session is resumed.
  void SetNextCommand(uint64_t number) { next_command_ = number; }

 private:
  // `opened` is the controller's answer.
  Link(std::unique_ptr<control::RingClientChannel> channel, wire::SessionOpened::Reader opened);

  // Sends what does not count.
  Status Transmit(const control::Message& message);
  void Handle(const control::Message& message);
  Status HandleControllerMessage(wire::ControllerMessage::Reader reader,
                                 const control::Message& message);
  void Complete(RequestId request, const control::RemoteError& error, control::Frame body);
  // Each thread that waits for an answer to a request up to `last` gets `cause`.
  void FailPending(const Status& cause, RequestId last);
  // The session is over.
  void End(const Status& cause);
  void HandleRefusal(wire::Refusal::Reader refusal);
  void HandleKeepAlive(wire::KeepAlive::Reader answer);
  // Messages go by memory that is shared with the controller from now on, where it offers some and
  // this is its host. It is waited for, for a tenth of a second at most.
  void TakeRings(wire::SessionOpened::Reader opened);
  // Another controller has taken the place of ours: asks it to go on with the session.
  void Resume(Epoch controller);
  void HandleResumed(wire::SessionOpened::Reader opened);

  const std::unique_ptr<control::RingClientChannel> channel_;
  int sleepers_ = 0;  // threads between BeginSleep() and EndSleep()
  SessionFacts facts_;
  const SessionStart start_;
  std::vector<Peer> workers_;
  std::map<Rank, uint64_t> replaced_;
  FlowWindow flow_;
  Generation generation_;
  Generation begun_;  // the last whose reset was acknowledged
  Status not_begun_;  // why generation_ may not have begun; OK: it has, or it is about to
  uint64_t next_command_ = 1;
  // Messages of this session, as KeepAlive counts them.
  uint64_t sent_ = 0;
  uint64_t received_ = 1;  // the one that opened it
  bool tell_again_ = false;
  bool draining_ = false;
  RequestId last_request_;
  RequestId asked_before_keep_alive_;  // the last request when a keep-alive was sent last
  Epoch resuming_;  // the controller that was asked to resume; none: the session has its controller
  control::RemoteError failure_;
  Status gone_;
  Silence silence_;  // of the controller
  std::map<RequestId, PendingAnswer*> pending_;
  std::vector<Sleeper*> room_sleepers_;
  OnOutput on_output_;
};

}  // namespace lockstep::client
