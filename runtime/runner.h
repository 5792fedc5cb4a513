/* A program with buffers of its own for all of its tensors: what the command and tests run, which
 * change parameters as they like. Applications have models and sessions (runtime/vertebra.h).
 *
 * Ownership: a runner owns its program, its buffers and its services until vtb_runner_free().
 * Threads: one at a time per runner. */
#ifndef VTB_RUNNER_H
#define VTB_RUNNER_H

#include "runtime/launch/program.h"

typedef struct vtb_runner vtb_runner;

/* Takes the program: it is freed with the runner, also on failure. n_threads 0: chosen by
 * VTB_THREADS, OMP_NUM_THREADS or the machine. Parameters start as zeros. */
VTB_MUST_USE vtb_status vtb_runner_new(vtb_program *program, int n_threads, vtb_runner **out,
                                       vtb_error *err);
void vtb_runner_free(vtb_runner *m); /* NULL is fine */

/* Parameters from their initialisers; the same seed gives the same values everywhere. */
VTB_MUST_USE vtb_status vtb_runner_init(vtb_runner *m, uint64_t seed, vtb_error *err);
VTB_MUST_USE vtb_status vtb_runner_save(const vtb_runner *m, const char *path, vtb_error *err);

/* Tensors in the program's order, with names, roles and shapes. */
int vtb_runner_tensors(const vtb_runner *m, const vtb_tensor_info **out);
int64_t vtb_runner_batch(const vtb_runner *m);

/* Buffers by name, f32 unless the tensor is i32; NULL if there is no such tensor. *count: elements
 * (may be NULL). name NULL: the only input, the first output. Input contents stay between runs. Who
 * changes a parameter asks for its buffer anew after each run: a GPU has a copy of its own
 * otherwise. */
void *vtb_runner_input(vtb_runner *m, const char *name, int64_t *count);
const void *vtb_runner_output(const vtb_runner *m, const char *name, int64_t *count);
void *vtb_runner_param(vtb_runner *m, const char *name, int64_t *count);

VTB_MUST_USE vtb_status vtb_runner_run(vtb_runner *m, vtb_error *err);

/* The services the runner runs with, for callers that need kernel times or threads. */
const vtb_services *vtb_runner_services(const vtb_runner *m);

#endif
