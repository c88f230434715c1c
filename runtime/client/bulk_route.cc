#include "runtime/client/bulk_route.h"

#include <poll.h>

#include <algorithm>
#include <list>

#include "runtime/base/deadline.h"
#include "runtime/control/local_address.h"
#include "runtime/control/tcp_attempt.h"

namespace lockstep::client {

namespace {

// An earlier route may answer so much later, and is taken nevertheless.
constexpr std::chrono::milliseconds kHeadStart{100};

}  // namespace

std::vector<std::string> BulkRoutes(const std::string& worker_endpoint,
                                    const std::string& controller_endpoint) {
  std::vector<std::string> routes = {worker_endpoint};
  const std::string host = control::HostOf(controller_endpoint);
  const std::string own = control::HostOf(worker_endpoint);
  if (!host.empty() && !own.empty() && host != own) {
    routes.push_back(control::WithHost(worker_endpoint, host));
  }
  return routes;
}

std::string ChooseBulkRoute(const std::vector<std::string>& routes,
                            std::chrono::milliseconds patience) {
  if (routes.size() < 2) return routes.front();
  std::list<control::TcpAttempt> attempts;
  for (const std::string& route : routes) attempts.emplace_back(route, patience);
  const auto answers = [](const control::TcpAttempt& attempt) {
    return attempt.obstacle().has_value() && attempt.obstacle()->empty();
  };
  // Begins when a process answers; until then there is always something sooner to wait for.
  Deadline head_start = Deadline::After(std::chrono::hours(1));
  while (true) {
    const auto undecided = std::find_if(attempts.begin(), attempts.end(), [&](const auto& attempt) {
      return !attempt.obstacle().has_value() || answers(attempt);
    });
    if (undecided == attempts.end()) return routes.front();
    if (answers(*undecided)) return undecided->endpoint();
    const auto found = std::find_if(attempts.begin(), attempts.end(), answers);
    if (found != attempts.end()) {
      if (head_start.Expired()) return found->endpoint();
      head_start = head_start.Earlier(Deadline::After(kHeadStart));
    }

    std::vector<pollfd> waits;
    std::vector<control::TcpAttempt*> waiting;
    Deadline until = head_start;
    for (control::TcpAttempt& attempt : attempts) {
      if (attempt.obstacle().has_value()) continue;
      waits.push_back(attempt.Wait());
      waiting.push_back(&attempt);
      until = until.Earlier(attempt.deadline());
    }
    poll(waits.data(), waits.size(), until.RemainingMillis());
    for (size_t i = 0; i < waiting.size(); ++i) {
      const bool has_event = waits[i].revents != 0;
      if (has_event || waiting[i]->deadline().Expired()) waiting[i]->Look(has_event);
    }
  }
}

}  // namespace lockstep::client
