#include "tools/cli/top/screen.h"

#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace lockstep::cli {
namespace {

// The other screen, no cursor, and lines that end where the terminal does.
constexpr char kEnter[] = "\033[?1049h\033[?25l\033[?7l";
constexpr char kLeave[] = "\033[?7h\033[?25h\033[?1049l";

sigset_t ScreenSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGWINCH);
  sigaddset(&set, SIGTSTP);
  return set;
}

// A terminal that does not read what is drawn gets no more of it.
void WriteAll(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

winsize SizeOfTerminal() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
    size.ws_col = 80;
    size.ws_row = 24;
  }
  return size;
}

}  // namespace

StatusOr<std::unique_ptr<Screen>> Screen::Open() {
  const char* const terminal = std::getenv("TERM");
  if (isatty(STDOUT_FILENO) != 1) return FailedPrecondition("standard output is no terminal");
  if (terminal == nullptr || *terminal == '\0' || std::string_view(terminal) == "dumb") {
    return FailedPrecondition("the terminal cannot be drawn on (TERM is \"",
                              terminal == nullptr ? "" : terminal, "\")");
  }
  const sigset_t set = ScreenSignals();
  const int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd < 0) return ResourceExhausted("cannot watch for signals: ", std::strerror(errno));
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  return std::unique_ptr<Screen>(new Screen(fd));
}

Screen::Screen(int signal_fd) : signal_fd_(signal_fd) {
  has_keys_ = tcgetattr(STDIN_FILENO, &before_) == 0;
  Enter();
}

Screen::~Screen() {
  Leave();
  close(signal_fd_);
  const sigset_t set = ScreenSignals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void Screen::Enter() {
  if (has_keys_) {
    termios raw = before_;
    // Key by key, and unseen; ^C and ^Z stay signals.
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  }
  WriteAll(kEnter);
}

void Screen::Leave() {
  WriteAll(kLeave);
  // What was typed ahead for the screen is for no other program.
  if (has_keys_) tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
}

void Screen::Suspend() {
  Leave();
  kill(getpid(), SIGSTOP);
  Enter();
}

int Screen::width() const { return SizeOfTerminal().ws_col; }
int Screen::height() const { return SizeOfTerminal().ws_row; }

void Screen::Draw(const std::vector<std::string>& lines) {
  // One write, each line over the old one: nothing flickers.
  std::string text = "\033[H";
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) text += "\r\n";
    text += lines[i] + "\033[K";
  }
  WriteAll(text + "\033[J");
}

Screen::Event Screen::ReadKey() {
  char bytes[16];
  const ssize_t count = read(STDIN_FILENO, bytes, sizeof bytes);
  // The terminal is gone.
  if (count == 0) return Event::kQuit;
  if (count < 0) return errno == EAGAIN || errno == EINTR ? Event::kTime : Event::kQuit;
  const std::string_view keys(bytes, static_cast<size_t>(count));
  if (keys == "\033[A" || keys == "\033OA" || keys == "k") return Event::kUp;
  if (keys == "\033[B" || keys == "\033OB" || keys == "j") return Event::kDown;
  if (keys == "\033[5~") return Event::kPageUp;
  if (keys == "\033[6~" || keys == " ") return Event::kPageDown;
  if (keys == "a") return Event::kAll;
  if (keys == "g") return Event::kGroups;
  if (keys.find_first_of("qQ\004") != std::string_view::npos) return Event::kQuit;
  return Event::kTime;
}

Screen::Event Screen::Wait(int interrupt_fd, Deadline deadline) {
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline.when() - Deadline::Clock::now());
    pollfd descriptors[] = {{interrupt_fd, POLLIN, 0},
                            {signal_fd_, POLLIN, 0},
                            {has_keys_ ? STDIN_FILENO : -1, POLLIN, 0}};
    const int ready = poll(descriptors, 3, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (ready == 0) return Event::kTime;
    if (ready < 0) continue;  // interrupted
    if (descriptors[0].revents != 0) return Event::kInterrupt;
    if (descriptors[1].revents != 0) {
      signalfd_siginfo signal;
      bool is_stop = false;
      while (read(signal_fd_, &signal, sizeof signal) == sizeof signal) {
        is_stop = is_stop || signal.ssi_signo == SIGTSTP;
      }
      if (is_stop) Suspend();
      return Event::kResize;
    }
    const Event key = ReadKey();
    if (key != Event::kTime) return key;
  }
}

}  // namespace lockstep::cli
