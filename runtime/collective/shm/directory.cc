#include "runtime/collective/shm/directory.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace lockstep::collective::shm {
namespace {

constexpr uint64_t kMagic = 0x6c6f636b73687631;  // "lockshv1"
constexpr size_t kEntryAlignment = 64;
constexpr uint32_t kOpen = uint32_t{1} << 31;

}  // namespace

struct alignas(kEntryAlignment) Directory::Header {
  std::atomic<uint64_t> magic;  // kMagic once the rest is valid
  std::atomic<uint64_t> process;
  std::atomic<uint64_t> control_bytes;
  std::atomic<uint64_t> num_entries;
};

struct alignas(kEntryAlignment) Directory::Entry {
  std::atomic<uint64_t> key;  // 0: free
  std::atomic<uint64_t> offset;
  std::atomic<uint64_t> block_bytes;
  std::atomic<uint32_t> users;     // members counted in; kOpen is added until one of them closes it
  std::atomic<uint32_t> given_up;  // 1 once the owner has closed it
};

Directory::Header& Directory::header() const { return *reinterpret_cast<Header*>(control_); }
Directory::Entry* Directory::entries() const {
  return reinterpret_cast<Entry*>(control_ + sizeof(Header));
}

void Directory::Initialise(size_t control_bytes, uint64_t process) {
  if (IsReady()) return;
  header().process = process;
  header().control_bytes = control_bytes;
  // No block is smaller than two of these entries and a payload area: entries never run out first.
  header().num_entries = control_bytes / 8192;
  header().magic.store(kMagic, std::memory_order_release);
}

bool Directory::IsReady() const { return header().magic.load(std::memory_order_acquire) == kMagic; }

uint64_t Directory::process() const { return header().process; }

void Directory::Reclaim() {
  for (size_t i = 0; i < header().num_entries; ++i) {
    Entry& entry = entries()[i];
    if (entry.key != 0 && entry.users == 0) entry.key = 0;
  }
}

size_t Directory::FindGap(size_t block_bytes) const {
  std::vector<std::pair<size_t, size_t>> used;  // offset, size
  const size_t num_entries = header().num_entries;
  used.emplace_back(0, sizeof(Header) + num_entries * sizeof(Entry));
  for (size_t i = 0; i < num_entries; ++i) {
    const Entry& entry = entries()[i];
    if (entry.key != 0) used.emplace_back(entry.offset, entry.block_bytes);
  }
  used.emplace_back(header().control_bytes, 0);
  std::sort(used.begin(), used.end());
  for (size_t i = 0; i + 1 < used.size(); ++i) {
    const size_t end = used[i].first + used[i].second;
    if (used[i + 1].first >= end + block_bytes) return end;
  }
  return 0;
}

StatusOr<Directory::Found> Directory::Open(uint64_t key, size_t block_bytes) {
  Reclaim();
  const size_t num_entries = header().num_entries;
  size_t free = 0;
  while (free < num_entries && entries()[free].key != 0) ++free;
  const size_t offset = free < num_entries ? FindGap(block_bytes) : 0;
  if (offset == 0) {
    const auto live = std::count_if(entries(), entries() + num_entries,
                                    [](const Entry& entry) { return entry.key != 0; });
    const auto given_up = CountGivenUp();
    return ResourceExhausted(
        "no room for another communicator in a control area of ", header().control_bytes.load(),
        " bytes: ", live - given_up, " are open, and ", given_up,
        " wait for other members to close them; close sessions, or free plans, that are done, or "
        "make the area larger (a worker's communicator_bytes)");
  }
  Entry& entry = entries()[free];
  std::memset(control_ + offset, 0, block_bytes);
  entry.offset = offset;
  entry.block_bytes = block_bytes;
  entry.given_up = 0;
  entry.key = key;
  entry.users = kOpen | 1;  // last: from here on the peers find it
  return Found{static_cast<int>(free), control_ + offset};
}

std::optional<Directory::Found> Directory::Find(uint64_t key) {
  for (size_t i = 0; i < header().num_entries; ++i) {
    Entry& entry = entries()[i];
    if (entry.key != key) continue;
    uint32_t users = entry.users;
    while ((users & kOpen) != 0 && !entry.users.compare_exchange_weak(users, users + 1)) {
    }
    if ((users & kOpen) == 0) continue;
    // Being counted in, the entry cannot change any more; but it may have, just before.
    if (entry.key == key) return Found{static_cast<int>(i), control_ + entry.offset};
    --entry.users;
  }
  return std::nullopt;
}

int Directory::CountGivenUp() const {
  return static_cast<int>(
      std::count_if(entries(), entries() + header().num_entries, [](const Entry& entry) {
        return entry.key != 0 && entry.users != 0 && entry.given_up != 0;
      }));
}

void Directory::CloseAsOwner(int entry) {
  entries()[entry].given_up = 1;
  Close(entry);
}

void Directory::CountIn(int entry) { ++entries()[entry].users; }

void Directory::Close(int entry) {
  entries()[entry].users &= ~kOpen;
  --entries()[entry].users;
}

}  // namespace lockstep::collective::shm
