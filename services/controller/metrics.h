// What the controller tells a monitoring system.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>

#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "services/controller/membership.h"
#include "services/controller/options.h"
#include "services/controller/session_table.h"

namespace lockstep::controller {

// Threads: Observe() belongs to the controller's thread, the rest is safe from any.
class Metrics {
 public:
  explicit Metrics(const ControllerOptions& options);

  // How things stand now. Called every time that the controller looks at its timers, if anybody can
  // ask for it.
  void Observe(const Membership& membership, const SessionTable& sessions);

  // In Prometheus' text format.
  std::string Text() const;
  // kUnavailable if the controller's thread does not come round any more.
  Status Healthy() const;
  // OK if sessions can be opened; else who is missing.
  Status Ready() const;

 private:
  prometheus::Gauge& AddGauge(const char* name, const char* help,
                              const prometheus::Labels& labels = {});

  prometheus::Registry registry_;
  std::map<Membership::State, prometheus::Gauge*> workers_;
  prometheus::Gauge& sessions_;
  prometheus::Gauge& flow_window_bytes_;
  prometheus::Gauge& flow_under_way_bytes_;
  prometheus::Gauge& flow_under_way_max_bytes_;

  mutable std::mutex mutex_;  // guards what follows
  // Not a Status: what it counts its copies with would be shared with the threads that read.
  StatusCode ready_ = StatusCode::kUnavailable;
  std::string ready_text_ = "the controller is starting";
  Deadline::Clock::time_point observed_ = Deadline::Clock::now();
};

}  // namespace lockstep::controller
