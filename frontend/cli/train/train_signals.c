/* Requests to end a training. */
#include "frontend/cli/train/train_signals.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

volatile int train_signal, train_asked;
static volatile sig_atomic_t begun, leaves; /* leaves: `file` and `folder` are to go */
static volatile sig_atomic_t held, waiting; /* waiting: the signal that came while they are held */
static char file[4096], folder[4096];

static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
enum { N_NUMBERS = sizeof numbers / sizeof *numbers };

static void on_signal(int number) {
  if (held) {
    waiting = number;
    return;
  }
  if (train_signal || !begun) {
    if (leaves && unlink(file) == 0) rmdir(folder); /* only if nothing else is in it */
    signal(number, SIG_DFL);
    raise(number);
  }
  train_signal = number;
  train_asked = 1;
}

void train_signals_take(void) {
  for (int i = 0; i < N_NUMBERS; i++) {
    struct sigaction before, now = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&now.sa_mask);
    if (sigaction(numbers[i], NULL, &before) != 0) continue;
    if (numbers[i] != SIGHUP || before.sa_handler != SIG_IGN) sigaction(numbers[i], &now, NULL);
  }
}

void train_signals_begin(void) { begun = 1; }

/* Not by a mask, which is a thread's: libraries have threads that take signals too. */
void train_signals_hold(bool hold) {
  held = hold;
  int number = waiting;
  if (hold || !number) return;
  waiting = 0;
  raise(number);
}

void train_signals_leave_nothing(const char *new_folder, const char *only_file) {
  leaves = 0;
  if (!new_folder) return;
  int a = snprintf(folder, sizeof folder, "%s", new_folder),
      b = snprintf(file, sizeof file, "%s", only_file);
  leaves = a >= 0 && a < (int)sizeof folder && b >= 0 && b < (int)sizeof file;
}
