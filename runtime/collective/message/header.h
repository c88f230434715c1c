// What ranks tell each other before they exchange data. Of fixed size, so that ranks which disagree
// understand each other all the same.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/collective/call.h"
#include "runtime/collective/message/message_communicator.h"

namespace lockstep::collective::message {

// Data of up to this size travels with the header. Together they are half a page. What the data
// does not fill is sent as zeros: nobody gets to see what lay in this memory before.
inline constexpr size_t kInlineBytes = 2048 - 24;

struct MessageCommunicator::Header {
  Call call;
  uint64_t count = 0;
  uint64_t counts_hash = 0;
  // The part that goes to this rank, if it is small enough.
  std::byte data[kInlineBytes] = {};
};

struct MessageCommunicator::PairHeader {
  DType dtype = DType::kUInt8;
  uint8_t unused[7] = {};
  uint64_t count = 0;
  std::byte data[kInlineBytes] = {};
};
// Without the data: what a receiver says.
inline constexpr size_t kPairHeaderBytes = 16;

}  // namespace lockstep::collective::message
