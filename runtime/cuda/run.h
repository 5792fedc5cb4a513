/* A plan on a device, between make.c, which makes it, run.c, which runs it, ahead.c, which begins
 * runs before those before them are done, and places.c, which runs it in memory of others. */
#ifndef VTB_CUDA_RUN_H
#define VTB_CUDA_RUN_H

#include "runtime/cuda/device.h"
#include "runtime/launch/pixels.h"

#include <stdatomic.h>

enum { VTB__ALIGNMENT = 256, VTB__MOST_AHEAD = 256, VTB__MOST_PLACES = 8 };

/* Shared by a program and those that are opened of it. */
typedef struct vtb__code {
  atomic_int users;
  vtb_launch_plan *plan;
  vtb_cuda_image *images; /* copies, one a source; NULL: no other is opened of it */
  char arch[16];          /* of the device that they were made for */
} vtb__code;

/* Where the tensors stand: of the second set inputs have other places. */
typedef struct vtb__set {
  vtb_cu_address *tensors; /* in the run's `memory` or `state`, or inputs in the second set's own */
  vtb__cu_map *maps;       /* one an argument of the plan; NULL: none is a map */
  void **graphs;        /* executable, of the segment from each step on; NULL until there are any */
  int64_t n_runs, last; /* of sets of places: how many, and the number of the last one */
} vtb__set;

typedef struct vtb__ahead vtb__ahead;

typedef struct vtb__run {
  vtb_program program;
  vtb__code *code;
  vtb_launch_plan *plan; /* the code's */
  vtb_cuda_device *device;
  void **modules;   /* one a source */
  void **functions; /* one a kernel */
  vtb_cu_address memory, workspace, constants, state;
  vtb__set sets[2], *set;    /* set: that of the run at hand */
  vtb_cu_address *addresses; /* arguments of the step at hand */
  void **parameters;         /* pointers to them, or to maps */
  vtb__products *products;
  vtb__ahead *ahead;            /* NULL until a run is submitted */
  void **events;                /* n_steps + 1, from the first profile on */
  const vtb_services *services; /* of the profile at hand */
  int32_t *answer;              /* pinned: of a loop's condition; NULL until one is read */
  int n_runs;
  unsigned kept; /* roles that are not copied, from the second run on */
  bool no_graph, sync;
  bool begun, has_tensors; /* there is memory: for all but the tensors; for those too */
  /* ---- places.c */
  vtb__set places[VTB__MOST_PLACES];
  vtb_cu_address *wanted, *own; /* one a tensor: of the run at hand; its copies, 0: none yet */
  unsigned *align;              /* one a tensor: what its address must be a multiple of */
  int64_t n_placed;             /* runs */
  bool is_prepared;             /* by the last of these */
} vtb__run;

static inline size_t vtb__tensor_bytes(const vtb_tensor_info *t) {
  return (size_t)vtb_tensor_info_count(t) * 4;
}
static inline size_t vtb__padded(size_t n) {
  return (n + VTB__ALIGNMENT - 1) / VTB__ALIGNMENT * VTB__ALIGNMENT;
}

/* ---- make.c ---------------------------------------------------------------------------------- */
/* images: one a source of the plan. Takes the plan and the device on success; copies of the images
 * if others are to be opened of the program. */
VTB_MUST_USE vtb_status vtb__cuda_program(vtb_launch_plan *plan, const vtb_cuda_image *images,
                                          bool others, vtb_cuda_device *device,
                                          vtb_program **program, vtb_error *err);
/* Memory and library products, which the first run takes; with tensors: for them, too. */
VTB_MUST_USE vtb_status vtb__run_begin(vtb__run *r, bool tensors, vtb_error *err);
VTB_MUST_USE vtb_status vtb__allocate(vtb_cuda_device *d, vtb_cu_address *to, size_t n,
                                      const char *what, vtb_error *err);

/* ---- run.c ----------------------------------------------------------------------------------- */
static inline vtb_cu_attribute vtb__cluster_of(const vtb_launch_kernel *k) {
  return (vtb_cu_attribute){.id = VTB__CU_LAUNCH_CLUSTER,
                            .value.cluster = {(unsigned)k->cluster, 1, 1}};
}

static inline vtb_cu_launch vtb__launch_of(const vtb__run *r, const vtb_launch_kernel *k,
                                           unsigned grid, const vtb_cu_attribute *cluster) {
  return (vtb_cu_launch){.grid = {grid, 1, 1},
                         .block = {(unsigned)k->threads, 1, 1},
                         .shared_bytes = (unsigned)k->shared_bytes,
                         .stream = r->device->stream,
                         .attributes = cluster,
                         .n_attributes = 1};
}

/* All but its code and its device; in the context. */
void vtb__run_free(vtb__run *r);
/* A program's functions: run, exchange, keep. */
VTB_MUST_USE vtb_status vtb__run_copying(void *owner, void *const *args,
                                         const vtb_services *services, vtb_error *err);
VTB_MUST_USE vtb_status vtb__run_exchange(void *owner, void *const *args, bool in, vtb_error *err);
void vtb__run_keep(void *owner, unsigned roles);
/* The maps of r->set. */
VTB_MUST_USE vtb_status vtb__encode_maps(vtb__run *r, vtb_error *err);
/* Parameters and buffers, and the prepared steps that depend on them, unless they are kept. */
VTB_MUST_USE vtb_status vtb__enqueue_fixed(vtb__run *r, void *const *args, vtb_error *err);
/* The steps behind the prepared ones with the tensors of r->set, as a graph if it is `again`. */
VTB_MUST_USE vtb_status vtb__enqueue_run(vtb__run *r, bool again, vtb_error *err);
VTB_MUST_USE vtb_status vtb__enqueue_prepared(vtb__run *r, vtb_error *err);
void vtb__set_clear(const vtb__run *r, vtb__set *set);

/* ---- pixels.c -------------------------------------------------------------------------------- */
/* The input that the plan has a kernel for; -1: none, or VTB_CUDA_PIXELS=float. */
int vtb__pixels_tensor(const vtb_launch_plan *p);
vtb_pixels vtb__pixels_of(const vtb_tensor_info *t);
/* Pixels at `from` become the input in r->set. */
VTB_MUST_USE vtb_status vtb__pixels_run(const vtb__run *r, vtb_cu_address from, void *stream,
                                        vtb_error *err);

/* ---- places.c -------------------------------------------------------------------------------- */
extern const vtb_device_calls vtb__cuda_calls, vtb__cuda_calls_alone; /* alone: without `open` */
VTB_MUST_USE vtb_status vtb__cuda_open(void *owner, const vtb_device_choice *where,
                                       vtb_program **out, vtb_error *err); /* make.c */
void vtb__places_free(vtb__run *r);

/* ---- ahead.c --------------------------------------------------------------------------------- */
/* True if nothing but inputs goes to the device before a run. */
bool vtb__ahead_is_possible(const vtb_launch_plan *p);
VTB_MUST_USE vtb_status vtb__ahead_submit(void *owner, void *const *args, vtb_error *err);
VTB_MUST_USE vtb_status vtb__ahead_collect(void *owner, void *const *args, vtb_error *err);
/* An error while results wait to be collected. */
VTB_MUST_USE vtb_status vtb__ahead_is_empty(const vtb__ahead *a, vtb_error *err);
void vtb__ahead_wait(vtb__ahead *a); /* for its stream; before anything is freed; NULL is fine */
void vtb__ahead_free(vtb__ahead *a);

#endif
