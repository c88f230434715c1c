// The TCP connection of two ranks.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/collective/tcp/chunk_reader.h"
#include "runtime/collective/tcp/chunk_writer.h"
#include "runtime/collective/tcp/sealed_writer.h"
#include "runtime/collective/tcp/sealing/cipher.h"
#include "runtime/collective/tcp/socket.h"

namespace lockstep::collective::tcp {

// Of one end of a connection.
struct Ciphers {
  std::unique_ptr<Cipher> seal;
  std::unique_ptr<Cipher> open;
};

// Threads: one at a time. Nothing here waits. Ownership: the memory of messages is borrowed until
// they are through, or Forget().
class Connection {
 public:
  // Of this rank with itself: it has no messages.
  Connection() : Connection(Socket()) {}
  // What goes over it, goes as it is.
  explicit Connection(Socket socket)
      : socket_(std::move(socket)), writer_(std::make_unique<ChunkWriter>()) {}
  // What goes over it, only its two ends can read, or change unnoticed.
  Connection(Socket socket, Ciphers ciphers)
      : socket_(std::move(socket)),
        writer_(std::make_unique<SealedWriter>(std::move(ciphers.seal))),
        reader_(std::move(ciphers.open)) {}

  void Send(uint64_t tag, const void* data, size_t size_bytes) {
    writer_->Add(tag, data, size_bytes);
  }
  void Expect(uint64_t tag, void* data, size_t size_bytes) {
    reader_.Expect(tag, data, size_bytes);
  }
  // Some message is not through.
  bool HasWork() const { return gave_up_ || writer_->has_messages() || reader_.is_expecting(); }
  // Moves what can be moved without waiting. True if that was anything.
  bool Progress();
  // Nothing more comes: the peer has left or ended, or the way to it.
  bool is_lost() const { return is_dead_ || reader_.is_over(); }
  // And that because what has come is not what the peer has sent.
  bool is_forged() const { return reader_.is_forged(); }

  // What to poll() for when Progress() has nothing to do, and what it has found then.
  int fd() const { return socket_.fd(); }
  short Events() const;
  void NoteEvents(short found);

  // Nothing of the messages is touched any more. After this only a farewell is sent.
  void Forget();
  void AddFarewell(const Status& why) { writer_->AddFarewell(why); }
  // Sends of the farewell what can be sent without waiting. True once the network has it, and
  // everything before it, or cannot have it.
  bool SendFarewell();
  // Takes in what has come, after Forget(): what the peer, which is lost, has said when it left.
  std::optional<Status> LeaveReason();

  // The kernel goes on with what the network has not delivered yet.
  void Close();

 private:
  // Its messages will never be through: what the peer has said last is still to be read.
  void GiveUp();

  Socket socket_;
  bool gave_up_ = false;
  bool is_dead_ = false;  // and it has said no more
  std::unique_ptr<MessageWriter> writer_;
  ChunkReader reader_;
};

}  // namespace lockstep::collective::tcp
