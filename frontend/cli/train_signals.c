#include "frontend/cli/train_signals.h"

#include <signal.h>
#include <stddef.h>

volatile int train_signal;
static volatile sig_atomic_t begun;

static void on_signal(int number) {
  if (train_signal || !begun) {
    signal(number, SIG_DFL);
    raise(number);
  }
  train_signal = number;
}

void train_signals_take(void) {
  static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    struct sigaction before, now = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&now.sa_mask);
    if (sigaction(numbers[i], NULL, &before) != 0) continue;
    if (numbers[i] != SIGHUP || before.sa_handler != SIG_IGN) sigaction(numbers[i], &now, NULL);
  }
}

void train_signals_begin(void) { begun = 1; }
