/* Who is there: ranks say hello, answer when they are asked, say when they fail or leave. A rank of
 * this machine that ends without a word is seen to by the system (a handle of its process), one of
 * another machine by its silence, which the launcher's own watch usually comes before. */
#include "runtime/ranks/internal.h"

#include <poll.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
  NOTE_TAG = 1,
  ASK_ALL_UP_TO = 32, /* ranks: of more, each asks the first two, and those ask all */
  ASKED_BY_ALL = 2,
  BEHIND_TIMES = 3 /* name_seconds, until one that answers but does not come is named */
};
static const double tick_seconds = 0.1, most_gap = 1, stop_seconds = 5;

/* ---- names ----------------------------------------------------------------------------------- */

void vtb__watch_name(const vtb__watch *w, int rank, char *out, size_t size) {
  const vtb__peer *p = &w->peers[rank];
  if (p->process)
    snprintf(out, size, "rank %d (%s, process %lld)", rank, p->host, (long long)p->process);
  else
    snprintf(out, size, "rank %d", rank);
}

/* When a process began, in the system's ticks: with its number it is that process and no other. */
static int64_t begin_of(int64_t process) {
  char path[64], text[1024];
  snprintf(path, sizeof path, "/proc/%lld/stat", (long long)process);
  FILE *f = fopen(path, "re");
  size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
  if (f) fclose(f);
  text[n] = '\0';
  char *at = strrchr(text, ')'); /* the name may hold anything */
  for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
  return at ? strtoll(at, NULL, 10) : 0;
}

static int handle_of(int64_t process) {
#ifdef SYS_pidfd_open
  return (int)syscall(SYS_pidfd_open, (pid_t)process, 0);
#else
  (void)process;
  return -1;
#endif
}

static void meet(vtb__watch *w, vtb__peer *p, const vtb__peer *self, const vtb__note *note) {
  pthread_mutex_lock(w->lock);
  memcpy(p->host, note->text, sizeof p->host);
  p->host[sizeof p->host - 1] = '\0';
  p->process = note->count;
  pthread_mutex_unlock(w->lock);
  if (p->process != self->process && strcmp(p->host, self->host) == 0 && note->since &&
      begin_of(p->process) == note->since)
    p->handle = handle_of(p->process);
}

static bool has_ended(const vtb__peer *p) {
  struct pollfd f = {.fd = p->handle, .events = POLLIN};
  return p->handle >= 0 && poll(&f, 1, 0) == 1;
}

/* ---- notes ----------------------------------------------------------------------------------- */

/* Nothing, if the last one of this kind is still on its way. */
static bool post(vtb__watch *w, vtb__link *l, int to, const vtb__note *note) {
  vtb__peer *p = &w->peers[to];
  int came = l->test(l, 1, &p->sending[note->kind]);
  if (came <= 0) return came == 0;
  p->notes[note->kind] = *note;
  return l->send(l, to, NOTE_TAG, &p->notes[note->kind], sizeof *note, &p->sending[note->kind]);
}

static bool post_all(vtb__watch *w, vtb__link *l, const vtb__note *note) {
  bool good = true;
  for (int q = 0; q < l->n && good; q++)
    if (q != l->rank) good = post(w, l, q, note);
  return good;
}

bool vtb__watch_tell(vtb__watch *w, vtb__link *l, vtb__note_kind kind, vtb_status status,
                     const char *text) {
  vtb__note note = {.kind = kind, .status = status};
  snprintf(note.text, sizeof note.text, "%s", text);
  return post_all(w, l, &note);
}

static bool hear(vtb__watch *w, vtb__link *l, int from, const vtb__rank_state *state,
                 vtb__finding *f) {
  vtb__peer *p = &w->peers[from];
  const vtb__note *note = &w->note;
  p->asked = 0;
  switch ((vtb__note_kind)note->kind) {
  case VTB__HELLO:
    meet(w, p, &w->peers[l->rank], note);
    break;
  case VTB__PING:
    return post(w, l, from, &(vtb__note){.kind = VTB__PONG, .count = state->begun});
  case VTB__PONG:
    p->begun = note->count;
    break;
  case VTB__FAILED:
    if (f->failed || state->failed) break;
    f->failed = f->by_other = true;
    f->status = note->status ? (vtb_status)note->status : VTB_E_DEVICE;
    memcpy(f->why, note->text, sizeof f->why);
    f->why[sizeof f->why - 1] = '\0';
    break;
  case VTB__BYE:
    p->bye = true;
    break;
  case VTB__NOTE_KINDS:
    break;
  }
  return true;
}

