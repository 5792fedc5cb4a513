/* Sentences of a command line that is verbose, and warnings. Not in the runtime's library: it never
 * prints. */
#include "runtime/base/base.h"

static bool verbose;

void vtb_log_verbose(bool on) { verbose = on; }

void vtb_log(const char *fmt, ...) {
  if (!verbose) return;
  va_list ap;
  va_start(ap, fmt);
  vfprintf(stderr, fmt, ap);
  fputc('\n', stderr);
  va_end(ap);
}

void vtb_warn(const char *text) { fprintf(stderr, "warning: %s\n", text); }
