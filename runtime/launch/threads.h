/* The services a program calls back into: threads (a team of their own), scratch memory, kernel
 * timing.
 *
 * Ownership: services are the caller's, freed with vtb_services_free() once no program uses them. A
 * services object may be used by one running entry at a time; two threads that run programs need
 * one each.
 * Scratch: a task has one buffer, so a second request of the same task may give the same memory;
 * tasks nested in it have their own. NULL when there is no memory: the task returns, and the run is
 * VTB_E_MEMORY. Denormals: inside vtb_program_execute() and inside every task they are flushed to
 * zero; the caller's mode is restored.
 */
#ifndef VTB_THREADS_H
#define VTB_THREADS_H

#include "runtime/launch/program.h"

#define VTB_MOST_THREADS 1024

/* As many as the process was told, else the cores it may use. At least 1. */
int vtb_default_threads(void);
void vtb_set_default_threads(int n); /* 0: the cores */

/* n_threads 0: vtb_default_threads(); at most VTB_MOST_THREADS are made. If the system has not so
 * many threads left, n_threads of the services says how many there are. NULL when out of memory. */
vtb_services *vtb_services_default(int n_threads);
/* The same on threads of the caller's, of whom at most n_threads work at the same time: pool(user,
 * fn, closure, n, grain) runs fn for ranges that together cover [0, n), multiples of grain long,
 * and returns when all are done. */
typedef void (*vtb_pool_fn)(void *user, vtb_task_fn fn, void *closure, int64_t n, int64_t grain);
vtb_services *vtb_services_pooled(int n_threads, vtb_pool_fn pool, void *user);
/* The same, and measures kernels 0 .. n_kernels-1 of a program compiled with `profile`. */
vtb_services *vtb_services_profiling(int n_threads, int n_kernels);
void vtb_services_free(vtb_services *s);

/* Who sums over the processes of a job (runtime/ranks); NULL: nobody. Copied. The first error is
 * that of the run in which it came up, and the rest of that run sums nothing. */
typedef struct vtb_summer {
  vtb_status (*begin)(void *user, float *at, int64_t n, vtb_error *err);
  vtb_status (*wait)(void *user, vtb_error *err);
  void *user;
} vtb_summer;
void vtb_services_sums(vtb_services *s, const vtb_summer *summer);

typedef struct vtb_kernel_time {
  double seconds; /* sum over launches */
  int64_t launches;
} vtb_kernel_time;
/* Times of profiling services, n_kernels entries, until the services are freed; NULL for others. */
const vtb_kernel_time *vtb_services_times(const vtb_services *s, int *n_kernels);
void vtb_services_reset_times(vtb_services *s);

/* Runs the program once, with denormals flushed. Everything else that runs a program should do it
 * through this. Native programs fail only for lack of memory. */
VTB_MUST_USE vtb_status vtb_program_execute(const vtb_program *p, void *const *args,
                                            void *workspace, const vtb_services *s, vtb_error *err);
/* A part of a run: the prepared steps, or the others, with `kept` of p->kept_bytes in place of as
 * many of the workspace's. Any number of runs may read what one has prepared. */
VTB_MUST_USE vtb_status vtb_program_execute_part(const vtb_program *p, void *const *args,
                                                 void *workspace, void *kept, vtb_part part,
                                                 const vtb_services *s, vtb_error *err);
/* From now on, until it is told otherwise: runs of a native program in the workspace of the run
 * before leave its prepared steps out, since parameters, buffers and that memory are as they were.
 * Forgets what was prepared. The counterpart of vtb_program_keep(). */
void vtb_services_keep(const vtb_services *s, bool on);
/* Sets flush-to-zero and denormals-are-zero for the calling thread; returns the old mode for
 * _restore. */
unsigned vtb_denormals_flush(void);
void vtb_denormals_restore(unsigned mode);

#endif
