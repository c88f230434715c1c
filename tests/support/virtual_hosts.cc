#include "tests/support/virtual_hosts.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>

namespace lockstep::support {
namespace {

constexpr int kNamespaces = CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS | CLONE_NEWIPC;

bool Shell(const std::string& command) {
  const int status = std::system(command.c_str());
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void MustShell(const std::string& command) {
  if (Shell(command)) return;
  std::cerr << "failed: " << command << std::endl;
  std::abort();
}

// Why not, or empty: this process is in a network of its own, where it can make bridges.
std::string EnterOwnNetwork() {
  // Where these tools are, whatever PATH this process was started with.
  setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin", 1);
  if (geteuid() != 0) return "only root can make network namespaces";
  for (const char* tool : {"ip", "iptables", "nsenter", "tc"}) {
    if (!Shell(std::string("command -v ") + tool + " >/dev/null")) {
      return std::string("there is no `") + tool + "`";
    }
  }
  if (unshare(CLONE_NEWNET) != 0) {
    return std::string("cannot make a network namespace: ") + std::strerror(errno);
  }
  if (!Shell("ip link set lo up && ip link add probe type bridge && ip link del probe")) {
    return "cannot make a bridge";
  }
  if (!Shell("iptables -w -A INPUT -m statistic --mode random --probability 0.5 -j ACCEPT && "
             "iptables -w -F && ip6tables -w -L -n >/dev/null")) {
    return "this kernel has no packet filter for iptables";
  }
  if (!Shell("tc qdisc add dev lo root tbf rate 1gbit burst 64kbit latency 50ms && "
             "tc qdisc del dev lo root")) {
    return "this kernel has no token bucket filter";
  }
  return "";
}

// The first process of a host: it mounts what belongs to it, and takes care of orphans.
[[noreturn]] void RunInit(int ready_fd) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  const bool mounted = mount("proc", "/proc", "proc", 0, nullptr) == 0 &&
                       mount("shm", "/dev/shm", "tmpfs", 0, "size=4g") == 0;
  const char ready = mounted ? 'y' : 'n';
  (void)!write(ready_fd, &ready, 1);
  if (!mounted) _exit(1);
  while (true) {
    if (waitpid(-1, nullptr, 0) < 0) usleep(20'000);
  }
}

// A child that runs no other program keeps no connection of its parent open.
void CloseAllBut(int one, int other) {
  const auto [first, last] = std::minmax(one, other);
  if (first > 3) close_range(3, static_cast<unsigned>(first - 1), 0);
  if (first + 1 < last) {
    close_range(static_cast<unsigned>(first + 1), static_cast<unsigned>(last - 1), 0);
  }
  close_range(static_cast<unsigned>(last + 1), ~0U, 0);
}

int next_net = 0;

}  // namespace

std::string VirtualHosts::WhyNot() {
  static const std::string why = [] {
    const std::string no_network = EnterOwnNetwork();
    if (!no_network.empty()) return no_network;
    VirtualHosts probe(0);
    probe.hosts_.resize(1);
    return probe.TryToBoot(0) ? std::string() : std::string("cannot make namespaces for a host");
  }();
  return why;
}

VirtualHosts::VirtualHosts(int count) : net_(++next_net), hosts_(static_cast<size_t>(count)) {
  MustShell("ip link add " + Bridge() + " type bridge && ip link set " + Bridge() +
            " up && ip addr add " + Address(253) + "/24 dev " + Bridge() + " && ip addr add " +
            Address6(253) + "/64 dev " + Bridge() + " nodad");
  for (int host = 0; host < count; ++host) Boot(host);
}

VirtualHosts::~VirtualHosts() {
  for (size_t host = 0; host < hosts_.size(); ++host) {
    if (hosts_[host].init > 0) Kill(static_cast<int>(host));
  }
  Shell("ip link del " + Bridge());
}

void VirtualHosts::Boot(int host) {
  if (!TryToBoot(host)) std::abort();
}

bool VirtualHosts::TryToBoot(int host) {
  int told[2];
  int ready[2];
  if (pipe2(told, O_CLOEXEC) != 0 || pipe2(ready, O_CLOEXEC) != 0) std::abort();
  const pid_t keeper = fork();
  if (keeper == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    CloseAllBut(told[1], ready[1]);
    // New process ids begin with the next child.
    if (unshare(kNamespaces) != 0) _exit(1);
    const pid_t init = fork();
    if (init == 0) RunInit(ready[1]);
    (void)!write(told[1], &init, sizeof init);
    waitpid(init, nullptr, 0);
    _exit(0);
  }
  close(told[1]);
  close(ready[1]);
  pid_t init = -1;
  char is_ready = 'n';
  const bool said = read(told[0], &init, sizeof init) == sizeof init &&
                    read(ready[0], &is_ready, 1) == 1 && is_ready == 'y';
  close(told[0]);
  close(ready[0]);
  if (!said) {
    waitpid(keeper, nullptr, 0);
    return false;
  }
  hosts_[static_cast<size_t>(host)] = {keeper, init};

  const std::string wire = Wire(host);
  const std::string pid = std::to_string(init);
  return Shell("ip link add " + wire + " type veth peer name eth0 netns " + pid +
               " && ip link set " + wire + " master " + Bridge() + " up") &&
         Shell("nsenter -t " + pid + " -n -u sh -c 'hostname host" + std::to_string(host) +
               "; ip link set lo up; ip link set eth0 address " + HardwareAddress(host) +
               " up; ip addr add " + Address(host) + "/24 dev eth0; ip addr add " + Address6(host) +
               "/64 dev eth0 nodad'");
}

std::string VirtualHosts::HardwareAddress(int host) const {
  char text[sizeof "02:00:00:00:00:00"];
  std::snprintf(text, sizeof text, "02:00:00:%02x:%02x:%02x", (net_ >> 8) & 0xff, net_ & 0xff,
                host & 0xff);
  return text;
}

void VirtualHosts::Kill(int host) {
  Isolate(host);
  Host& killed = hosts_[static_cast<size_t>(host)];
  // With it goes everything that runs there, and its network.
  kill(killed.init, SIGKILL);
  waitpid(killed.keeper, nullptr, 0);
  long_wires_.erase(host);
  Shell("ip link del " + Wire(host) + " 2>/dev/null; ip link del " + Wire(host) + "b 2>/dev/null");
  killed = Host();
}

// With the first process's root and folder, which are those of the test: the namespace's own are
// others where the test runs in a changed root.
std::vector<std::string> VirtualHosts::On(int host, const std::vector<std::string>& argv) const {
  std::vector<std::string> command = {"/usr/bin/nsenter",
                                      "-t",
                                      std::to_string(hosts_[static_cast<size_t>(host)].init),
                                      "-m",
                                      "-r",
                                      "-w",
                                      "-n",
                                      "-p",
                                      "-u",
                                      "-i",
                                      "--"};
  command.insert(command.end(), argv.begin(), argv.end());
  return command;
}

std::vector<pid_t> VirtualHosts::Processes(int host) const {
  namespace fs = std::filesystem;
  const pid_t init = hosts_[static_cast<size_t>(host)].init;
  const auto space_of = [](const std::string& pid) {
    std::error_code gone;
    return fs::read_symlink("/proc/" + pid + "/ns/pid", gone);
  };
  const fs::path space = space_of(std::to_string(init));
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc() || *end != '\0' || pid == init || space_of(name) != space) continue;
    found.push_back(pid);
  }
  return found;
}