static bool hear_all(vtb__watch *w, vtb__link *l, const vtb__rank_state *state, vtb__finding *f) {
  for (int from; (from = l->take(l, NOTE_TAG, &w->note, sizeof w->note)) != -1;)
    if (from < 0 || !hear(w, l, from, state, f)) return false;
  return true;
}

bool vtb__watch_all_left(vtb__watch *w, vtb__link *l, bool with_gone) {
  for (int q = 0; q < l->n; q++) {
    vtb__peer *p = &w->peers[q];
    if (q == l->rank || (with_gone && has_ended(p))) continue;
    if (!p->bye || l->test(l, 1, &p->sending[VTB__BYE]) == 0) return false;
  }
  return true;
}

/* ---- what a look finds ----------------------------------------------------------------------- */

static bool asks(const vtb__link *l, int q) {
  return l->n <= ASK_ALL_UP_TO || l->rank < ASKED_BY_ALL || q < ASKED_BY_ALL;
}

/* One rank speaks for all: the first that answers. */
static bool speaks(const vtb__watch *w, const vtb__link *l) {
  for (int q = 0; q < l->rank; q++)
    if (!w->peers[q].silent) return false;
  return true;
}

static void say(const vtb__watch *w, const vtb__link *l, vtb__finding *f, int about,
                const char *what, double seconds) {
  char name[128];
  if (!speaks(w, l) || *f->warn) return;
  vtb__watch_name(w, about, name, sizeof name);
  snprintf(f->warn, sizeof f->warn, what, name, seconds);
}

static void fail_watch(const vtb__watch *w, vtb__finding *f, int about, const char *what,
                       double seconds) {
  char name[128];
  if (f->failed) return;
  f->failed = true;
  f->status = VTB_E_DEVICE;
  vtb__watch_name(w, about, name, sizeof name);
  snprintf(f->why, sizeof f->why, what, name, seconds);
}

static void judge_silence(vtb__watch *w, const vtb__link *l, int q, const vtb__rank_state *state,
                          vtb__finding *f) {
  vtb__peer *p = &w->peers[q];
  double silent = p->asked > 0 ? state->now - p->asked : 0, patience = w->patience_seconds;
  if (state->stop && patience > stop_seconds) patience = stop_seconds;
  if (silent >= patience) {
    fail_watch(w, f, q, "%s has not answered for %.3g seconds", silent);
  } else if (silent >= w->name_seconds && !p->silent) {
    p->silent = true;
    say(w, l, f, q, "%s has not answered for %.3g seconds; the others wait for it", silent);
  } else if (!silent && p->silent) {
    say(w, l, f, q, "%s answers again", 0);
    p->silent = false;
  }
}

static void judge_place(vtb__watch *w, const vtb__link *l, int q, const vtb__rank_state *state,
                        double standing, vtb__finding *f) {
  vtb__peer *p = &w->peers[q];
  bool late = standing > BEHIND_TIMES * w->name_seconds && !p->asked && p->begun < state->begun &&
              !p->silent;
  if (late && !p->behind)
    say(w, l, f, q, "%s answers, but the others have waited for it for %.3g seconds", standing);
  p->behind = late;
}

/* A rank that closes has what it needs, and sends until the others close, too. */
static void judge_leaving(vtb__watch *w, const vtb__rank_state *state, double standing,
                          vtb__finding *f, int q) {
  if (w->peers[q].bye && !state->closing && standing > w->name_seconds)
    fail_watch(w, f, q, "%s has left, and others have waited for it for %.3g seconds", standing);
}

