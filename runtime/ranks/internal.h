/* Between the files of runtime/ranks: jobs of exchange, the communicator's thread, its watch over
 * the other ranks. */
#ifndef VTB_RANKS_INTERNAL_H
#define VTB_RANKS_INTERNAL_H

#include "runtime/ranks/link.h"
#include "runtime/ranks/ranks.h"

#include <pthread.h>
#include <stdatomic.h>

/* ---- bucket.c: pieces of memory that travel together ----------------------------------------- */

typedef struct vtb__piece {
  char *at;
  int64_t bytes;
} vtb__piece;

/* How many of `bytes` more go into a bucket of at most `most` bytes that holds `held`, so that
 * nothing but orders and sizes says where buckets end. */
int64_t vtb__bucket_room(int64_t held, int64_t bytes, int64_t most);
/* Where share `rank` of n floats begins; shares are whole cache lines, the last ones may be empty.
 */
int64_t vtb__share_begin(int64_t n_floats, int n_ranks, int rank);
/* sum[i] of [0, n): ((copies[0][i] + copies[1][i]) + ...); `sum` may be one of the copies. */
void vtb__add_in_order(float *sum, const float *const *copies, int n_copies, int64_t n);

/* ---- job.c: one exchange, its messages in flight --------------------------------------------- */

typedef enum vtb__job_kind {
  VTB__SUM,   /* floats: shares to their ranks, sums to all */
  VTB__SHARE, /* bytes of `root` to all */
  VTB__ADD,   /* a few doubles, each to all */
  VTB__MAX,
  VTB__GATHER /* bytes of all to `root` */
} vtb__job_kind;

typedef struct vtb__job {
  struct vtb__job *next;
  vtb__job_kind kind;
  int root;
  int64_t number; /* from 0, in the order of all ranks */
  double begin;   /* vtb_now() when it was taken */
  int64_t bytes;  /* of its pieces */
  VTB_VEC(vtb__piece) pieces;
  char *all; /* VTB__GATHER: where the root wants them */
  int64_t stride;
} vtb__job;
void vtb__job_free(vtb__job *j);

/* Memory for one job in flight, used again and again. */
typedef struct vtb__slot {
  vtb__job *job; /* NULL: free */
  int phase;
  char *mine, *others;
  size_t mine_bytes, others_bytes;
  void **requests;
  const float **copies;
  int n_requests;
} vtb__slot;
/* VTB_E_MEMORY; VTB_E_DEVICE: link->error. */
vtb_status vtb__job_start(vtb__slot *s, vtb__job *j, vtb__link *l, int64_t *sent);
/* *done: its results are in its pieces; *moved: anything happened. */
vtb_status vtb__job_advance(vtb__slot *s, vtb__link *l, int64_t *sent, bool *moved, bool *done);
void vtb__slot_free(vtb__slot *s);

/* ---- watch.c: who is there ------------------------------------------------------------------- */

enum { VTB__WHY = 480 };
typedef enum vtb__note_kind {
  VTB__HELLO, /* count: process, text: host */
  VTB__PING,
  VTB__PONG,   /* count: jobs that its caller has begun */
  VTB__FAILED, /* status, text */
  VTB__BYE,    /* it closes */
  VTB__NOTE_KINDS
} vtb__note_kind;
typedef struct vtb__note {
  int32_t kind, status;
  int64_t count, since;
  char text[VTB__WHY];
} vtb__note;

typedef struct vtb__peer {
  char host[64];
  int64_t process; /* 0: unknown yet */
  int handle;      /* of the process, of this machine; else -1 */
  bool bye, ended, silent, behind;
  double asked;      /* when it was asked first and has not answered since; 0: it has */
  double last_asked; /* 0: never */
  int64_t begun;     /* jobs, by its last answer */
  vtb__note notes[VTB__NOTE_KINDS];
  void *sending[VTB__NOTE_KINDS];
} vtb__peer;

