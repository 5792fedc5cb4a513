/* Files of kernels with a planted bug each: what must be caught, and where. A line that the message
 * may name ends with "// BUG kernel"; a kernel with "// BUG_AT_THE_END kernel" may be caught at the
 * end of a block. */
#ifndef VTB_TEST_PLANTED_H
#define VTB_TEST_PLANTED_H

#include "tests/codegen/emulate.h"

#include <ctype.h>

enum { PLANTED_KERNELS = 64 };
typedef struct planted {
  char *source;
  char names[PLANTED_KERNELS][64];
  const char *name_list[PLANTED_KERNELS];
  int n_kernels;
} planted;

/* `begins` is what is before each kernel's name. */
static inline void planted_read(planted *p, const char *file, const char *begins) {
  char path[1024];
  vtb_error err = {0};
  size_t n;
  snprintf(path, sizeof path, "%s/tests/codegen/%s", VTB_SOURCE_DIR, file);
  vtb_status status = vtb_file_read(path, 1 << 20, &p->source, &n, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  for (const char *at = p->source;
       status == VTB_OK && (at = strstr(at, begins)) && p->n_kernels < PLANTED_KERNELS;) {
    at += strlen(begins);
    snprintf(p->names[p->n_kernels], sizeof p->names[0], "%.*s", (int)strcspn(at, ")"), at);
    p->name_list[p->n_kernels] = p->names[p->n_kernels];
    p->n_kernels++;
  }
}

static inline void planted_free(planted *p) { free(p->source); }

/* Odd seeds: in the opposite order. */
static inline vtb_emulator *planted_emulator(const planted *p, bool checked, uint64_t seed) {
  vtb_emulator *e = NULL;
  vtb_error err = {0};
  vtb_emulator_options o = {.seed = seed / 2, .reversed = seed % 2, .unchecked = !checked};
  vtb_status status = vtb_emulator_new(p->source, p->name_list, p->n_kernels, &o, &e, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  return e;
}

static inline bool planted_names(const char *message, const char *words, int line) {
  char place[64];
  snprintf(place, sizeof place, "%s%d", words, line);
  const char *at = strstr(message, place);
  return at && !isdigit((unsigned char)at[strlen(place)]);
}

/* Whether the message names the line of one of the kernel's comments. */
static inline bool planted_is_marked(const planted *p, const char *message, const char *kernel) {
  char marker[100];
  int line = 1;
  snprintf(marker, sizeof marker, "// BUG_AT_THE_END %.60s\n", kernel);
  if (strstr(p->source, marker) && strstr(message, "at the block's end")) return true;
  snprintf(marker, sizeof marker, "// BUG %.60s\n", kernel);
  for (const char *at = p->source; *at; at++) {
    if (*at == '\n') line++;
    if (!vtb_starts_with(at, marker)) continue;
    if (planted_names(message, "kernels.cu:", line)) return true;
    if (planted_names(message, "called in line ", line)) return true;
  }
  return false;
}

static inline void planted_check(const planted *p, const char *kernel, vtb_status status,
                                 const char *message, uint64_t seed) {
  if (getenv("VTB_VERBOSE")) puts(message);
  CHECK_MSG(status == VTB_E_INTERNAL, "%s is not caught (seed %d)", kernel, (int)seed);
  CHECK_MSG(planted_is_marked(p, message, kernel), "%s: wrong line: %s", kernel, message);
}

#endif
