// Gathers the workers' answers to each request into one answer for the client.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/control/channel.h"
#include "runtime/control/error_codec.h"
#include "services/controller/common/clock.h"

namespace lockstep::controller {

// A request that workers have yet to answer.
struct PendingRequest {
  control::PeerName client;
  SessionId session;
  RequestId request;
  Deadline deadline = Deadline::At({});
  TimePoint began = {};                // when it came; none: it is no request of a client
  std::vector<bool> waiting;           // by rank: has not answered yet
  int missing = 0;                     // how many of them
  control::RemoteError error;          // the first cause among the answers so far
  std::vector<control::Frame> bodies;  // of the ranks' answers that have one, as they came
  std::string beside;  // what ranks do for it beside their commands; empty: a command

  // All bodies, one after the other: what follows the answer to the client.
  control::Frame JoinedBodies() const;
};

// Threads: one at a time.
class Gatherer {
 public:
  using Finish = std::function<void(const PendingRequest&)>;
  // The error of a request of this session that these ranks have not answered in time.
  using Late = std::function<control::RemoteError(SessionId, const std::vector<Rank>&)>;

  // `finish` is called once per request, when it is complete.
  Gatherer(Finish finish, Late late) : finish_(std::move(finish)), late_(std::move(late)) {}

  // Starts waiting for `from` (-1: all `workers` ranks). The request came `now`. `beside`, for
  // people: what ranks do beside their commands, which tell nothing of it then ("compile f.mlir").
  void Expect(const control::PeerName& client, SessionId session, RequestId request, int workers,
              Rank from, Deadline deadline, TimePoint now, std::string beside = "");
  // An answer of `rank`. One that is not waited for (it came too late) is ignored.
  void Answer(SessionId session, RequestId request, Rank rank, const control::RemoteError& error,
              control::Frame body);
  // Completes all requests of `session` with `error`.
  void FailAll(SessionId session, const control::RemoteError& error);
  // How many of its requests are not complete.
  size_t CountOf(SessionId session) const;
  // Completes what is late with the error that `late` makes of the late ranks. Returns the next
  // deadline, or one far away.
  Deadline Expire(TimePoint now);

 private:
  using Key = std::pair<SessionId, RequestId>;

  void Complete(std::map<Key, PendingRequest>::iterator request);

  const Finish finish_;
  const Late late_;
  std::map<Key, PendingRequest> pending_;
  std::map<SessionId, size_t> counts_;  // of those in pending_; none is 0
};

}  // namespace lockstep::controller