typedef struct vtb__watch {
  vtb__peer *peers;      /* n */
  pthread_mutex_t *lock; /* held while a name changes */
  double name_seconds, patience_seconds;
  double last_tick, last_pass;
  double gap_until; /* this process was stopped until then */
  vtb__note note;   /* that came in */
} vtb__watch;

/* A rank's own state, told to the watch at each look. */
typedef struct vtb__rank_state {
  double now, waiting; /* since when its caller waits, or a close; 0: it computes */
  double progress;     /* when a message was last seen to arrive */
  int64_t begun;       /* jobs */
  bool failed, closing;
  int stop;
} vtb__rank_state;
/* The outcome of a look. */
typedef struct vtb__finding {
  bool failed;
  bool by_other;       /* it is told already */
  vtb_status status;   /* of the failure */
  char why[VTB__WHY];  /* the sentence */
  char warn[VTB__WHY]; /* empty: none */
} vtb__finding;
vtb_status vtb__watch_open(vtb__watch *w, vtb__link *l, const vtb_ranks_options *o,
                           pthread_mutex_t *lock);
/* False: the link failed. */
bool vtb__watch_look(vtb__watch *w, vtb__link *l, const vtb__rank_state *state, vtb__finding *f);
bool vtb__watch_tell(vtb__watch *w, vtb__link *l, vtb__note_kind kind, vtb_status status,
                     const char *text);
/* Everybody has said so and has heard this rank say so; with_gone: or has ended. */
bool vtb__watch_all_left(vtb__watch *w, vtb__link *l, bool with_gone);
/* Another thread than the communicator's holds the lock. */
void vtb__watch_name(const vtb__watch *w, int rank, char *out, size_t size);
/* All have said who they are. */
bool vtb__watch_knows_all(const vtb__watch *w, const vtb__link *l);
void vtb__watch_close(vtb__watch *w, vtb__link *l);

/* ---- communicator.c: the thread -------------------------------------------------------------- */

enum { VTB__IN_FLIGHT = 4 };
struct vtb_ranks {
  int rank, n;
  vtb_ranks_options options;
  vtb__link_open_fn open;
  void *open_arg;
  pthread_t thread;

  pthread_mutex_t lock;
  pthread_cond_t work, change; /* for the thread, for the caller */
  vtb__job *first, **last;     /* that it has not taken */
  int64_t begun, ended;
  bool opened, closing, abandoned;
  vtb_status status; /* the first error, and what it says */
  char why[VTB__WHY];
  char to_tell[VTB__WHY]; /* vtb_ranks_fail(), with the status; empty: nothing */
  double waiting;         /* since when the caller waits; 0: it does not */
  vtb_ranks_stats stats;
  vtb_ranks_span *spans; /* NULL: nobody wants them */
  int64_t n_spans, most_spans;
  vtb__watch watch; /* the thread's, but names are read under the lock */

  pthread_mutex_t guard_lock; /* held while the guard is called */
  void (*guard)(void *user, bool failed, vtb_error *err);
  void *guard_user;

  vtb__job **buckets; /* the caller's: sums, and shares of each rank, that are not full */
  atomic_bool frozen; /* tests: the thread is as if the process were stopped */
};

/* Under the lock. */
static inline void vtb__note_span(vtb_ranks *r, double begin, double end, int64_t bytes) {
  if (r->n_spans < r->most_spans) r->spans[r->n_spans++] = (vtb_ranks_span){begin, end, bytes};
}

VTB_MUST_USE vtb_status vtb__communicator_start(vtb_ranks *r, vtb_error *err);
void vtb__communicator_stop(vtb_ranks *r);
/* The thread calls it ten times a second, and when the job has failed; its error is one of this
 * rank. NULL: no more, and it is not being called any more. */
void vtb__communicator_guard(vtb_ranks *r, void (*guard)(void *user, bool failed, vtb_error *err),
                             void *user);

#endif
