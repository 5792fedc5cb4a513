/* Life of a launch plan, and what its programs say of themselves: see launch_plan.h. */
#include "runtime/launch/launch_plan.h"

vtb_status vtb_launch_plan_describe(vtb_launch_plan *p, vtb_program *program, vtb_error *err) {
  vtb_kernel_info *kernels =
      vtb_arena_try(&p->arena, (size_t)p->n_kernels + (size_t)p->n_gemms + 1, sizeof *kernels);
  bool *resident = vtb_arena_try(&p->arena, (size_t)p->n_tensors + 1, sizeof *resident);
  if (!kernels || !resident) return vtb_no_memory(err, "the tables of a program");
  for (int i = 0; i < p->n_kernels; i++) kernels[i] = p->kernels[i].info;
  for (int i = 0; i < p->n_gemms; i++) kernels[p->n_kernels + i] = p->gemms[i].info;
  for (int i = 0; i < p->n_tensors; i++) resident[i] = vtb_launch_place(p, i) >= 0;
  program->n_tensors = p->n_tensors;
  program->tensors = p->tensors;
  program->resident = p->place ? resident : NULL;
  program->batch = p->batch;
  program->device_workspace_bytes = p->workspace_bytes;
  program->n_kernels = p->n_kernels + p->n_gemms;
  program->kernels = kernels;
  program->n_buckets = p->n_buckets;
  return VTB_OK;
}

/* ---- bytes that a step moves ----------------------------------------------------------------- */

static bool same_space(const vtb_launch_arg *a, const vtb_launch_arg *b) {
  return a->space == b->space && (a->space != VTB_LAUNCH_TENSOR || a->tensor == b->tensor);
}

/* An argument before `i` is the same view. */
static bool is_again(const vtb_launch_arg *args, int i, int access) {
  for (int k = 0; k < i; k++)
    if (args[k].access & access && same_space(&args[k], &args[i]) &&
        args[k].offset == args[i].offset && args[k].bytes == args[i].bytes &&
        args[k].touched == args[i].touched)
      return true;
  return false;
}

static bool counts(const vtb_launch_arg *args, int i, int access) {
  return (args[i].access & access) && args[i].touched > 0 && !is_again(args, i, access);
}

/* The next argument behind `after` (in the order of offsets, then numbers) of argument `i`'s
 * space; -1: none. */
static int next_in_space(const vtb_launch_arg *args, int n, int access, int i, int after) {
  int best = -1;
  for (int k = 0; k < n; k++) {
    if (!counts(args, k, access) || !same_space(&args[k], &args[i])) continue;
    bool behind = after < 0 || args[k].offset > args[after].offset ||
                  (args[k].offset == args[after].offset && k > after);
    if (behind && (best < 0 || args[k].offset < args[best].offset)) best = k;
  }
  return best;
}

/* Ranges that overlap hold no more than their union has, views of one tensor side by side no more
 * than each has. */
static int64_t moved_in_space(const vtb_launch_arg *args, int n, int access, int i) {
  int64_t all = 0, touched = 0, begin = -1, end = -1;
  for (int k = next_in_space(args, n, access, i, -1); k >= 0;
       k = next_in_space(args, n, access, i, k)) {
    const vtb_launch_arg *a = &args[k];
    if (end < a->offset) {
      all += touched < end - begin ? touched : end - begin;
      begin = a->offset;
      touched = 0;
      end = begin;
    }
    touched += a->touched;
    if (end < a->offset + a->bytes) end = a->offset + a->bytes;
  }
  return all + (touched < end - begin ? touched : end - begin);
}

static int64_t moved(const vtb_launch_arg *args, int n, int access) {
  int64_t all = 0;
  for (int i = 0; i < n; i++) {
    bool first = counts(args, i, access);
    for (int k = 0; k < i && first; k++)
      first = !counts(args, k, access) || !same_space(&args[k], &args[i]);
    if (first) all += moved_in_space(args, n, access, i);
  }
  return all;
}

vtb_launch_traffic vtb_launch_traffic_of(const vtb_launch_plan *p, const vtb_launch_step *s) {
  const vtb_launch_arg *args = &p->args[s->first_arg];
  return (vtb_launch_traffic){moved(args, s->n_args, VTB_LAUNCH_READ),
                              moved(args, s->n_args, VTB_LAUNCH_WRITE)};
}

/* ---- programs -------------------------------------------------------------------------------- */

void vtb_launch_plan_free(vtb_launch_plan *p) {
  if (!p) return;
  vtb_arena_free(&p->arena);
  vtb_free(p); /* the compiler makes plans too */
}
