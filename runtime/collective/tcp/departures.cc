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

}  // namespace

void Departures::Add(Socket socket) {
  CloseOver();
  if (!socket.is_open() || IsClosed(socket)) return;
  std::lock_guard lock(mutex_);
  departures_.push_back({std::move(socket), Deadline::After(kLongestDeparture)});
}

void Departures::CloseOver() {
  std::lock_guard lock(mutex_);
  departures_.remove_if([](const Departure& departure) {
    return IsClosed(departure.socket) || departure.deadline.Expired();
  });
}

bool Departures::IsClosed(const Socket& socket) {
  char dropped[4096];
  while (true) {
    const ssize_t got = recv(socket.fd(), dropped, sizeof dropped, MSG_DONTWAIT);
    if (got > 0) continue;
    if (got == 0) return true;
    if (errno != EINTR) return !IsTemporary(errno);
  }
}

}  // namespace lockstep::collective::tcp
