/* A plan on a device, between run.c, which makes it and runs it, and ahead.c, which begins runs
 * before those before them are done. */
#ifndef VTB_CUDA_RUN_H
#define VTB_CUDA_RUN_H

#include "runtime/cuda/device.h"
#include "runtime/launch/pixels.h"

enum { VTB__ALIGNMENT = 256, VTB__MOST_AHEAD = 256 };

/* Where the tensors stand: of the second set inputs have other places. */
typedef struct vtb__set {
  vtb_cu_address *tensors; /* in the run's `memory` or `state`, or inputs in the second set's own */
  vtb__cu_map *maps;       /* one an argument of the plan; NULL: none is a map */
  void **graphs;           /* executable, one a segment; NULL until there are any */
} vtb__set;

typedef struct vtb__ahead vtb__ahead;

typedef struct vtb__run {
  vtb_program program;
  vtb_launch_plan *plan;
  vtb_cuda_device *device;
  void **modules;   /* one a source */
  void **functions; /* one a kernel */
  vtb_cu_address memory, workspace, constants, state;
  vtb__set sets[2], *set;    /* set: that of the run at hand */
  vtb_cu_address *addresses; /* arguments of the step at hand */
  void **parameters;         /* pointers to them, or to maps */
  vtb__products *products;
  vtb__ahead *ahead; /* NULL until a run is submitted */
  void **events;     /* n_steps + 1, from the first profile on */
  int n_runs;
  unsigned kept; /* roles that are not copied, from the second run on */
  bool no_graph, sync;
} vtb__run;

static inline size_t vtb__tensor_bytes(const vtb_tensor_info *t) {
  return (size_t)vtb_tensor_info_count(t) * 4;
}
static inline bool vtb__is_result(const vtb_tensor_info *t) {
  return t->io == VTB_IO_OUTPUT || t->io == VTB_IO_GRAD_OUT || t->io == VTB_IO_UPDATE;
}
static inline size_t vtb__padded(size_t n) {
  return (n + VTB__ALIGNMENT - 1) / VTB__ALIGNMENT * VTB__ALIGNMENT;
}

/* ---- run.c ----------------------------------------------------------------------------------- */
VTB_MUST_USE vtb_status vtb__allocate(vtb_cuda_device *d, vtb_cu_address *to, size_t n,
                                      const char *what, vtb_error *err);
/* Of r->set. */
VTB_MUST_USE vtb_status vtb__encode_maps(vtb__run *r, vtb_error *err);
/* Parameters and buffers, and the prepared steps that depend on them, unless they are kept. */
VTB_MUST_USE vtb_status vtb__enqueue_fixed(vtb__run *r, void *const *args, vtb_error *err);
/* The steps behind the prepared ones with the tensors of r->set, as a graph if it can be. */
VTB_MUST_USE vtb_status vtb__enqueue_run(vtb__run *r, vtb_error *err);

/* ---- pixels.c -------------------------------------------------------------------------------- */
/* The input that the plan has a kernel for; -1: none, or VTB_CUDA_PIXELS=float. */
int vtb__pixels_tensor(const vtb_launch_plan *p);
vtb_pixels vtb__pixels_of(const vtb_tensor_info *t);
/* What stands at `from` becomes the input in r->set. */
VTB_MUST_USE vtb_status vtb__pixels_run(const vtb__run *r, vtb_cu_address from, void *stream,
                                        vtb_error *err);

/* ---- ahead.c --------------------------------------------------------------------------------- */
/* Whether nothing but inputs goes to the device before a run. */
bool vtb__ahead_is_possible(const vtb_launch_plan *p);
VTB_MUST_USE vtb_status vtb__ahead_submit(void *owner, void *const *args, vtb_error *err);
VTB_MUST_USE vtb_status vtb__ahead_collect(void *owner, void *const *args, vtb_error *err);
/* An error while results wait to be collected. */
VTB_MUST_USE vtb_status vtb__ahead_is_empty(const vtb__ahead *a, vtb_error *err);
void vtb__ahead_wait(vtb__ahead *a); /* for its stream; before anything is freed; NULL is fine */
void vtb__ahead_free(vtb__ahead *a);

#endif
