/* The communicator: a thread that takes jobs in their order, has a few of them in flight, and looks
 * after the other ranks. Between looks it sleeps, longer while nothing moves. */
#include "runtime/ranks/internal.h"
#include "runtime/launch/threads.h"

#include <sched.h>
#include <signal.h>
#include <string.h>
#include <time.h>

/* Nanoseconds of sleep: a look costs some microseconds of a core that others want. */
enum { REST_FIRST = 5000, REST_WAITING = 50000, REST_BUSY = 250000, REST_IDLE = 5000000 };
/* While the caller waits its core is free: so long from the last message on there is no sleep. */
static const double eager_seconds = 300e-6;
static const double guard_seconds = 0.1;
static const double last_words_seconds = 5; /* behind an error, for the others to hear of it */

typedef struct communicator {
  vtb_ranks *r;
  vtb__link *link;
  vtb__slot slots[VTB__IN_FLIGHT];
  int next, in_flight; /* the slot that was filled longest ago */
  int64_t sent, buckets, ended, begun;
  double busy, busy_since, progress;
  long rest;
  bool told_bye, told_failure;
  double closing_since, guarded;
  bool opened;
  double opening_since;
} communicator;

/* ---- errors ---------------------------------------------------------------------------------- */

/* The first one counts; the caller sees it at his next call. */
static void fail_sums(communicator *c, vtb_status status, const char *why) {
  vtb_ranks *r = c->r;
  pthread_mutex_lock(&r->lock);
  if (r->status == VTB_OK) {
    r->status = status;
    snprintf(r->why, sizeof r->why, "%.*s", VTB__WHY - 1, why);
  }
  pthread_cond_broadcast(&r->change);
  pthread_mutex_unlock(&r->lock);
}

/* A failure of this rank: the others hear of it, under its name. */
static void tell_failure(communicator *c, vtb_status status, const char *why) {
  if (c->told_failure) return;
  c->told_failure = true;
  (void)vtb__watch_tell(&c->r->watch, c->link, VTB__FAILED, status, why);
}

static void fail_with(communicator *c, vtb_status status, const char *text) {
  char name[128], why[VTB__WHY];
  vtb__watch_name(&c->r->watch, c->r->rank, name, sizeof name);
  snprintf(why, sizeof why, "%s: %.*s", name, (int)(sizeof why - sizeof name - 2), text);
  tell_failure(c, status, why);
  fail_sums(c, status, why);
}

