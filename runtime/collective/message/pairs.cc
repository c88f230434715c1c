// Messages between two ranks: both tell each other what they send and expect, then the data
// follows.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "runtime/collective/message/header.h"
#include "runtime/collective/message/message_communicator.h"

namespace lockstep::collective::message {
namespace {

// Apart from the tags of rounds. A sender's messages and a receiver's answers travel in the same
// direction, if both ranks send to each other.
constexpr uint64_t kOfPairs = uint64_t{1} << 63;
constexpr uint64_t kOfReceivers = uint64_t{1} << 62;

std::string DescribeBuffer(DType dtype, uint64_t count) {
  return std::to_string(count) + " " +
         std::string(static_cast<int>(dtype) < kDTypeCount ? Name(dtype) : "unknown elements");
}

}  // namespace

// One message of this rank, as its sender or its receiver.
class MessageCommunicator::PairTransfer {
 public:
  PairTransfer(MessageCommunicator& comm, Rank peer, ConstBuffer send)
      : comm_(comm), peer_(peer), sends_(true), bytes_(send.size_bytes()), from_(send.data) {
    Begin(send.dtype, send.count, comm.sent_);
    if (IsSmall() && bytes_ > 0) std::memcpy(mine_.data, from_, bytes_);
  }
  PairTransfer(MessageCommunicator& comm, Rank peer, Buffer recv)
      : comm_(comm), peer_(peer), sends_(false), bytes_(recv.size_bytes()), to_(recv.data) {
    Begin(recv.dtype, recv.count, comm.received_);
  }

  void PostHeaders() const {
    const size_t mine = sends_ ? sizeof(PairHeader) : kPairHeaderBytes;
    const size_t theirs = sends_ ? kPairHeaderBytes : sizeof(PairHeader);
    comm_.outgoing_.push_back({peer_, tag_ | (sends_ ? 0 : kOfReceivers), &mine_, mine});
    comm_.incoming_.push_back(
        {peer_, tag_ | (sends_ ? kOfReceivers : 0), const_cast<PairHeader*>(&theirs_), theirs});
  }
  Status Compare() const {
    if (mine_.dtype == theirs_.dtype && mine_.count == theirs_.count) return OkStatus();
    const PairHeader& sent = sends_ ? mine_ : theirs_;
    const PairHeader& expected = sends_ ? theirs_ : mine_;
    const Rank self = comm_.members_[static_cast<size_t>(comm_.rank())];
    const Rank other = comm_.members_[static_cast<size_t>(peer_)];
    return InvalidArgument("the ranks disagree: rank ", sends_ ? self : other, " sends ",
                           DescribeBuffer(sent.dtype, sent.count), " to rank ",
                           sends_ ? other : self, ", which expects ",
                           DescribeBuffer(expected.dtype, expected.count));
  }
  // After Compare(). What is small has come already.
  void PostData() const {
    if (IsSmall()) {
      if (!sends_ && bytes_ > 0) std::memcpy(to_, theirs_.data, bytes_);
    } else if (sends_) {
      comm_.outgoing_.push_back({peer_, tag_ + 1, from_, bytes_});
    } else {
      comm_.incoming_.push_back({peer_, tag_ + 1, to_, bytes_});
    }
  }
  std::string Describe() const {
    const Rank other = comm_.members_[static_cast<size_t>(peer_)];
    return std::string(sends_ ? "a send of " : "a receive of ") +
           DescribeBuffer(mine_.dtype, mine_.count) + (sends_ ? " to rank " : " from rank ") +
           std::to_string(other);
  }

 private:
  void Begin(DType dtype, size_t count, std::vector<uint64_t>& counter) {
    mine_.dtype = dtype;
    mine_.count = count;
    tag_ = kOfPairs | 2 * counter[static_cast<size_t>(peer_)]++;
  }
  bool IsSmall() const { return bytes_ <= kInlineBytes; }

  MessageCommunicator& comm_;
  const Rank peer_;
  const bool sends_;
  const size_t bytes_;
  const void* const from_ = nullptr;
  void* const to_ = nullptr;
  uint64_t tag_ = 0;
  PairHeader mine_ = {};
  PairHeader theirs_ = {};
};

template <typename... Transfers>
Status MessageCommunicator::RunPairs(Deadline deadline, const Transfers&... transfers) {
  ((what_ = transfers.Describe()), ...);
  (transfers.PostHeaders(), ...);
  LOCKSTEP_RETURN_IF_ERROR(RunAdded(deadline));
  Status agree;
  (agree.Update(transfers.Compare()), ...);
  if (!agree.ok()) return Fail(agree);
  (transfers.PostData(), ...);
  return RunAdded(deadline);
}

Status MessageCommunicator::DoSend(ConstBuffer send, Rank to, Deadline deadline) {
  return RunPairs(deadline, PairTransfer(*this, to, send));
}

Status MessageCommunicator::DoRecv(Buffer recv, Rank from, Deadline deadline) {
  return RunPairs(deadline, PairTransfer(*this, from, recv));
}

Status MessageCommunicator::DoSendRecv(ConstBuffer send, Rank to, Buffer recv, Rank from,
                                       Deadline deadline) {
  return RunPairs(deadline, PairTransfer(*this, to, send), PairTransfer(*this, from, recv));
}

}  // namespace lockstep::collective::message
