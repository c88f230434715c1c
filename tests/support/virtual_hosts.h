// Hosts of a test's own making: namespaces of the kernel with a network of their own, joined by a
// bridge. Each has its own processes, its own /dev/shm and its own addresses, so that what runs
// there shares nothing with the others but the wire.
//
//     host 0 10.77.1.1, fd77:1::1 ─┐
//     host 1 10.77.1.2, fd77:1::2 ─┼─ bridge: the test itself, 10.77.1.254, fd77:1::254
//     ...                         ─┘
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "tests/support/delaying_wire.h"

namespace lockstep::support {

// Threads: one at a time.
class VirtualHosts {
 public:
  // Why this machine cannot have any (it takes root); empty: it can. Call it before there are
  // threads: from then on this process is in a network of its own, without any other.
  static std::string WhyNot();

  explicit VirtualHosts(int count);
  // Ends all that runs there.
  ~VirtualHosts();
  VirtualHosts(const VirtualHosts&) = delete;
  VirtualHosts& operator=(const VirtualHosts&) = delete;

  std::string Address(int host) const {
    return "10.77." + std::to_string(net_) + "." + std::to_string(host + 1);
  }
  std::string Address6(int host) const {
    return "fd77:" + std::to_string(net_) + "::" + std::to_string(host + 1);
  }

  // The command line that runs `argv` on `host`; argv[0] is a path.
  std::vector<std::string> On(int host, const std::vector<std::string>& argv) const;
  // The processes that run on `host`, as numbered here, and the names in its /dev/shm.
  std::vector<pid_t> Processes(int host) const;
  std::vector<std::string> SharedMemory(int host) const;
  // Runs a shell command on `host`; true if it exits with 0.
  bool Run(int host, const std::string& command) const;

  // What goes wrong with a host's wire. A test whose wire cannot be made so ends.
  // Nothing goes in or out, and neither side is told.
  void Isolate(int host) const;
  // Nothing of what others send comes in, though what it sends goes out.
  void Deafen(int host) const;
  // What these two send to each other is lost; others reach both.
  void Separate(int host, int other) const;
  // One packet in `one_in` that comes in is lost.
  void LosePackets(int host, int one_in) const;
  // It sends no more than this.
  void Narrow(int host, const std::string& rate) const;  // "200mbit"
  // What it sends, and what is sent to it, is that long on its way.
  void Lengthen(int host, std::chrono::milliseconds each_way);
  // The wire is as good as new.
  void Mend(int host);

  // Its power is cut: first the wire, then all processes.
  void Kill(int host);
  // The same host again, with nothing running.
  void Boot(int host);

 private:
  // False if this machine cannot.
  bool TryToBoot(int host);

  struct Host {
    pid_t keeper = -1;  // a child of this process, and parent of ...
    pid_t init = -1;    // ... the first process there
  };

  void MustRun(int host, const std::string& command) const;
  // Of both families.
  void Drop(int host, const std::string& rule) const;
  // The wire's usual end at the bridge.
  void Shorten(int host);
  // A host that boots again keeps it, as it keeps its network card: others remember it.
  std::string HardwareAddress(int host) const;
  std::string Wire(int host) const {
    return "n" + std::to_string(net_) + "h" + std::to_string(host);
  }
  std::string Bridge() const { return "br" + std::to_string(net_); }

  const int net_;  // no other of this process has this number
  std::vector<Host> hosts_;
  std::map<int, DelayingWire> long_wires_;  // by host
};

}  // namespace lockstep::support
