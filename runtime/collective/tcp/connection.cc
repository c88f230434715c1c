#include "runtime/collective/tcp/connection.h"

#include <poll.h>
#include <sys/socket.h>

namespace lockstep::collective::tcp {

bool Connection::Progress() {
  bool moved = writer_.is_busy() && writer_.Write(socket_.fd());
  // What the peer has said last is still to be read.
  if (writer_.is_broken()) reader_.DropAll();
  // Also where nothing is expected: a peer that leaves does not take what is sent to it.
  const bool looks = reader_.is_expecting() || writer_.is_busy() || writer_.is_broken();
  if (looks && reader_.Read(socket_.fd())) moved = true;
  return moved;
}

short Connection::Events() const {
  return static_cast<short>((writer_.is_busy() ? POLLOUT : 0) | (reader_.can_read() ? POLLIN : 0));
}

void Connection::Forget() {
  writer_.Forget();
  reader_.DropAll();
}

bool Connection::SendFarewell() {
  if (!socket_.is_open() || is_lost()) return true;
  if (writer_.is_busy()) (void)writer_.Write(socket_.fd());
  return !writer_.is_busy();
}

std::optional<Status> Connection::LeaveReason() {
  if (socket_.is_open() && !is_lost()) (void)reader_.Read(socket_.fd());
  return reader_.leave_reason();
}

Socket Connection::Close() {
  if (socket_.is_open()) (void)shutdown(socket_.fd(), SHUT_WR);
  return std::move(socket_);
}

}  // namespace lockstep::collective::tcp
