#include "runtime/collective/tcp/connection.h"

#include <poll.h>
#include <sys/socket.h>

namespace lockstep::collective::tcp {

bool Connection::Progress() {
  bool moved = writer_->is_busy() && writer_->Write(socket_.fd());
  if (writer_->is_broken()) GiveUp();
  // Also where nothing is expected: a peer that leaves does not take what is sent to it.
  const bool looks = reader_.is_expecting() || writer_->is_busy() || gave_up_;
  if (looks && reader_.Read(socket_.fd())) {
    moved = true;
  } else if (gave_up_) {
    is_dead_ = true;
  }
  return moved;
}

void Connection::GiveUp() {
  gave_up_ = true;
  reader_.DropAll();
}

short Connection::Events() const {
  return static_cast<short>((writer_->is_busy() ? POLLOUT : 0) |
                            (reader_.can_read() ? POLLIN : POLLRDHUP));
}

// A peer that has gone, behind a message that has to wait: nobody would ever come to read that.
void Connection::NoteEvents(short found) {
  if (!reader_.can_read() && (found & (POLLRDHUP | POLLHUP | POLLERR)) != 0) GiveUp();
}

void Connection::Forget() {
  writer_->Forget();
  reader_.DropAll();
}

bool Connection::SendFarewell() {
  // A peer whose words were forged on their way may still hear why this rank leaves.
  if (!socket_.is_open() || (is_lost() && !is_forged())) return true;
  if (writer_->is_busy()) (void)writer_->Write(socket_.fd());
  return !writer_->is_busy() && !socket_.HasUnsent();
}

std::optional<Status> Connection::LeaveReason() {
  if (socket_.is_open() && !is_lost()) (void)reader_.Read(socket_.fd());
  return reader_.leave_reason();
}

void Connection::Close() {
  if (!socket_.is_open()) return;
  // A socket that is closed with something unread in it throws away what it has not sent.
  reader_.DropAll();
  (void)reader_.Read(socket_.fd());
  (void)shutdown(socket_.fd(), SHUT_WR);
  socket_ = Socket();
}

}  // namespace lockstep::collective::tcp
