// What every example needs before its first call: a session with a cluster, chosen by flags.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "examples/support/flags.h"
#include "runtime/base/status.h"
#include "runtime/client/session.h"
#include "services/local/local_cluster.h"

namespace lockstep::examples {

struct ClusterFlags {
  int workers = 4;
  bool processes = false;
  std::string device = "cpu";
  std::string connect;
  std::string key;
  std::string controller_key;
  std::string module;
};

// --workers, --processes, --device, --connect, --key, --controller-key and --module, and then an
// example's `own`.
std::vector<Flag> WithClusterFlags(ClusterFlags& flags, const std::vector<Flag>& own);

// A session with a cluster that runs already (--connect), or with one of its own: workers as
// threads of this process, or as processes (--processes).
//
// Ownership: a cluster of its own stops when this is destroyed, the session first.
class Cluster {
 public:
  // `module` is the example's library, relative to the repository's root; empty: it has none.
  static StatusOr<Cluster> Open(const ClusterFlags& flags, const std::string& module);

  Session& session() { return *session_; }
  // The library as the workers find it: what LoadModule takes.
  const std::string& module_path() const { return module_path_; }

  // Closes the session, stops a cluster of its own, and reports what went wrong meanwhile.
  Status Close();

 private:
  Cluster() = default;

  std::unique_ptr<local::LocalCluster> cluster_;
  std::optional<Session> session_;
  std::string module_path_;
};

}  // namespace lockstep::examples
