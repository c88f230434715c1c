// The worker's end of bulk copies over a socket (schemas/bulk.capnp).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/input_waiter.h"
#include "runtime/tensor/processor.h"
#include "runtime/tensor/tensor.h"
#include "runtime/trace/ring.h"
#include "schemas/bulk.capnp.h"
#include "services/worker/bulk/bulk_gate.h"
#include "services/worker/report/transfer_counts.h"

namespace lockstep::worker {

// The most that is moved with one request.
inline constexpr int64_t kMaxBulkChunkBytes = int64_t{4} << 20;

// Serves reads and writes of the tensors that have a ticket, on a thread and a socket of its own,
// so that a copy never delays a command.
//
// Threads: safe.
class BulkServer {
 public:
  // `gate`, if there is one, is the channel's.
  explicit BulkServer(std::unique_ptr<control::ServerChannel> channel,
                      std::shared_ptr<BulkGate> gate = nullptr);
  ~BulkServer();

  // Where clients send their requests.
  const std::string& endpoint() const { return endpoint_; }
  // By which they know it; empty: it asks for no keys.
  std::string key() const { return gate_ == nullptr ? "" : gate_->own().public_key.Text(); }
  // Null: any program that can connect may use it.
  BulkGate* gate() { return gate_.get(); }
  // What was moved, chunk by chunk.
  const TransferCounts& written() const { return written_; }
  const TransferCounts& read() const { return read_; }

  // What is recorded of them for a timeline.
  trace::Ring& ring() { return ring_; }

  // Lets a client that has the ticket read and write `tensor`, which is kept alive until the ticket
  // is withdrawn. Tickets cannot be guessed: a session has those of its own registers only.
  uint64_t Publish(const tensor::Tensor& tensor);
  // Once it returns, nothing is written under the ticket. Waits for the chunk that is being copied,
  // which a GPU gives up.
  void Withdraw(uint64_t ticket);

  // Reaches tensors on the worker's GPU by `gpu`, which is the bulk thread's from now on. `prepare`
  // is called before each chunk: it makes the GPU that thread's, and what it is given says when to
  // give up. Before the first of them is published.
  using Prepare = std::function<Status(std::function<Status()> interrupted)>;
  void UseGpu(std::unique_ptr<tensor::Processor> gpu, Prepare prepare);

  // Where the controller takes clients: what a client that takes this socket for the controller's
  // is told. Empty: it is not known.
  void SetClientEndpoint(const std::string& endpoint);

  // Orders the bulk thread's copies with what the calling thread does to the same memory. The
  // client sees to the order itself, by waiting for one before it asks for the other, but it does
  // so over two sockets, and memory knows nothing of those.
  void Synchronise() { synchronised_.fetch_add(1, std::memory_order_acq_rel); }
  // Commands have come, for which copies should leave room.
  void NoteCommands() { commands_.fetch_add(1, std::memory_order_relaxed); }

 private:
  struct Published {
    tensor::Tensor tensor;
    uint64_t commands = 0;  // when a request for it came last
  };

  void Run();
  // True: commands have come since this was last asked of the ticket.
  bool CommandsCame(uint64_t ticket);
  void Record(Deadline::Clock::time_point began, bool is_read, size_t bytes, StatusCode code);
  void Handle(const control::PeerName& client, const control::Message& message);
  // True: `message` is of another protocol, and its sender was told what listens here.
  bool AnswerStranger(const control::PeerName& client, const control::Message& message);
  // Does what `request` asks for; `answer` gets the frame that a read returns.
  Status Serve(wire::BulkRequest::Reader request, const control::Message& message,
               control::Message* answer);
  // The tensor, which is in use until Finish(); null if the ticket is not valid.
  tensor::Tensor Begin(uint64_t ticket);
  void Finish();
  // What works on the tensor; an error: nothing here does.
  StatusOr<tensor::Processor*> PlaceOf(const tensor::Tensor& tensor);

  const std::unique_ptr<control::ServerChannel> channel_;
  const std::string endpoint_;
  const std::shared_ptr<BulkGate> gate_;
  const std::unique_ptr<tensor::Processor> host_;
  control::WakeUp wake_up_;
  std::atomic<bool> stopping_{false};
  std::atomic<uint64_t> synchronised_{0};
  std::atomic<uint64_t> commands_{0};
  std::mutex mutex_;
  std::condition_variable finished_;
  std::optional<uint64_t> in_use_;  // the ticket whose tensor is being copied
  std::unordered_map<uint64_t, Published> tensors_;
  std::unique_ptr<tensor::Processor> gpu_;
  Prepare prepare_gpu_;
  std::string client_endpoint_;
  std::atomic<bool> is_withdrawn_{false};  // what is in use
  TransferCounts written_;
  TransferCounts read_;
  trace::Ring ring_;
  std::thread thread_;
};

}  // namespace lockstep::worker
