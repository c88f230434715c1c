// The `hosts` of a cluster file: where its workers run.
//
//     hosts:
//       - localhost                                     # one worker on this host
//       - node1                                         # one on node1, started over ssh
//       - {host: me@node2, workers: 4, arena_bytes: 8GiB}
//
// Ranks go from the first host to the last.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "services/config/settings.h"
#include "services/controller/options.h"

namespace lockstep::local {

// The host that needs no ssh. Another name or address of it, such as 127.0.0.1, does.
inline constexpr char kThisHost[] = "localhost";

struct HostOptions {
  std::string host = kThisHost;  // as ssh takes it
  int workers = 1;
  // The worker's program on a host that ssh reaches: a path, or a name in the PATH there.
  std::string program = "lockstep-worker";

  bool IsThisHost() const { return host == kThisHost; }
};

// A row for the worker's program on other hosts.
config::Setting RemoteProgram(std::string key, std::string& field, std::string doc);
// The table of one host. `options` is borrowed: it outlives the result.
config::Settings HostSettings(HostOptions& options);

// One item of the section.
struct HostItem {
  std::string section;                 // "hosts[1]", in front of its entries' keys
  std::string where;                   // its line
  std::vector<config::Entry> entries;  // "hosts[1].host", ...: a plain name counts as that
};

// True for what belongs to the section.
bool IsForHosts(const config::Entry& entry);

// The items of the section. A list that is given whole replaces an earlier one, as by --set
// hosts=[a, b]; --set hosts[0].workers=2 adds to an item.
std::vector<HostItem> SplitHosts(const std::vector<config::Entry>& entries,
                                 config::Problems& problems);

// Reports a controller that workers of other hosts could not reach. `entries` are those of the
// whole file, `where` is where one needs it.
void CheckReachable(const controller::ControllerOptions& controller,
                    const std::vector<config::Entry>& entries, const std::string& where,
                    config::Problems& problems);

}  // namespace lockstep::local
