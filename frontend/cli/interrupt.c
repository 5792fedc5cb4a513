/* Signals as requests to stop. */
#include "frontend/cli/interrupt.h"

#include <signal.h>

static volatile int received; /* the signal */

static void on_signal(int number) { received = number; }

const volatile int *cli_interrupt_wait(void) {
  struct sigaction once = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND}, now;
  sigaction(SIGINT, &once, NULL);
  sigaction(SIGTERM, &once, NULL);
  if (sigaction(SIGHUP, NULL, &now) == 0 && now.sa_handler != SIG_IGN)
    sigaction(SIGHUP, &once, NULL);
  return &received;
}

vtb_status cli_interrupt_say(int64_t done, int64_t total, const char *what) {
  cli_say("vertebra: interrupted after %lld of %lld %s\n", (long long)done, (long long)total, what);
  return (vtb_status)(128 + received);
}