std::vector<std::string> VirtualHosts::SharedMemory(int host) const {
  const std::string init = std::to_string(hosts_[static_cast<size_t>(host)].init);
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + init + "/root/dev/shm")) {
    names.push_back(entry.path().filename());
  }
  return names;
}

bool VirtualHosts::Run(int host, const std::string& command) const {
  return Shell("nsenter -t " + std::to_string(hosts_[static_cast<size_t>(host)].init) +
               " -m -r -w -n -- " + command);
}

void VirtualHosts::MustRun(int host, const std::string& command) const {
  if (Run(host, command)) return;
  std::cerr << "failed on host " << host << ": " << command << std::endl;
  std::abort();
}

void VirtualHosts::Drop(int host, const std::string& rule) const {
  MustRun(host, "iptables -w -I " + rule + " -j DROP");
  MustRun(host, "ip6tables -w -I " + rule + " -j DROP");
}

void VirtualHosts::Isolate(int host) const {
  Drop(host, "INPUT -i eth0");
  Drop(host, "OUTPUT -o eth0");
}

void VirtualHosts::Deafen(int host) const { Drop(host, "INPUT -i eth0"); }

void VirtualHosts::Separate(int host, int other) const {
  MustRun(host, "iptables -w -I INPUT -s " + Address(other) + " -j DROP");
  MustRun(host, "iptables -w -I OUTPUT -d " + Address(other) + " -j DROP");
  MustRun(host, "ip6tables -w -I INPUT -s " + Address6(other) + " -j DROP");
  MustRun(host, "ip6tables -w -I OUTPUT -d " + Address6(other) + " -j DROP");
}

void VirtualHosts::LosePackets(int host, int one_in) const {
  Drop(host,
       "INPUT -i eth0 -m statistic --mode random --probability " + std::to_string(1.0 / one_in));
}

void VirtualHosts::Narrow(int host, const std::string& rate) const {
  MustRun(host, "tc qdisc add dev eth0 root tbf rate " + rate + " burst 64kbit latency 50ms");
}

// In place of `host - bridge`: `host - delaying wire - another pair - bridge`.
void VirtualHosts::Lengthen(int host, std::chrono::milliseconds each_way) {
  const std::string wire = Wire(host);
  const std::string near = wire + "a";
  const std::string far = wire + "b";
  // Nothing but the wire listens at its ends.
  const std::string silent = " arp off addrgenmode none up";
  MustShell("ip link add " + near + " type veth peer name " + far + " && ip link set " + far +
            " master " + Bridge() + " up && ip link set " + near + silent + " && ip link set " +
            wire + " nomaster" + silent);
  long_wires_.try_emplace(host, wire, near, each_way);
}

void VirtualHosts::Shorten(int host) {
  if (long_wires_.erase(host) == 0) return;
  MustShell("ip link del " + Wire(host) + "b && ip link set " + Wire(host) + " arp on master " +
            Bridge());
}

void VirtualHosts::Mend(int host) {
  MustRun(host, "iptables -w -F");
  MustRun(host, "ip6tables -w -F");
  Run(host, "tc qdisc del dev eth0 root 2>/dev/null");  // which there may not be
  Shorten(host);
}

}  // namespace lockstep::support
