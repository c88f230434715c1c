/* Waits until it is told to end, and buries the dead: the first process of every pod, and of every
   machine. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void End(int signal) {
  (void)signal;
  _exit(0);
}

static void Bury(int signal) {
  (void)signal;
  while (waitpid(-1, 0, WNOHANG) > 0) {
  }
}

int main(void) {
  signal(SIGINT, End);
  signal(SIGTERM, End);
  signal(SIGCHLD, Bury);
  for (;;) pause();
}
