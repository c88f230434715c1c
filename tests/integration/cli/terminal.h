// A program in a terminal of its own, as a person would have it.
#pragma once

#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/base/deadline.h"

namespace lockstep::cli {

class Terminal {
 public:
  // `environment` as "NAME=VALUE", beside what this process has.
  Terminal(const std::vector<std::string>& argv, const std::vector<std::string>& environment,
           int width, int height)
      : size_{static_cast<unsigned short>(height), static_cast<unsigned short>(width), 0, 0} {
    pid_ = forkpty(&fd_, nullptr, nullptr, &size_);
    if (pid_ != 0) return;
    for (const std::string& variable : environment) putenv(strdup(variable.c_str()));
    std::vector<char*> arguments;
    for (const std::string& argument : argv) arguments.push_back(strdup(argument.c_str()));
    arguments.push_back(nullptr);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  ~Terminal() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    if (fd_ >= 0) close(fd_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void Type(const std::string& keys) {
    EXPECT_EQ(write(fd_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  void Signal(int signal) { kill(pid_, signal); }
  // Waits until it has stopped, as at ^Z; false if it has ended instead.
  bool AwaitStop() {
    int status = 0;
    return waitpid(pid_, &status, WUNTRACED) == pid_ && WIFSTOPPED(status);
  }
  void Resize(int width, int height) {
    size_.ws_col = static_cast<unsigned short>(width);
    size_.ws_row = static_cast<unsigned short>(height);
    EXPECT_EQ(ioctl(fd_, TIOCSWINSZ, &size_), 0);
  }

  pid_t pid() const { return pid_; }
  // Closes the terminal, as when its window is closed, which ends the program.
  void HangUp() { close(std::exchange(fd_, -1)); }

  // All that the program has written so far.
  const std::string& output() const { return output_; }
  // What stands on the screen: the last whole picture, its lines.
  std::vector<std::string> Picture() const {
    const size_t end = output_.rfind("\033[J");
    if (end == std::string::npos) return {};
    const size_t begin = output_.rfind("\033[H", end) + 3;
    std::vector<std::string> lines(1);
    bool in_sequence = false;
    for (size_t i = begin; i < end; ++i) {
      const char c = output_[i];
      if (c == '\033') in_sequence = true;
      if (c == '\n') lines.emplace_back();
      if (!in_sequence && c != '\r' && c != '\n') lines.back() += c;
      if (in_sequence && std::isalpha(static_cast<unsigned char>(c)) != 0) in_sequence = false;
    }
    return lines;
  }
  // Reads until `done`; false if that is not so by the deadline, or the program has ended.
  bool ReadUntil(const std::function<bool()>& done, Deadline deadline) {
    while (!done()) {
      if (deadline.Expired() || !ReadSome(deadline)) return done();
    }
    return true;
  }
  // Its exit code, when it has ended; -1: it was killed, or has not ended in time.
  int Wait(Deadline deadline) {
    while (ReadSome(deadline)) {
      if (deadline.Expired()) return -1;
    }
    int status = 0;
    if (waitpid(pid_, &status, 0) != pid_) return -1;
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  // False at the end of the program.
  bool ReadSome(Deadline deadline) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd_, &set);
    timeval second{1, 0};
    if (select(fd_ + 1, &set, nullptr, nullptr, &second) <= 0) return !deadline.Expired();
    char bytes[4096];
    const ssize_t count = read(fd_, bytes, sizeof bytes);
    if (count <= 0) return false;
    output_.append(bytes, static_cast<size_t>(count));
    return true;
  }

  winsize size_;
  int fd_ = -1;
  pid_t pid_ = -1;
  std::string output_;
};

}  // namespace lockstep::cli
