#include "runtime/control/worker_report.h"

#include <cstdio>

namespace lockstep {

std::string WorkerActivity::WhatAndPlace() const {
  return what + (what.empty() || place.empty() ? "" : " at ") + place;
}

std::string WorkerActivity::Describe() const {
  if (kind == Kind::kNone) return "nothing";
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.1f s", std::chrono::duration<double>(since).count());
  const std::string is = WhatAndPlace();
  return "command " + std::to_string(command) + (is.empty() ? "" : " (" + is + ")") +
         " of session " + std::to_string(session.value) + " for " + seconds;
}

bool HeldRegister::operator==(const HeldRegister& other) const {
  const bool lie_alike = layout == other.layout ||
                         (layout != nullptr && other.layout != nullptr && *layout == *other.layout);
  return lie_alike && id == other.id && name == other.name && type == other.type &&
         bytes == other.bytes && dtype == other.dtype && shape == other.shape &&
         device == other.device && detail == other.detail &&
         layout_left_out == other.layout_left_out;
}

}  // namespace lockstep
