// A rendezvous in a folder, for ranks of one host that have no controller: those of tests and
// benchmarks.
#pragma once

#include <cstdlib>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/collective/rendezvous.h"

namespace lockstep::collective {

// A folder of its own for a run, removed with all in it at the end.
class RendezvousFolder {
 public:
  RendezvousFolder() : path_(std::filesystem::temp_directory_path() / "rendezvous-XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~RendezvousFolder() { std::filesystem::remove_all(path_); }
  RendezvousFolder(const RendezvousFolder&) = delete;
  RendezvousFolder& operator=(const RendezvousFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class FolderRendezvous final : public Rendezvous {
 public:
  FolderRendezvous(std::string folder, Rank rank) : folder_(std::move(folder)), rank_(rank) {}

  StatusOr<std::vector<std::string>> Exchange(uint64_t key, absl::Span<const Rank> members,
                                              const std::vector<std::string>& mine,
                                              const std::atomic<bool>* cancelled,
                                              Deadline deadline) override {
    for (size_t i = 0; i < members.size(); ++i) {
      // What was left there when the key was used before is taken first.
      const std::string path = Path(key, rank_, members[i]);
      LOCKSTEP_RETURN_IF_ERROR(Await(path, false, members[i], cancelled, deadline));
      Write(path, mine[mine.size() == 1 ? 0 : i]);
    }
    std::vector<std::string> theirs;
    for (const Rank member : members) {
      const std::string path = Path(key, member, rank_);
      LOCKSTEP_RETURN_IF_ERROR(Await(path, true, member, cancelled, deadline));
      std::ifstream file(path, std::ios::binary);
      theirs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
      std::filesystem::remove(path);
    }
    return theirs;
  }

 private:
  static Status Await(const std::string& path, bool there, Rank member,
                      const std::atomic<bool>* cancelled, Deadline deadline) {
    while (std::filesystem::exists(path) != there) {
      if (cancelled != nullptr && *cancelled) return Aborted("the rendezvous was cancelled");
      if (deadline.Expired()) {
        return DeadlineExceeded("rank ", member, " did not come to the rendezvous in time");
      }
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    return OkStatus();
  }
  std::string Path(uint64_t key, Rank from, Rank to) const {
    return folder_ + "/" + std::to_string(key) + "-" + std::to_string(from) + "-" +
           std::to_string(to);
  }
  // Renamed into place, so that a reader sees all of it or nothing.
  static void Write(const std::string& path, const std::string& text) {
    std::ofstream(path + ".new", std::ios::binary) << text;
    std::filesystem::rename(path + ".new", path);
  }

  const std::string folder_;
  const Rank rank_;
};

}  // namespace lockstep::collective
