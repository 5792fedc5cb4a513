/* The processes of one job ("ranks", from 0), started together by mpirun, srun or their like: sums
 * of what each of them has, copies from one to all, and a sentence when one of them fails.
 *
 * Messages are carried by MPI, which is looked for when a job is opened (VTB_MPI names its file),
 * or, for tests, between threads of one process. A thread of its own per rank, the communicator,
 * makes every call of MPI, so that sums go on while the caller computes. It sleeps between looks:
 * cores are for the caller.
 *
 * A sum is exact in this sense: element i is ((x0 + x1) + x2) + ... over the ranks in their order,
 * the same bits on every rank, whatever the size of buckets, the speed of ranks and the network.
 *
 * Calls: every rank makes the same ones in the same order with the same sizes; a handle is used by
 * one thread at a time. Errors are VTB_E_DEVICE where the others or the network are at fault, and
 * name the rank ("rank 2 (node7, process 4711): ..."), VTB_E_MEMORY where there is none. Behind the
 * first error nothing is exchanged any more, and every call gives it again.
 * NULL is a job of one rank: every call does nothing and succeeds.
 */
#ifndef VTB_RANKS_H
#define VTB_RANKS_H

#include "runtime/launch/program.h"

typedef struct vtb_ranks vtb_ranks;

typedef struct vtb_ranks_options {
  double name_seconds;     /* a rank that has not answered for so long is named; 0: 20 */
  double patience_seconds; /* and ends the job after so long; 0: 300 */
  int64_t bucket_bytes;    /* that are exchanged at a time; 0: 512 KB a rank, at most 16 MB */
  /* May be NULL: a sentence for the user, on the first rank that answers. It is called by the
   * communicator's thread. */
  void (*warn)(void *user, const char *text);
  void *user;
  /* May be NULL: how often the process was asked to end. From 2 on calls that wait end with an
   * error; from 1 on they do when a rank does not answer for 5 seconds. */
  const volatile int *stop;
} vtb_ranks_options;

/* The environment says that a launcher started this process as one of *n (may be NULL; 0: it does
 * not say of how many). */
bool vtb_ranks_launched(int *n);
/* options may be NULL. Waits for all ranks. */
VTB_MUST_USE vtb_status vtb_ranks_open(const vtb_ranks_options *options, vtb_ranks **out,
                                       vtb_error *err);
/* n ranks in this process, for as many threads of the caller's: out[n]. */
VTB_MUST_USE vtb_status vtb_ranks_open_threads(int n, const vtb_ranks_options *options,
                                               vtb_ranks **out, vtb_error *err);
/* Every rank calls it: waits for the others to do so, a few seconds only behind an error. */
void vtb_ranks_close(vtb_ranks *r);

int vtb_ranks_rank(const vtb_ranks *r);
int vtb_ranks_count(const vtb_ranks *r);
/* "rank 2 (node7, process 4711)"; as much of it as is known. */
void vtb_ranks_name(vtb_ranks *r, int rank, char *out, size_t size);

/* Begins to sum n floats over all ranks, in place; they are left alone until the next wait, whose
 * errors are also those of sums before it. */
VTB_MUST_USE vtb_status vtb_ranks_sum_begin(vtb_ranks *r, float *at, int64_t n, vtb_error *err);
VTB_MUST_USE vtb_status vtb_ranks_sum_wait(vtb_ranks *r, vtb_error *err);
/* Begins to copy n floats of rank `root` to all others: sum_wait ends it. */
VTB_MUST_USE vtb_status vtb_ranks_share_begin(vtb_ranks *r, int root, float *at, int64_t n,
                                              vtb_error *err);

/* These wait, also for all that was begun. A NaN of any rank is the largest. */
VTB_MUST_USE vtb_status vtb_ranks_sum(vtb_ranks *r, double *at, int64_t n, vtb_error *err);
VTB_MUST_USE vtb_status vtb_ranks_max(vtb_ranks *r, double *at, int64_t n, vtb_error *err);
VTB_MUST_USE vtb_status vtb_ranks_broadcast(vtb_ranks *r, int root, void *at, int64_t bytes,
                                            vtb_error *err);
/* `bytes` of every rank, in their order, to `all` of rank `root` (NULL on others; may hold `mine`
 * at its place). A job of one rank (NULL) copies, too. */
VTB_MUST_USE vtb_status vtb_ranks_gather(vtb_ranks *r, int root, const void *mine, int64_t bytes,
                                         void *all, vtb_error *err);

/* This rank has failed: calls of the others fail with this status, its name and the sentence. It
 * closes then. */
void vtb_ranks_fail(vtb_ranks *r, vtb_status status, const char *text);

typedef struct vtb_ranks_stats {
  double waited;   /* seconds that callers waited */
  double busy;     /* seconds in which something was being exchanged */
  int64_t bytes;   /* that this rank has sent */
  int64_t buckets; /* of sums and shares */
} vtb_ranks_stats;
void vtb_ranks_get_stats(vtb_ranks *r, vtb_ranks_stats *out);

/* Something that was exchanged, or that the caller waited for. */
typedef struct vtb_ranks_span {
  double begin, end; /* vtb_now() */
  int64_t bytes;     /* -1: waited */
} vtb_ranks_span;
/* From now on the first `most` of them are noted in at[], which is the caller's and stays there
 * until this is called with NULL. Returns how many were noted before. */
int64_t vtb_ranks_trace(vtb_ranks *r, vtb_ranks_span *at, int64_t most);

/* Programs that run with these services sum over r (NULL: over nobody any more), which stays the
 * caller's. */
void vtb_services_ranks(vtb_services *s, vtb_ranks *r);

/* The same for a program on a GPU, by NCCL, or in the emulator: its buckets (vtb_bucket_fn) are
 * summed beside the rest of the run. Every rank calls it before the program's first run, with one
 * program at a time; nothing is needed, and *out is NULL, where r is one rank or the program is
 * native code. Detach before r is closed and the program freed. */
typedef struct vtb_ranks_device vtb_ranks_device;
VTB_MUST_USE vtb_status vtb_ranks_attach(vtb_ranks *r, vtb_program *p, vtb_ranks_device **out,
                                         vtb_error *err);
void vtb_ranks_detach(vtb_ranks_device *d); /* NULL is fine */

/* For `vertebra doctor`: "Open MPI 4.1.4 (libmpi.so.40)", or what is missing. */
bool vtb_ranks_probe_mpi(vtb_strbuf *out);

#endif
