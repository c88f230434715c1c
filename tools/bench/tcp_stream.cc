// The rival of bulk copies: a plain TCP stream over loopback, from the memory of one process into
// that of another, with no framing, no checksum and no other connection served meanwhile.
//
//     tcp_stream SIZE...       prints rate_SIZE in GB/s, the median over several copies of each
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tools/bench/report.h"
#include "tools/bench/rival_process.h"

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kLifeSeconds = 60;
constexpr size_t kBytesPerMeasurement = size_t{512} << 20;
constexpr size_t kPieceBytes = size_t{1} << 20;

// Sends or receives all of it, a piece at a time.
template <typename Transfer, typename Byte>
void Whole(Transfer transfer, int fd, Byte* data, size_t size_bytes) {
  while (size_bytes > 0) {
    const ssize_t done = transfer(fd, data, std::min(size_bytes, kPieceBytes), MSG_NOSIGNAL);
    Require(done > 0, "move bytes");
    data += done;
    size_bytes -= static_cast<size_t>(done);
  }
}

int Listen(sockaddr_in* address) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  address->sin_family = AF_INET;
  address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof *address;
  Require(fd >= 0 && bind(fd, reinterpret_cast<sockaddr*>(address), size) == 0 &&
              listen(fd, 1) == 0 &&
              getsockname(fd, reinterpret_cast<sockaddr*>(address), &size) == 0,
          "listen");
  return fd;
}

// Takes copies of each size, and answers each with a byte.
[[noreturn]] void Receive(int listener, const std::vector<size_t>& sizes) {
  LimitLife(kLifeSeconds);
  const int fd = accept(listener, nullptr, nullptr);
  Require(fd >= 0, "accept");
  std::vector<uint8_t> memory(*std::max_element(sizes.begin(), sizes.end()));
  uint64_t size_bytes = 0;
  while (recv(fd, &size_bytes, sizeof size_bytes, MSG_WAITALL) == ssize_t{sizeof size_bytes}) {
    Whole(recv, fd, memory.data(), size_bytes);
    Whole(send, fd, memory.data(), 1);
  }
  std::_Exit(0);
}

double Rate(int fd, std::vector<float>& source) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(source.data());
  const uint64_t size_bytes = source.size() * sizeof(float);
  const size_t copies = std::clamp<size_t>(kBytesPerMeasurement / size_bytes, 1, 64);
  std::vector<double> rates;
  for (size_t i = 0; i <= copies; ++i) {
    std::fill(source.begin(), source.end(), static_cast<float>(i));
    const auto start = Clock::now();
    Whole(send, fd, reinterpret_cast<const uint8_t*>(&size_bytes), sizeof size_bytes);
    Whole(send, fd, bytes, size_bytes);
    uint8_t answer = 0;
    Whole(recv, fd, &answer, 1);
    const std::chrono::duration<double> elapsed = Clock::now() - start;
    // The first one touches the receiver's memory.
    if (i > 0) rates.push_back(static_cast<double>(size_bytes) / elapsed.count() * 1e-9);
  }
  return Median(std::move(rates));
}

int Main(const std::vector<size_t>& sizes) {
  LimitLife(kLifeSeconds);
  sockaddr_in address = {};
  const int listener = Listen(&address);
  const pid_t pid = fork();
  Require(pid >= 0, "fork");
  if (pid == 0) Receive(listener, sizes);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  Require(fd >= 0 && connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0,
          "connect");
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  for (const size_t size_bytes : sizes) {
    std::vector<float> source(size_bytes / sizeof(float));
    std::printf("rate_%zu %.6f\n", size_bytes, Rate(fd, source));
  }
  close(fd);
  Require(wait(nullptr) == pid, "wait");
  return 0;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  std::vector<size_t> sizes;
  for (int i = 1; i < argc; ++i) sizes.push_back(std::strtoull(argv[i], nullptr, 10));
  if (sizes.empty() || *std::min_element(sizes.begin(), sizes.end()) < sizeof(float)) {
    std::fprintf(stderr, "usage: tcp_stream SIZE...\n");
    return 2;
  }
  return lockstep::bench::Main(sizes);
}