static bool ask(vtb__watch *w, vtb__link *l, int q, const vtb__rank_state *state) {
  vtb__peer *p = &w->peers[q];
  double every = w->name_seconds / 4 < 1 ? w->name_seconds / 4 : 1;
  if (!asks(l, q) || state->now - state->waiting < every || state->now - p->last_asked < every)
    return true;
  p->last_asked = state->now;
  if (!p->asked) p->asked = state->now;
  return post(w, l, q, &(vtb__note){.kind = VTB__PING});
}

static bool tick(vtb__watch *w, vtb__link *l, const vtb__rank_state *state, double standing,
                 vtb__finding *f) {
  bool good = true;
  for (int q = 0; q < l->n && good && !f->failed; q++) {
    vtb__peer *p = &w->peers[q];
    if (q == l->rank) continue;
    if (!p->bye && p->ended)
      fail_watch(w, f, q, "%s is gone: it was killed, or ended without a word", 0);
    p->ended = has_ended(p); /* what it sent before is heard first */
    if (!state->waiting) p->asked = 0, p->behind = false;
    if (!state->waiting || f->failed) continue;
    judge_leaving(w, state, standing, f, q);
    if (p->bye) continue;
    judge_silence(w, l, q, state, f);
    judge_place(w, l, q, state, standing, f);
    good = ask(w, l, q, state);
  }
  if (state->stop > 1 && state->waiting && !f->failed)
    fail_watch(w, f, l->rank, "%s was asked to end while it waited for the others", 0);
  return good;
}

/* Where this process itself was stopped for a while, the others have not been silent meanwhile. */
static void forgive(vtb__watch *w, const vtb__link *l, double gap) {
  for (int q = 0; q < l->n; q++)
    if (w->peers[q].asked > 0) w->peers[q].asked += gap, w->peers[q].last_asked += gap;
}

bool vtb__watch_look(vtb__watch *w, vtb__link *l, const vtb__rank_state *state, vtb__finding *f) {
  double gap = state->now - w->last_pass;
  w->last_pass = state->now;
  if (gap > most_gap) {
    forgive(w, l, gap);
    w->gap_until = state->now;
  }
  if (!hear_all(w, l, state, f)) return false;
  if (state->now - w->last_tick < tick_seconds || state->failed || f->failed) return true;
  w->last_tick = state->now;
  double since = state->progress > state->waiting ? state->progress : state->waiting;
  if (w->gap_until > since) since = w->gap_until;
  return tick(w, l, state, state->waiting > 0 ? state->now - since : 0, f);
}

/* ---- making ---------------------------------------------------------------------------------- */

static double or_else(double x, double otherwise) { return x > 0 ? x : otherwise; }

vtb_status vtb__watch_open(vtb__watch *w, vtb__link *l, const vtb_ranks_options *o,
                           pthread_mutex_t *lock) {
  w->lock = lock;
  w->peers = calloc((size_t)l->n, sizeof *w->peers);
  if (!w->peers) return VTB_E_MEMORY;
  w->name_seconds = or_else(o->name_seconds, 20);
  w->patience_seconds = or_else(o->patience_seconds, 300);
  w->last_pass = w->last_tick = vtb_now();
  for (int q = 0; q < l->n; q++) {
    w->peers[q].handle = -1;
    for (int k = 0; k < VTB__NOTE_KINDS; k++) w->peers[q].sending[k] = l->none;
  }
  vtb__note hello = {.kind = VTB__HELLO, .count = getpid(), .since = begin_of(getpid())};
  vtb__peer *self = &w->peers[l->rank];
  if (gethostname(hello.text, sizeof self->host) != 0) snprintf(hello.text, 2, "?");
  hello.text[sizeof self->host - 1] = '\0';
  memcpy(self->host, hello.text, sizeof self->host);
  self->process = hello.count;
  return post_all(w, l, &hello) ? VTB_OK : VTB_E_DEVICE;
}

bool vtb__watch_knows_all(const vtb__watch *w, const vtb__link *l) {
  for (int q = 0; q < l->n; q++)
    if (!w->peers[q].process) return false;
  return true;
}

void vtb__watch_close(vtb__watch *w, vtb__link *l) {
  for (int q = 0; w->peers && q < l->n; q++)
    if (w->peers[q].handle >= 0) close(w->peers[q].handle);
}
