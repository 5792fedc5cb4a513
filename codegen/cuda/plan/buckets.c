/* Gradients in buckets: neighbours in the state, together as large as the options say, each with
 * the step behind which all of it is whole.
 *
 *   25 MB:  | head.weight head.bias | blocks.11... |      | blocks.0... patch_embed |
 *             complete behind step 412  ... 655                ... 1210
 *
 * What sums gradients over devices does so bucket by bucket beside the rest of the step. Tensors
 * stand in the order in which their gradients are made (update.c); a bucket's step is the last that
 * writes to it, wherever that is. Other sums over ranks (losses, batch norm) are buckets of their
 * own, behind the step that makes what they sum.
 */
#include "codegen/cuda/plan/update.h"

#include <stdlib.h>

enum { DEFAULT_BYTES = 25 * 1000 * 1000 };

static int64_t end_of(const vtb_cuda_update_group *g, int k) {
  return k + 1 < g->u.tensors ? g->slot[g->order[k + 1]] * 4 : g->bytes;
}

/* The tensor, by its place in the order, in whose slot byte `at` of the region lies. */
static int find_slot(const vtb_cuda_update_group *g, int64_t at) {
  int lo = 0, hi = g->u.tensors - 1;
  while (lo < hi) {
    int middle = (lo + hi + 1) / 2;
    if (g->slot[g->order[middle]] * 4 <= at)
      lo = middle;
    else
      hi = middle - 1;
  }
  return lo;
}

/* The last step of the loops around step s, or s itself. */
static int32_t end_of_turns(const vtb_launch_plan *p, int32_t s) {
  for (int i = 0; i < p->n_loops; i++)
    if (s >= p->loops[i].first && s < p->loops[i].first + p->loops[i].n)
      return p->loops[i].first + p->loops[i].n; /* the outermost comes first */
  return s;
}

/* For each place in the order, the step behind which nothing writes there; -1: nothing ever does.
 * A loop's writes are over at the step behind it, which there is: the update. */
static int32_t *last_writers(const vtb_cuda_update_group *g, const vtb_launch_plan *p) {
  int32_t *last = vtb_xcalloc((size_t)g->u.tensors + 1, sizeof *last);
  for (int k = 0; k < g->u.tensors; k++) last[k] = -1;
  for (int s = 0; s < p->n_steps; s++)
    for (int i = 0; i < p->steps[s].n_args; i++) {
      const vtb_launch_arg *a = &p->args[p->steps[s].first_arg + i];
      int64_t place = a->space == VTB_LAUNCH_STATE    ? 0
                      : a->space == VTB_LAUNCH_TENSOR ? vtb_launch_place(p, a->tensor)
                                                      : -1;
      int64_t begin = place + a->offset - g->begin[1], end = begin + a->bytes;
      if (place < 0 || !(a->access & VTB_LAUNCH_WRITE) || begin >= g->bytes || end <= 0) continue;
      for (int k = find_slot(g, begin > 0 ? begin : 0); k < g->u.tensors; k++) {
        if (g->slot[g->order[k]] * 4 >= end) break;
        last[k] = end_of_turns(p, s);
      }
    }
  return last;
}

static int by_step(const void *a, const void *b) {
  const vtb_launch_bucket *x = a, *y = b;
  if (x->step != y->step) return x->step < y->step ? -1 : 1;
  if (x->where != y->where) return x->where > y->where ? -1 : 1; /* what the next steps wait for */
  return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Tensor i of the update has a gradient that is a rank's part. */
static bool is_partial(const vtb_cuda_update_group *g, int i) {
  const vtb_inst *verdict = g->inst->operands[2]->def;
  int n;
  const int64_t *partial = vtb_attr_ints(verdict, "partial", &n);
  bool found = !vtb_attr_find(verdict, "partial");
  for (int k = 0; k < n; k++) found |= partial[k] == i;
  return found;
}

static void add_gradients(const vtb_cuda *c, vtb_launch_plan *p) {
  const vtb_cuda_update_group *g = c->groups; /* the first: whose gradients the verdict reads */
  int64_t most = c->options->bucket_bytes ? c->options->bucket_bytes : DEFAULT_BYTES;
  int32_t *last = last_writers(g, p);
  for (int k = 0; k < g->u.tensors; k++) {
    int64_t begin = g->slot[g->order[k]] * 4, bytes = end_of(g, k) - begin;
    vtb_launch_bucket *b = p->n_buckets ? &p->buckets[p->n_buckets - 1] : NULL;
    if (last[k] < p->n_prepared || bytes == 0) continue; /* nothing to sum up: it is the same */
    if (!is_partial(g, g->order[k])) continue;
    bool joins = b && b->offset + b->bytes == g->begin[1] + begin && b->bytes + bytes <= most;
    if (!joins) {
      b = &p->buckets[p->n_buckets++];
      *b = (vtb_launch_bucket){.offset = g->begin[1] + begin, .step = last[k]};
    }
    b->bytes += bytes;
    b->n_tensors++;
    if (last[k] > b->step) b->step = last[k];
  }
  vtb_free(last);
}

void vtb__cuda_fill_buckets(const vtb_cuda *c, vtb_launch_plan *p, const vtb_launch_bucket *sums,
                            int n) {
  int most = n + (c->groups ? c->groups->u.tensors : 0);
  p->buckets = VTB_NEW_ARRAY(&p->arena, vtb_launch_bucket, most + 1);
  if (c->groups) add_gradients(c, p);
  for (int i = 0; i < n; i++) p->buckets[p->n_buckets++] = sums[i];
  if (p->n_buckets) qsort(p->buckets, (size_t)p->n_buckets, sizeof *p->buckets, by_step);
}
