/* Sentences of a command line that is verbose, and warnings. Not in the runtime's library: it never
 * prints. */
#include "runtime/base/base.h"

#include <string.h>

static int verbose = -1;

void vtb_log_verbose(bool on) { verbose = on; }

void vtb_log(const char *fmt, ...) {
  if (verbose < 0) {
    const char *v = getenv("VTB_VERBOSE");
    verbose = v && v[0] && strcmp(v, "0") != 0;
  }
  if (!verbose) return;
  va_list ap;
  va_start(ap, fmt);
  vfprintf(stderr, fmt, ap);
  fputc('\n', stderr);
  va_end(ap);
}

void vtb_warn(const char *text) { fprintf(stderr, "warning: %s\n", text); }
