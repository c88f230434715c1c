#include "runtime/collective/message/pair_messages.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

namespace lockstep::collective::message {
namespace {

// Apart from the tags of rounds. A sender's messages and a receiver's answers travel in the same
// direction, if both ranks send to each other.
constexpr uint64_t kOfPairs = uint64_t{1} << 63;
constexpr uint64_t kOfReceivers = uint64_t{1} << 62;

// What both tell each other. Of fixed size, so that ranks which disagree understand each other.
struct PairHeader {
  DType dtype = DType::kUInt8;
  uint8_t unused[7] = {};
  uint64_t count = 0;
  std::byte data[kInlineBytes] = {};
};
// Without the data: what a receiver says.
constexpr size_t kPairHeaderBytes = 16;

std::string DescribeBuffer(DType dtype, uint64_t count) {
  return std::to_string(count) + " " +
         std::string(static_cast<int>(dtype) < kDTypeCount ? Name(dtype) : "unknown elements");
}

}  // namespace

// One message of this rank, as its sender or its receiver.
class PairMessages::Transfer {
 public:
  Transfer(PairMessages& pairs, Rank peer, ConstBuffer send)
      : pairs_(pairs), peer_(peer), sends_(true), bytes_(send.size_bytes()), from_(send.data) {
    Begin(send.dtype, send.count, pairs.sent_);
    if (IsSmall() && bytes_ > 0) std::memcpy(mine_.data, from_, bytes_);
  }
  Transfer(PairMessages& pairs, Rank peer, Buffer recv)
      : pairs_(pairs), peer_(peer), sends_(false), bytes_(recv.size_bytes()), to_(recv.data) {
    Begin(recv.dtype, recv.count, pairs.received_);
  }

  void PostHeaders() const {
    const size_t mine = sends_ ? sizeof(PairHeader) : kPairHeaderBytes;
    const size_t theirs = sends_ ? kPairHeaderBytes : sizeof(PairHeader);
    pairs_.rounds_.Add(Outgoing{peer_, tag_ | (sends_ ? 0 : kOfReceivers), &mine_, mine});
    pairs_.rounds_.Add(Incoming{peer_, tag_ | (sends_ ? kOfReceivers : 0),
                                const_cast<PairHeader*>(&theirs_), theirs});
  }
  Status Compare() const {
    if (mine_.dtype == theirs_.dtype && mine_.count == theirs_.count) return OkStatus();
    const PairHeader& sent = sends_ ? mine_ : theirs_;
    const PairHeader& expected = sends_ ? theirs_ : mine_;
    const Rank self = pairs_.rounds_.WorldRank(pairs_.rounds_.rank());
    const Rank other = pairs_.rounds_.WorldRank(peer_);
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
      pairs_.rounds_.Add(Outgoing{peer_, tag_ + 1, from_, bytes_});
    } else {
      pairs_.rounds_.Add(Incoming{peer_, tag_ + 1, to_, bytes_});
    }
  }
  std::string Describe() const {
    const Rank other = pairs_.rounds_.WorldRank(peer_);
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

  PairMessages& pairs_;
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
Status PairMessages::Run(Deadline deadline, const Transfers&... transfers) {
  (rounds_.SetWhat(transfers.Describe()), ...);
  (transfers.PostHeaders(), ...);
  LOCKSTEP_RETURN_IF_ERROR(rounds_.RunAdded(deadline));
  Status agree;
  (agree.Update(transfers.Compare()), ...);
  if (!agree.ok()) return rounds_.Fail(agree);
  (transfers.PostData(), ...);
  return rounds_.RunAdded(deadline);
}

Status PairMessages::Send(ConstBuffer send, Rank to, Deadline deadline) {
  return Run(deadline, Transfer(*this, to, send));
}

Status PairMessages::Recv(Buffer recv, Rank from, Deadline deadline) {
  return Run(deadline, Transfer(*this, from, recv));
}

Status PairMessages::SendRecv(ConstBuffer send, Rank to, Buffer recv, Rank from,
                              Deadline deadline) {
  return Run(deadline, Transfer(*this, to, send), Transfer(*this, from, recv));
}

}  // namespace lockstep::collective::message
