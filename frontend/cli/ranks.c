/* The processes that a launcher begins for one command. */
#include "frontend/cli/ranks.h"
#include "runtime/base/launched.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct {
  int spoken;  /* a copy of stderr, to which this rank does not speak; -1: it does */
  int listens; /* what it would have said */
} silence = {-1, -1};

/* ---- silence --------------------------------------------------------------------------------- */

static int launched_rank(int *n) {
  vtb_launch l;
  bool off = cli_how()->ranks == VTB_NO || !vtb_launched(&l) || l.size == 1;
  *n = off ? 1 : l.size ? l.size : 2; /* more than that is known when they have met */
  return off ? 0 : l.rank;
}

int cli_ranks_launched(void) {
  int n;
  (void)launched_rank(&n);
  return n;
}

void cli_ranks_enter(void) {
  int n, null;
  if (!launched_rank(&n) || silence.spoken >= 0) return;
  fflush(stdout);
  null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (null >= 0) dup2(null, 1);
  if (null >= 0) close(null);
  if (cli_how()->verbose == VTB_YES) return; /* who asks for it hears all ranks */
  silence.listens = memfd_create("messages", MFD_CLOEXEC);
  silence.spoken = fcntl(2, F_DUPFD_CLOEXEC, 3);
  if (silence.listens >= 0) dup2(silence.listens, 2);
}

/* The end of what this rank would have said, in one line. */
static void recall(char *text, size_t size) {
  static const char own[] = "vertebra: ";
  off_t end = silence.listens < 0 ? 0 : lseek(silence.listens, 0, SEEK_END);
  off_t from = end > (off_t)size - 1 ? end - (off_t)size + 1 : 0;
  ssize_t n = end > 0 ? pread(silence.listens, text, (size_t)(end - from), from) : 0;
  while (n > 0 && text[n - 1] == '\n') n--;
  text[n > 0 ? n : 0] = 0;
  for (char *c = text; *c; c++)
    if (*c == '\n') *c = ' ';
  if (vtb_starts_with(text, own)) memmove(text, text + strlen(own), strlen(text + strlen(own)) + 1);
}

/* ---- the others ------------------------------------------------------------------------------ */

static void warn(void *user, const char *text) {
  (void)user;
  cli_say("vertebra: %s", text);
}

vtb_status cli_ranks_open(const volatile int *stop, vtb_ranks **out) {
  vtb_error err = {0};
  const vtb_ranks_options o = {.warn = warn, .stop = stop};
  *out = NULL;
  if (cli_ranks_launched() < 2) return VTB_OK;
  return vtb_ranks_open(&o, out, &err) == VTB_OK ? VTB_OK : cli_error(&err);
}

vtb_status cli_ranks_leave(vtb_ranks *r, vtb_status status, const vtb_error *err) {
  char text[400] = "";
  if (status != VTB_OK && (int)status < 128 && r) {
    if (err && err->text[0])
      snprintf(text, sizeof text, "%.*s", (int)sizeof text - 1, err->text);
    else
      recall(text, sizeof text);
    vtb_ranks_fail(r, status, *text ? text : "it failed");
    /* rank 0 tells what the others did; what became of rank 0 is told by the next */
    if (vtb_ranks_rank(r) == 1 && silence.spoken >= 0 && vtb_starts_with(text, "rank 0"))
      dprintf(silence.spoken, "vertebra: %s\n", text);
  }
  vtb_ranks_close(r);
  return status;
}

void cli_ranks_warn(const char *command) {
  int n, rank = launched_rank(&n);
  if (n < 2 || rank) return;
  cli_say("vertebra %s is for one process: each of the %d that were begun does all of it (train, "
          "eval and ablate share the work; VTB_RANKS=off says that this is meant)\n",
          command, n);
}

/* ---- what is shared -------------------------------------------------------------------------- */

typedef struct place {
  char host[64];
  cpu_set_t cores;
} place;

vtb_status cli_ranks_threads(vtb_ranks *r, int64_t *threads, vtb_error *err) {
  int n = vtb_ranks_count(r), me = vtb_ranks_rank(r);
  double share = 0;
  if (n == 1 || *threads || cli_how()->threads) return VTB_OK;
  place mine, *all = vtb_xcalloc((size_t)n, sizeof *all);
  memset(&mine, 0, sizeof mine);
  gethostname(mine.host, sizeof mine.host - 1);
  if (sched_getaffinity(0, sizeof mine.cores, &mine.cores) != 0) CPU_ZERO(&mine.cores);
  vtb_status status = vtb_ranks_gather(r, 0, &mine, (int64_t)sizeof mine, me ? NULL : all, err);
  if (status == VTB_OK) status = vtb_ranks_broadcast(r, 0, all, (int64_t)sizeof *all * n, err);
  for (int core = 0; core < CPU_SETSIZE && status == VTB_OK; core++) {
    int users = 0;
    for (int k = 0; k < n; k++)
      users += CPU_ISSET(core, &all[k].cores) && strcmp(all[k].host, mine.host) == 0;
    if (CPU_ISSET(core, &all[me].cores)) share += 1.0 / users;
  }
  *threads = share + 1e-6 > 1 ? (int64_t)(share + 1e-6) : 1;
  vtb_free(all);
  return status;
}

vtb_status cli_ranks_text(vtb_ranks *r, const char *text, char **out, vtb_error *err) {
  int64_t n = text ? (int64_t)strlen(text) + 1 : 0;
  *out = NULL;
  vtb_status status = vtb_ranks_broadcast(r, 0, &n, sizeof n, err);
  if (status != VTB_OK || !n) return status;
  *out = vtb_xcalloc((size_t)n, 1);
  if (!vtb_ranks_rank(r)) memcpy(*out, text, (size_t)n);
  return vtb_ranks_broadcast(r, 0, *out, n, err);
}