static void fail_here(communicator *c, vtb_status status) {
  fail_with(c, status,
            status == VTB_E_MEMORY ? "out of memory for what is exchanged" : c->link->error);
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static vtb__job *take_job(communicator *c) {
  vtb_ranks *r = c->r;
  vtb__job *j = NULL;
  pthread_mutex_lock(&r->lock);
  c->begun = r->begun;
  if (c->in_flight < VTB__IN_FLIGHT && r->status == VTB_OK && (j = r->first)) {
    r->first = j->next;
    if (!r->first) r->last = &r->first;
  }
  pthread_mutex_unlock(&r->lock);
  return j;
}

static bool start_jobs(communicator *c) {
  bool moved = false;
  for (vtb__job *j; (j = take_job(c));) {
    if (!c->in_flight) c->busy_since = vtb_now();
    vtb__slot *s = &c->slots[(c->next + c->in_flight++) % VTB__IN_FLIGHT];
    j->begin = vtb_now();
    vtb_status status = vtb__job_start(s, j, c->link, &c->sent);
    if (status != VTB_OK) fail_here(c, status);
    moved = true;
  }
  return moved;
}

static void end_job(communicator *c, vtb__slot *s) {
  c->buckets += s->job->kind == VTB__SUM || s->job->kind == VTB__SHARE;
  pthread_mutex_lock(&c->r->lock);
  vtb__note_span(c->r, s->job->begin, vtb_now(), s->job->bytes);
  pthread_mutex_unlock(&c->r->lock);
  vtb__job_free(s->job);
  s->job = NULL;
  c->ended++;
}

/* Jobs may end in another order than they began; slots become free in that order. */
static bool advance_jobs(communicator *c) {
  bool moved = false, done = false;
  vtb_status status = VTB_OK;
  for (int i = 0; i < c->in_flight && status == VTB_OK; i++) {
    vtb__slot *s = &c->slots[(c->next + i) % VTB__IN_FLIGHT];
    if (!s->job) continue;
    status = vtb__job_advance(s, c->link, &c->sent, &moved, &done);
    if (done) end_job(c, s);
  }
  while (c->in_flight && !c->slots[c->next].job) {
    c->next = (c->next + 1) % VTB__IN_FLIGHT;
    c->in_flight--;
  }
  if (moved) c->progress = vtb_now();
  if (moved && !c->in_flight) c->busy += c->progress - c->busy_since;
  if (status != VTB_OK) fail_here(c, status);
  return moved;
}

static void publish(communicator *c) {
  vtb_ranks *r = c->r;
  pthread_mutex_lock(&r->lock);
  if (r->ended != c->ended) pthread_cond_broadcast(&r->change);
  r->ended = c->ended;
  r->stats.busy = c->busy;
  r->stats.bytes = c->sent;
  r->stats.buckets = c->buckets;
  pthread_mutex_unlock(&r->lock);
}

/* ---- the others ------------------------------------------------------------------------------ */

static vtb__rank_state state_of(communicator *c, char to_tell[VTB__WHY]) {
  vtb_ranks *r = c->r;
  const volatile int *stop = r->options.stop;
  pthread_mutex_lock(&r->lock);
  vtb__rank_state s = {.now = vtb_now(),
                       .waiting = r->waiting,
                       .progress = c->progress,
                       .begun = c->begun,
                       .failed = r->status != VTB_OK,
                       .closing = r->closing,
                       .stop = stop ? __atomic_load_n(stop, __ATOMIC_RELAXED) : 0};
  memcpy(to_tell, r->to_tell, VTB__WHY);
  pthread_mutex_unlock(&r->lock);
  if (s.closing && !c->closing_since) c->closing_since = s.now;
  if (!c->opened) s.waiting = c->opening_since;
  if (s.closing) s.waiting = c->closing_since;
  return s;
}

static void look_around(communicator *c, vtb__rank_state *s) {
  vtb_ranks *r = c->r;
  vtb__finding f = {0};
  if (!vtb__watch_look(&r->watch, c->link, s, &f) && !s->failed) {
    fail_here(c, VTB_E_DEVICE);
    s->failed = true;
  }
  if (*f.warn && r->options.warn) r->options.warn(r->options.user, f.warn);
  if (!f.failed) return;
  if (!f.by_other) tell_failure(c, f.status, f.why);
  fail_sums(c, f.status, f.why);
  s->failed = true;
}

static void tell_own_failure(communicator *c, const char *text) {
  char name[128], why[VTB__WHY];
  vtb__watch_name(&c->r->watch, c->r->rank, name, sizeof name);
  snprintf(why, sizeof why, "%s: %.*s", name, (int)(sizeof why - sizeof name - 2), text);
  tell_failure(c, c->r->status, why);
}

static void call_guard(communicator *c, vtb__rank_state *s) {
  vtb_ranks *r = c->r;
  vtb_error err = {0};
  if (s->now - c->guarded < guard_seconds) return;
  c->guarded = s->now;
  pthread_mutex_lock(&r->guard_lock);
  if (r->guard) r->guard(r->guard_user, s->failed, &err);
  pthread_mutex_unlock(&r->guard_lock);
  if (err.status == VTB_OK || s->failed) return;
  fail_with(c, err.status, err.text);
  s->failed = true;
}

void vtb__communicator_guard(vtb_ranks *r, void (*guard)(void *user, bool failed, vtb_error *err),
                             void *user) {
  pthread_mutex_lock(&r->guard_lock);
  r->guard = guard;
  r->guard_user = user;
  pthread_mutex_unlock(&r->guard_lock);
}

/* True when nothing more is to be heard. */
static bool is_over(communicator *c, const vtb__rank_state *s) {
  vtb_ranks *r = c->r;
  bool idle = c->in_flight == 0 && c->ended == c->begun;
  if (!s->closing || !(idle || s->failed)) return false;
  if (r->abandoned) return true; /* set before closing was */
  if (!c->told_bye) {
    c->told_bye = true;
    (void)vtb__watch_tell(&r->watch, c->link, VTB__BYE, r->rank, "");
  }
  return vtb__watch_all_left(&r->watch, c->link, s->failed) ||
         (s->failed && s->now - c->closing_since > last_words_seconds);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void sleep_for(long nanoseconds) {
  nanosleep(&(struct timespec){.tv_nsec = nanoseconds}, NULL);
}

static void rest(communicator *c, bool moved, const vtb__rank_state *s) {
  vtb_ranks *r = c->r;
  long most = s->waiting > 0 ? REST_WAITING : REST_BUSY;
  c->rest = moved ? REST_FIRST : c->rest * 2 < most ? c->rest * 2 : most;
  if (moved && c->in_flight) return;
  if ((c->in_flight && !s->failed) || s->closing) {
    double since = c->progress > s->waiting ? c->progress : s->waiting;
    if (s->waiting > 0 && !s->closing && s->now - since < eager_seconds)
      sched_yield();
    else
      sleep_for(c->rest);
    return;
  }
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += REST_IDLE;
  if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
  pthread_mutex_lock(&r->lock);
  if (!r->first && !r->closing && !*r->to_tell) pthread_cond_timedwait(&r->work, &r->lock, &until);
  pthread_mutex_unlock(&r->lock);
}

/* The caller of open goes on. */
static void end_opening(communicator *c) {
  vtb_ranks *r = c->r;
  c->opened = true;
  pthread_mutex_lock(&r->lock);
  r->opened = true;
  pthread_cond_broadcast(&r->change);
  pthread_mutex_unlock(&r->lock);
}

static void serve(communicator *c) {
  vtb_ranks *r = c->r;
  char to_tell[VTB__WHY];
  c->opening_since = vtb_now();
  for (;;) {
    while (atomic_load(&r->frozen)) sleep_for(REST_FIRST);
    bool moved = start_jobs(c);
    vtb__rank_state s = state_of(c, to_tell);
    if (!s.failed) moved |= advance_jobs(c);
    if (moved) publish(c);
    if (*to_tell) tell_own_failure(c, to_tell);
    look_around(c, &s);
    call_guard(c, &s);
    if (!c->opened && (s.failed || !c->link->meets || vtb__watch_knows_all(&r->watch, c->link)))
      end_opening(c);
    if (is_over(c, &s)) return;
    rest(c, moved, &s);
  }
}

static vtb_status open_link(communicator *c, vtb_error *err) {
  vtb_ranks *r = c->r;
  c->link = r->open(r->open_arg, err);
  if (!c->link) return err->status;
  r->rank = c->link->rank;
  r->n = c->link->n;
  vtb_status status = vtb__watch_open(&r->watch, c->link, &r->options, &r->lock);
  if (status == VTB_E_DEVICE) return vtb_fail(err, status, "%s", c->link->error);
  return status == VTB_OK ? status : vtb_no_memory(err, "the ranks of a job");
}

static void *communicate(void *arg) {
  communicator c = {.r = arg, .rest = REST_FIRST};
  vtb_ranks *r = arg;
  vtb_error err = {0};
  (void)vtb_denormals_flush(); /* of this thread alone, like those that compute */
  vtb_status status = open_link(&c, &err);
  if (status == VTB_OK) {
    serve(&c);
  } else {
    fail_sums(&c, status, err.text);
    end_opening(&c);
  }
  bool orderly = status == VTB_OK && vtb__watch_all_left(&r->watch, c.link, false);
  vtb__watch_close(&r->watch, c.link);
  if (c.link) c.link->close(c.link, orderly);
  for (int i = 0; i < VTB__IN_FLIGHT; i++) {
    vtb__job_free(c.slots[i].job);
    vtb__slot_free(&c.slots[i]);
  }
  return NULL;
}

vtb_status vtb__communicator_start(vtb_ranks *r, vtb_error *err) {
  sigset_t all, old;
  sigfillset(&all); /* signals are for the threads of the caller */
  pthread_sigmask(SIG_SETMASK, &all, &old);
  int failed = pthread_create(&r->thread, NULL, communicate, r);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  if (failed)
    return vtb_fail(err, VTB_E_MEMORY, "no thread could be started for the job's other processes");
  pthread_mutex_lock(&r->lock);
  while (!r->opened) pthread_cond_wait(&r->change, &r->lock);
  vtb_status status = r->status;
  if (status != VTB_OK) (void)vtb_fail(err, status, "%s", r->why);
  pthread_mutex_unlock(&r->lock);
  if (status != VTB_OK) vtb__communicator_stop(r);
  return status;
}

void vtb__communicator_stop(vtb_ranks *r) {
  pthread_mutex_lock(&r->lock);
  r->closing = true;
  pthread_cond_signal(&r->work);
  pthread_mutex_unlock(&r->lock);
  pthread_join(r->thread, NULL);
}
