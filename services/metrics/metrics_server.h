// The HTTP port of a service: /metrics for Prometheus; /startupz, /healthz, /readyz and /idlez for
// an orchestrator that waits for its start, restarts it, sends it work, or stops it while it has
// none.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/base/status.h"

namespace lockstep::metrics {

// Called by the server's thread, one at a time: one that waits keeps the others waiting.
struct Answers {
  // Prometheus' text format, version 0.0.4
  // (https://prometheus.io/docs/instrumenting/exposition_formats).
  std::function<std::string()> metrics;
  // OK: 200. An error: 503, with its message.
  std::function<Status()> started;
  std::function<Status()> healthy;
  std::function<Status()> ready;
  std::function<Status()> idle;
};

// Threads: one of its own. Ownership: serves until it is destroyed, and calls nothing afterwards.
class MetricsServer {
 public:
  // `endpoint` is "http://ADDRESS:PORT"; port * or 0: any free one. kUnavailable if it cannot
  // listen there.
  static StatusOr<std::unique_ptr<MetricsServer>> Start(const std::string& endpoint,
                                                        Answers answers);
  virtual ~MetricsServer() = default;

  // Where it really listens.
  virtual const std::string& endpoint() const = 0;
};

}  // namespace lockstep::metrics
