#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/collective/folder_rendezvous.h"
#include "runtime/collective/tcp/socket.h"
#include "runtime/collective/tcp/tcp.h"

namespace lockstep::collective::tcp {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr uint64_t kNothing = ~uint64_t{0};

// Something on the way from rank 1 to rank 0, which takes the one's connection for the other, and
// changes the byte of this number (in that direction) of what goes over it.
class OnTheWay {
 public:
  explicit OnTheWay(uint64_t changed_byte) : changed_byte_(changed_byte) {
    StatusOr<Socket> listener = Socket::Listen("127.0.0.1");
    EXPECT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }
  ~OnTheWay() { thread_.join(); }

  // What rank 0 has told, as rank 1 hears it.
  std::string Redirect(const std::string& words) {
    std::istringstream fields(words.substr(1));  // behind '@'
    Place target;
    fields >> target.address >> target.port;
    std::string rest;
    std::getline(fields, rest);
    thread_ = std::thread([this, target] { Relay(target); });
    const StatusOr<Place> own = listener_.place();
    return "@" + own->address + " " + std::to_string(own->port) + rest;
  }

 private:
  static void Await(int fd, short what) {
    pollfd awaited = {fd, what, 0};
    (void)poll(&awaited, 1, -1);
  }
  // All that is there. False: it has ended.
  bool Pass(const Socket& from, const Socket& to, bool changes) {
    std::vector<uint8_t> bytes(1 << 16);
    const ssize_t got = recv(from.fd(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got <= 0) return got < 0 && IsTemporary(errno);
    const auto size = static_cast<uint64_t>(got);
    if (changes && changed_byte_ >= passed_ && changed_byte_ < passed_ + size) {
      bytes[changed_byte_ - passed_] ^= 1;
    }
    if (changes) passed_ += size;
    for (uint64_t sent = 0; sent < size;) {
      const ssize_t taken = send(to.fd(), bytes.data() + sent, size - sent, MSG_NOSIGNAL);
      if (taken < 0 && !IsTemporary(errno)) return false;
      if (taken < 0) Await(to.fd(), POLLOUT);
      if (taken > 0) sent += static_cast<uint64_t>(taken);
    }
    return true;
  }
  void Relay(const Place& target) {
    Await(listener_.fd(), POLLIN);
    Socket caller = listener_.Accept();
    StatusOr<Socket> called = Socket::Connect(target);
    ASSERT_TRUE(called.ok()) << called.status();
    Await(called->fd(), POLLOUT);
    // Until one of them ends: then both connections do.
    while (true) {
      pollfd awaited[] = {{caller.fd(), POLLIN, 0}, {called->fd(), POLLIN, 0}};
      (void)poll(awaited, 2, -1);
      if (!Pass(caller, *called, true) || !Pass(*called, caller, false)) return;
    }
  }

  const uint64_t changed_byte_;
  Socket listener_;
  uint64_t passed_ = 0;
  std::thread thread_;
};

class MisledRendezvous final : public Rendezvous {
 public:
  MisledRendezvous(const std::string& folder, OnTheWay& on_the_way)
      : rendezvous_(folder, 1), on_the_way_(on_the_way) {}

  StatusOr<std::vector<std::string>> Exchange(uint64_t key, absl::Span<const Rank> members,
                                              const std::vector<std::string>& mine,
                                              const std::atomic<bool>* cancelled,
                                              Deadline deadline) override {
    LOCKSTEP_ASSIGN_OR_RETURN(std::vector<std::string> words,
                              rendezvous_.Exchange(key, members, mine, cancelled, deadline));
    words[0] = on_the_way_.Redirect(words[0]);
    return words;
  }

 private:
  FolderRendezvous rendezvous_;
  OnTheWay& on_the_way_;
};

class TamperingTest : public ::testing::Test {
 protected:
  // Both ranks add up large tensors, several times; how that went, by rank.
  std::vector<Status> Run(uint64_t changed_byte) {
    const RendezvousFolder folder;
    OnTheWay on_the_way(changed_byte);
    std::vector<Status> statuses(2);
    std::vector<std::thread> threads;
    for (Rank rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        message::NetworkOptions options;
        options.rank = rank;
        options.size = 2;
        options.address = "127.0.0.1";
        if (rank == 0) {
          options.rendezvous = std::make_shared<FolderRendezvous>(folder.path(), 0);
        } else {
          options.rendezvous = std::make_shared<MisledRendezvous>(folder.path(), on_the_way);
        }
        statuses[static_cast<size_t>(rank)] = AddUp(options);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return statuses;
  }

 private:
  static Status AddUp(const message::NetworkOptions& options) {
    const Deadline deadline = Deadline::After(1h);
    LOCKSTEP_ASSIGN_OR_RETURN(const auto communicator,
                              Connect(options, {.plaintext = Plaintext::kNowhere}, deadline));
    for (int i = 0; i < 3; ++i) {
      std::vector<float> data(300'000, static_cast<float>(options.rank + 1));
      const Buffer buffer = {data.data(), data.size(), DType::kFloat32};
      LOCKSTEP_RETURN_IF_ERROR(communicator->AllReduce({data.data(), data.size(), DType::kFloat32},
                                                       buffer, ReduceOp::kSum, deadline));
      for (const float sum : data) {
        if (sum != 3) return Internal("the sum is ", sum);
      }
    }
    return OkStatus();
  }
};

TEST_F(TamperingTest, WhoOnlyPassesOnDoesNoHarm) {
  for (const Status& status : Run(kNothing)) EXPECT_EQ(status, OkStatus());
}

TEST_F(TamperingTest, WhatIsChangedOnItsWayIsAnErrorThatNamesTheRanks) {
  // In what the first operation begins with, in its tensor, and in the last operation's.
  for (const uint64_t byte : {100, 500'000, 1'700'000}) {
    SCOPED_TRACE(byte);
    const std::vector<Status> statuses = Run(byte);
    EXPECT_EQ(statuses[0].code(), StatusCode::kDataLoss) << statuses[0];
    EXPECT_THAT(Message(statuses[0]),
                HasSubstr("what came from rank 1 to rank 0 is not what it has sent"));
    EXPECT_FALSE(statuses[1].ok());
  }
}

}  // namespace
}  // namespace lockstep::collective::tcp
