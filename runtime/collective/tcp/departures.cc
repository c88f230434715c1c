#include "runtime/collective/tcp/departures.h"

#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "runtime/collective/tcp/chunk.h"

namespace lockstep::collective::tcp {
namespace {

// A peer that takes longer is given up.
constexpr std::chrono::seconds kLongestDeparture{10};
constexpr std::chrono::milliseconds kLookInterval{100};

}  // namespace

Departures& Departures::OfProcess() {
  // Never destroyed: threads may still leave when the process ends.
  static auto* const departures = new Departures();
  return *departures;
}

void Departures::Add(Socket socket) {
  if (!socket.is_open() || IsClosed(socket)) return;
  std::lock_guard lock(mutex_);
  departures_.push_back({std::move(socket), Deadline::After(kLongestDeparture)});
  count_ = departures_.size();
}

void Departures::CloseOver() {
  if (count_ == 0) return;
  std::lock_guard lock(mutex_);
  if (!next_look_.Expired()) return;
  next_look_ = Deadline::After(kLookInterval);
  departures_.remove_if([](const Departure& departure) {
    return IsClosed(departure.socket) || departure.deadline.Expired();
  });
  count_ = departures_.size();
}

bool Departures::IsClosed(const Socket& socket) {
  char dropped[16384];
  // Of one that goes on sending, some at a time.
  for (size_t dropped_bytes = 0; dropped_bytes < kMostBytesAtOnce;) {
    const ssize_t got = recv(socket.fd(), dropped, sizeof dropped, MSG_DONTWAIT);
    if (got == 0) return true;
    if (got < 0 && errno != EINTR) return !IsTemporary(errno);
    if (got > 0) dropped_bytes += static_cast<size_t>(got);
  }
  return false;
}

}  // namespace lockstep::collective::tcp
