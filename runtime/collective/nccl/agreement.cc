#include "runtime/collective/nccl/agreement.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/collective/checks.h"

namespace lockstep::collective::nccl {
namespace {

// What is told of a disagreement.
struct Text {
  char bytes[1024] = {};
};

// A message on its way from one rank to another.
struct Announcement {
  uint64_t count = 0;
  DType dtype = DType::kUInt8;
  char unused[7] = {};
};

}  // namespace

Status CallAgreement::Agree(const Call& given, uint64_t count, Counts counts, Deadline deadline) {
  if (size() == 1) return OkStatus();
  Header mine{given, count, 0};
  for (const int64_t part : counts) {
    mine.hash = Mix(mine.hash, static_cast<uint64_t>(part));
  }
  if (!AreEven(counts)) mine.call.uneven = 1;
  const Rank root = members()[given.root];
  return AgreeOn(mine, whole_.empty() ? Describe(mine.call, count, counts, root) : whole_,
                 given.kind == Kind::kBarrier ? "" : " on its GPU", deadline);
}

Status CallAgreement::AgreeOnHostMemory(const std::string& what, Deadline deadline) {
  if (size() == 1) return OkStatus();
  // Whether the rest agrees the host's communicator finds out. No operation of GPUs has such a
  // count.
  return AgreeOn({Call(), UINT64_MAX, 0}, what, " in host memory", deadline);
}

Status CallAgreement::AgreeOn(const Header& mine, const std::string& what, const char* where,
                              Deadline deadline) {
  const auto all = ShareAmongAll<Header>(host_, {&mine, 1}, what, deadline);
  if (!all.ok()) return all.status();
  bool agree = true;
  for (const Header& theirs : *all) {
    agree &=
        theirs.call.Agrees(mine.call) && theirs.count == mine.count && theirs.hash == mine.hash;
  }
  if (agree) [[likely]]
    return OkStatus();
  // All ranks have seen it, so all take part in telling each other the rest.
  Text text;
  const std::string told = what + where;
  std::memcpy(text.bytes, told.data(), std::min(told.size(), sizeof text.bytes - 1));
  const auto texts = ShareAmongAll<Text>(host_, {&text, 1}, "a disagreement", deadline);
  if (!texts.ok()) return texts.status();
  std::vector<std::string> descriptions;
  for (const Text& t : *texts) descriptions.emplace_back(t.bytes, strnlen(t.bytes, sizeof t.bytes));
  return InvalidArgument(DescribeDisagreement(descriptions, members()));
}

StatusOr<bool> CallAgreement::AgreeOnPairs(DType dtype, Counts send_counts, Counts recv_counts,
                                           Deadline deadline) {
  LOCKSTEP_RETURN_IF_ERROR(Agree({.kind = Kind::kAllToAll, .dtype = dtype}, 0, {}, deadline));
  std::vector<int64_t> mine(send_counts.begin(), send_counts.end());
  mine.insert(mine.end(), recv_counts.begin(), recv_counts.end());
  const auto shared = ShareAmongAll<int64_t>(host_, mine, "an all-to-all", deadline);
  if (!shared.ok()) return shared.status();
  const std::vector<int64_t>& all = *shared;
  const auto n = static_cast<size_t>(size());
  for (size_t from = 0; from < n; ++from) {
    for (size_t to = 0; to < n; ++to) {
      const int64_t sent = all[from * 2 * n + to];
      const int64_t expected = all[to * 2 * n + n + from];
      if (sent == expected) continue;
      return InvalidArgument("the ranks disagree: in an all-to-all, rank ", members()[from],
                             " sends ", sent, " elements to rank ", members()[to],
                             ", which expects ", expected);
    }
  }
  return AreEven(all);
}

// The announcements go the way of the messages; whether they fit is told the other way.
Status CallAgreement::AgreeOnMessages(ConstBuffer send, Rank to, ConstBuffer recv, Rank from,
                                      Deadline deadline) {
  const auto move = [&](auto* out, Rank out_to, auto* in, Rank in_from) -> Status {
    const Buffer sent = BytesOf(out, 1);
    const Buffer received = BytesOf(in, 1);
    if (out_to >= 0 && in_from >= 0) {
      return host_.SendRecv(sent, out_to, received, in_from, deadline);
    }
    return out_to >= 0 ? host_.Send(sent, out_to, deadline)
                       : host_.Recv(received, in_from, deadline);
  };
  Announcement mine{send.count, send.dtype};
  Announcement theirs;
  const Announcement expected{recv.count, recv.dtype};
  Status moved = move(&mine, to, &theirs, from);
  if (!moved.ok()) return moved;
  Announcement refused_here = expected;
  Announcement refused_there = mine;
  moved = move(&refused_here, from, &refused_there, to);
  if (!moved.ok()) return moved;
  const auto compare = [&](Rank sender, const Announcement& sent, Rank receiver,
                           const Announcement& wanted) -> Status {
    if (sent.count == wanted.count && sent.dtype == wanted.dtype) return OkStatus();
    return InvalidArgument("rank ", members()[static_cast<size_t>(sender)], " sends ", sent.count,
                           " ", sent.dtype, " to rank ", members()[static_cast<size_t>(receiver)],
                           ", which expects ", wanted.count, " ", wanted.dtype);
  };
  Status fits = to < 0 ? OkStatus() : compare(host_.rank(), mine, to, refused_there);
  if (fits.ok() && from >= 0) fits = compare(from, theirs, host_.rank(), expected);
  return fits;
}

}  // namespace lockstep::collective::nccl
