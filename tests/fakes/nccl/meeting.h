// Where the ranks of a fake communicator meet: a file in shared memory with a channel for each pair
// of them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::fake_nccl {

inline constexpr int kMostRanks = 16;

// Bytes from one rank to another, in order.
struct Channel {
  static constexpr uint64_t kBytes = 32 * 1024;
  std::atomic<uint64_t> written{0};
  std::atomic<uint64_t> read{0};
  std::byte ring[kBytes];

  // Both move what they can, and return how much that is.
  size_t Write(const std::byte* from, size_t size_bytes);
  size_t Read(std::byte* to, size_t size_bytes);
  // What was not read is as if it had not been written.
  void TakeBack() { written.store(read.load()); }
};

// One transfer of an operation.
struct Transfer {
  Channel* channel = nullptr;
  bool is_send = false;
  std::byte* memory = nullptr;
  size_t size_bytes = 0;
};

class Meeting {
 public:
  // The ranks that give the same name meet. The file is removed when all have come.
  Meeting(const std::string& name, int rank, int size);
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::string& name() const { return name_; }
  bool AllAreHere() const;

  Channel& To(int rank) { return shared_->channels[rank_][rank]; }
  Channel& From(int rank) { return shared_->channels[rank][rank_]; }

  // Makes all transfers at the same time; those of one channel in their order. False: it was ended
  // before.
  bool Run(std::vector<Transfer> transfers);

  // Ends what this rank does here, and will do. Others do not get any more of it.
  void End();
  // The others have got all that this rank has sent them, or have ended.
  bool IsFlushed() const;

 private:
  struct Shared {
    std::atomic<int> came;
    std::atomic<bool> has_ended[kMostRanks];
    Channel channels[kMostRanks][kMostRanks];
  };

  const std::string name_;
  const int rank_;
  const int size_;
  Shared* shared_ = nullptr;
  std::atomic<bool> ended_{false};
};

}  // namespace lockstep::fake_nccl
