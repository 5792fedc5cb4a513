/* The carrier of messages between the ranks of a job: MPI, or memory. Of runtime/ranks alone.
 *
 * Between two ranks messages of one tag arrive in the order in which they were sent. All calls of
 * a link are made by one thread, also that which opened it. */
#ifndef VTB_RANKS_LINK_H
#define VTB_RANKS_LINK_H

#include "runtime/base/base.h"

typedef struct vtb__link vtb__link;
struct vtb__link {
  int rank, n;
  void *none; /* a request of nothing, which is done */
  bool meets; /* the ranks open at the same time, and each waits until it knows all */
  /* Memory stays as it is until the request is done. False: failed. */
  bool (*send)(vtb__link *l, int to, int tag, const void *at, int64_t bytes, void **request);
  bool (*receive)(vtb__link *l, int from, int tag, void *at, int64_t bytes, void **request);
  /* 1: all are done (and `none`), 0: not yet, -1: failed. */
  int (*test)(vtb__link *l, int n, void **requests);
  /* A message of that tag and size that has arrived: its sender. -1: none has; -2: failed. */
  int (*take)(vtb__link *l, int tag, void *at, int64_t bytes);
  /* orderly: all ranks do it. Requests that are not done never will be. */
  void (*close)(vtb__link *l, bool orderly);
  char error[256]; /* of what failed */
};

/* arg: of the function; what it opens is closed by close(). */
typedef vtb__link *(*vtb__link_open_fn)(void *arg, vtb_error *err);
vtb__link *vtb__link_open_mpi(void *arg, vtb_error *err);

/* Links of n ranks in one process; NULL: no memory. vtb__hall_join() makes the link of each, of its
 * vtb__join. */
typedef struct vtb__hall vtb__hall;
typedef struct vtb__join {
  vtb__hall *hall;
  int rank;
  bool taken;
} vtb__join;
vtb__hall *vtb__hall_new(int n);
void vtb__hall_leave(vtb__hall *h); /* instead of a link's close */
vtb__link *vtb__hall_join(void *join, vtb_error *err);

#endif
