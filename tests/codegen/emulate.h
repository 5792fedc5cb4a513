/* For tests of the emulator: one kernel `k` from a text, run once. */
#ifndef VTB_TEST_EMULATE_H
#define VTB_TEST_EMULATE_H

#include "codegen/emulator/emulator.h"
#include "tests/test.h"

#define EMU_ARG(array) ((vtb_emu_arg){(char *)(array), (char *)(array) + sizeof(array), NULL})

/* Compiled kernels stay in the build folder. */
static inline void emulate_or_skip(void) {
  vtb_error err = {0};
  setenv("XDG_CACHE_HOME", VTB_BINARY_DIR "/test-cache", 1);
  if (vtb_emulator_available(NULL, &err)) return;
  printf("skipped: %s\n", err.text);
  exit(77);
}

/* Runs kernel `k`; the error's text goes to `message` (1024 bytes), "" if there is none. */
static inline void emulate(const char *text, vtb_emulator_launch *l, bool checked, uint64_t seed,
                           char *message) {
  vtb_error err = {0};
  vtb_emulator *e = NULL;
  vtb_emulator_options o = {.unchecked = !checked, .seed = seed};
  static const char *const name[] = {"k"};
  l->kernel = name[0];
  vtb_status status = vtb_emulator_new(text, name, 1, &o, &e, &err);
  if (status == VTB_OK) status = vtb_emulator_run(e, l, NULL, &err);
  CHECK((status == VTB_OK) == (err.text[0] == 0));
  snprintf(message, 1024, "%s", err.text);
  vtb_emulator_free(e);
}

static inline void emulate_ok(const char *text, vtb_emulator_launch *l, bool checked,
                              uint64_t seed) {
  char message[1024];
  emulate(text, l, checked, seed, message);
  CHECK_MSG(!message[0], "%s", message);
}

#endif
