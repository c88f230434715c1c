#include "runtime/collective/message/connecting.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>

namespace lockstep::collective::message {
namespace {

// Those that did not reach each other try again after this.
constexpr std::chrono::milliseconds kRetryPause{20};
// Names the exchange after a try, apart from the one before.
constexpr uint64_t kTried = 0x7472696564;
// Before what a rank tells another: where to connect, or why it cannot listen.
constexpr char kPlace = '@';
constexpr char kFailure = '!';

// Of the world. What was tried until the deadline.
Status NotConnected(Rank rank, const std::string& why) {
  return DeadlineExceeded("rank ", rank, " is not connected: ", why);
}

}  // namespace

Status CheckOptions(const NetworkOptions& options) {
  if (options.rank < 0 || options.rank >= options.size) {
    return InvalidArgument("there is no rank ", options.rank, " of ", options.size);
  }
  if (options.rendezvous == nullptr) return InvalidArgument("the ranks have no rendezvous");
  return OkStatus();
}

Status TcpAvailable() {
  for (const int family : {AF_INET, AF_INET6}) {
    const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    close(fd);
    return OkStatus();
  }
  return Unavailable("there is no TCP here: ", std::strerror(errno));
}

StatusOr<std::vector<std::string>> ExchangePlaces(Rendezvous& rendezvous, const Team& team,
                                                  const StatusOr<std::vector<std::string>>& mine,
                                                  const std::atomic<bool>* cancelled,
                                                  Deadline deadline) {
  std::vector<std::string> told;
  if (mine.ok()) {
    for (const std::string& place : *mine) told.push_back(kPlace + place);
  } else {
    told = {kFailure + Message(mine.status())};
  }
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<std::string> theirs,
                            rendezvous.Exchange(team.key, team.members, told, cancelled, deadline));
  LOCKSTEP_RETURN_IF_ERROR(mine.status());
  for (size_t member = 0; member < theirs.size(); ++member) {
    std::string& words = theirs[member];
    const bool has_place = !words.empty() && words.front() == kPlace;
    if (!words.empty()) words.erase(0, 1);
    if (!has_place) return Unavailable("rank ", team.members[member], " ", words);
  }
  return theirs;
}

StatusOr<std::unique_ptr<Transport>> ConnectTogether(Rendezvous& rendezvous, const Team& team,
                                                     const ConnectOnce& connect,
                                                     const std::atomic<bool>* cancelled,
                                                     Deadline deadline) {
  Status last;
  for (uint64_t number = 1;; ++number) {
    Team now = team;
    now.key = Mix(team.key, number);
    auto transport = connect(now);
    // Who has connected must not begin before the others have, nor without them.
    const auto failed = ShareOutcome(rendezvous, Mix(now.key, kTried), team.members,
                                     transport.status(), cancelled, deadline);
    if (failed.ok() && !failed->has_value()) return transport;
    if (failed.ok()) {
      last = NotConnected((*failed)->rank, (*failed)->why);
    } else if (transport.status().code() == StatusCode::kUnavailable) {
      last =
          NotConnected(team.members[static_cast<size_t>(team.rank)], Message(transport.status()));
    } else if (transport.status().code() == StatusCode::kDeadlineExceeded) {
      last = transport.status();
    }
    if (failed.status().code() == StatusCode::kDeadlineExceeded || deadline.Expired()) {
      // There is no time for another try: why it took one says more.
      return last.ok() ? failed.status() : last;
    }
    LOCKSTEP_RETURN_IF_ERROR(failed.status());
    std::this_thread::sleep_for(kRetryPause);
  }
}

}  // namespace lockstep::collective::message
