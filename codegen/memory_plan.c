/* Memory planning: where every value of a compiled function lives.
 *
 * Stored values get static offsets in the function's workspace frame from their live ranges;
 * reshape, slice, transpose and broadcast of stored values are views (offset and strides) and cost
 * nothing; returned values are written straight into the caller's buffers. Images that patches add
 * up to lie in the order in which all that reads them does, where the target knows that. Live
 * ranges count instructions; a value used by a view lives as long as the view does. Offsets are
 * chosen largest value first, each at the lowest place free during its whole life, which packs
 * well and is deterministic. Callees run in frames placed after their caller's. Results of
 * instructions with the attribute `prepared` (prepare.c) live to the function's end; where the
 * target keeps them, those that anything else reads lie side by side in memory of their own. A sum
 * over ranks is made where its operand lies, if nothing else reads that, else in a copy. */
#include "codegen/memory_plan.h"
#include "ir/ops.h"

#include "ir/rewrite.h"

#include "ir/checks.h"
#include "ir/kernels.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN_BYTES = 64 };

typedef struct live {
  int value; /* id */
  int from, to;
  int64_t bytes, offset;
} live;

static int64_t round_up(int64_t bytes) {
  return (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

static void row_major(const vtb_type *t, int64_t *stride) {
  int64_t s = 1;
  for (int a = t->rank - 1; a >= 0; a--) {
    stride[a] = s;
    s *= t->dim[a].size;
  }
}

/* Strides of `to` over the elements of a tensor of shape `from` with strides `in`; false if that
 * needs a copy. */
static bool reshape_strides(const vtb_type *from, const int64_t *in, const vtb_type *to,
                            int64_t *out) {
  int64_t size[VTB_MAX_RANK], stride[VTB_MAX_RANK];
  int n = 0;
  for (int a = 0; a < from->rank; a++) { /* squeeze size-1 axes, merge contiguous ones */
    if (from->dim[a].size == 1) continue;
    if (n && stride[n - 1] == in[a] * from->dim[a].size) {
      size[n - 1] *= from->dim[a].size;
      stride[n - 1] = in[a];
    } else {
      size[n] = from->dim[a].size;
      stride[n++] = in[a];
    }
  }
  int run = n - 1;
  int64_t left = n ? size[run] : 1, step = n ? stride[run] : 1;
  for (int a = to->rank - 1; a >= 0; a--) {
    int64_t want = to->dim[a].size;
    if (want == 1) {
      out[a] = 0;
      continue;
    }
    if (left == 1) {
      if (--run < 0) return false;
      left = size[run];
      step = stride[run];
    }
    if (left % want != 0) return false;
    out[a] = step;
    step *= want;
    left /= want;
  }
  /* size-1 axes take the stride that keeps the row-major look, so that equal tensors compare
   * equal */
  int64_t next = 1;
  for (int a = to->rank - 1; a >= 0; a--) {
    if (to->dim[a].size == 1) out[a] = next;
    next = out[a] * to->dim[a].size;
  }
  return true;
}

/* Fills `s` as a view of `from` if instruction `i` only re-addresses it. */
static bool make_view(const vtb_inst *i, const vtb_slot *from, vtb_slot *s) {
  const vtb_type *x = &i->operands[0]->type, *y = &i->results[0]->type;
  const int64_t *in = from->stride;
  s->view_offset = from->place == VTB_PLACE_VIEW ? from->view_offset : 0;
  switch (i->op) {
  case VTB_OP_reshape:
    if (!reshape_strides(x, in, y, s->stride)) return false;
    break;
  case VTB_OP_slice: {
    int axis = (int)vtb_attr_int(i, "axis", 0);
    memcpy(s->stride, in, sizeof s->stride);
    s->view_offset += vtb_attr_int(i, "start", 0) * in[axis];
    s->stride[axis] = in[axis] * vtb_attr_int(i, "step", 1);
    break;
  }
  case VTB_OP_transpose: {
    int n;
    const int64_t *perm = vtb_attr_ints(i, "perm", &n);
    for (int a = 0; a < n; a++) s->stride[a] = in[perm[a]];
    break;
  }
  case VTB_OP_sum_ranks:
    vtb_check(vtb_type_equal(x, y), "%%%s is summed as another type than %%%s has",
              i->results[0]->name, i->operands[0]->name);
    memcpy(s->stride, in, sizeof s->stride);
    break;
  case VTB_OP_broadcast:
    for (int a = 0; a < y->rank; a++) {
      int b = a - (y->rank - x->rank);
      s->stride[a] = b < 0 || (x->dim[b].size == 1 && y->dim[a].size != 1) ? 0 : in[b];
    }
    break;
  default:
    return false;
  }
  s->place = VTB_PLACE_VIEW;
  s->base = from->place == VTB_PLACE_VIEW ? from->base : i->operands[0];
  return true;
}

static int by_size(const void *pa, const void *pb) {
  const live *a = pa, *b = pb;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
  return a->from != b->from ? a->from - b->from : a->value - b->value;
}

static int by_offset(const void *pa, const void *pb) {
  const live *a = *(live *const *)pa, *b = *(live *const *)pb;
  return a->offset != b->offset ? (a->offset < b->offset ? -1 : 1) : a->value - b->value;
}

/* Lowest offset where `l` fits among the placed ranges that are alive at the same time. */
static int64_t place(live *l, live *placed, int n, live **scratch) {
  int k = 0;
  for (int i = 0; i < n; i++)
    if (placed[i].from <= l->to && l->from <= placed[i].to) scratch[k++] = &placed[i];
  qsort(scratch, (size_t)k, sizeof *scratch, by_offset);
  int64_t at = 0;
  for (int i = 0; i < k; i++) {
    if (scratch[i]->offset >= at + l->bytes) break;
    if (scratch[i]->offset + scratch[i]->bytes > at) at = scratch[i]->offset + scratch[i]->bytes;
  }
  return at;
}

static void use(live *lives, const int *live_of, const vtb_frame *frame, const vtb_value *v,
                int when) {
  const vtb_slot *s = &frame->slots[v->id];
  int id = s->place == VTB_PLACE_VIEW ? s->base->id : v->id;
  assert(frame->slots[id].place != VTB_PLACE_VIEW); /* a view is never of a view */
  if (live_of[id] >= 0 && lives[live_of[id]].to < when) lives[live_of[id]].to = when;
}

/* The concatenation that `i` is, bare or as a kernel of nothing else; NULL if it is none. */
static const vtb_inst *as_concat(const vtb_inst *i) {
  if (i->op == VTB_OP_concat) return i;
  const vtb_inst *only = i->op == VTB_OP_fused ? i->callee->first : NULL;
  if (!only || only->next || only->op != VTB_OP_concat || only->n_operands != i->n_operands)
    return NULL;
  for (int o = 0; o < only->n_operands; o++)
    if (only->operands[o] != i->callee->args[o]) return NULL;
  return only;
}

/* The stored value that a sum over ranks may be made in, since nothing else reads it; NULL: there
 * is none. Of a concatenation others may read the parts. */
static const vtb_value *summed_in_place(const vtb_inst *sum, const int *uses) {
  const vtb_value *v = sum->operands[0];
  while (uses[v->id] == 1 && v->def && v->def->op == VTB_OP_reshape) v = v->def->operands[0];
  bool made = v->def && vtb_op_get(v->def->op)->klass != VTB_CLASS_SHAPE;
  bool stored = made && v->def->op != VTB_OP_constant && v->def->op != VTB_OP_sum_ranks &&
                v->def->op != VTB_OP_col2im && !as_concat(v->def);
  return stored && uses[v->id] == 1 ? v : NULL;
}

/* True if v only leads to another place of its operand, as far as reads go. */
static bool leads_on(const vtb_value *v, const int *uses) {
  if (!v->def) return false;
  return v->def->op == VTB_OP_reshape ||
         (v->def->op == VTB_OP_sum_ranks && summed_in_place(v->def, uses));
}

/* A returned reshape of a stored value: the value is written into the caller's buffer, and the
 * reshape is a view. */
static void return_through_reshapes(const vtb_func *f, const int *uses, int *return_of) {
  for (int r = 0; r < f->n_returns; r++) {
    const vtb_value *v = f->returns[r], *base = v;
    if (return_of[v->id] != r) continue;
    while (leads_on(base, uses) && (base == v || return_of[base->id] < 0))
      base = base->def->operands[0];
    if (base == v || !base->def || return_of[base->id] >= 0) continue;
    if (vtb_op_get(base->def->op)->klass == VTB_CLASS_SHAPE || base->def->op == VTB_OP_constant)
      continue;
    return_of[base->id] = r;
    return_of[v->id] = -1;
  }
}

/* The adjoints of mixers of tokens, which come as parts of one projection's. */
static bool makes_rows(const vtb_inst *i) {
  return i->op == VTB_OP_attention_grad || vtb_kernel_kind_of(i) == VTB_KERNEL_ATTENTION ||
         (i->op == VTB_OP_linscan_grad && vtb_scan_is_product(i));
}

/* Kernels and products store results with any strides whose last is 1. */
static bool stores_anywhere(const vtb_inst *i, const vtb_places *places) {
  if (!i) return false;
  if (i->op == VTB_OP_einsum || (places && places->strided_rows && makes_rows(i))) return true;
  return vtb_kernel_stores_anywhere(vtb_kernel_kind_of(i)) && !as_concat(i);
}

/* Where operand `o` of a concatenation lies in its result, as a slot for the value behind its
 * reshapes; NULL if that value cannot be written there. */
static const vtb_value *part_of(const vtb_inst *i, int o, int axis, int64_t start,
                                const int *return_of, const vtb_places *places, vtb_slot *s) {
  const vtb_value *v = i->operands[o], *base = vtb_behind_reshapes(v);
  int64_t whole[VTB_MAX_RANK];
  row_major(&i->results[0]->type, whole);
  if (!stores_anywhere(base->def, places) || return_of[base->id] >= 0 ||
      vtb_type_count(&base->type) == 0)
    return NULL;
  *s = (vtb_slot){
      .place = VTB_PLACE_VIEW, .base = i->results[0], .view_offset = start * whole[axis]};
  if (!reshape_strides(&v->type, whole, &base->type, s->stride)) return NULL;
  int last = base->type.rank - 1;
  return last < 0 || base->type.dim[last].size == 1 || s->stride[last] == 1 ? base : NULL;
}

/* Concatenations whose operands can all be written into the result: slots of the operands, and the
 * mark. */
static void plan_concats(const vtb_func *f, vtb_frame *frame, const int *return_of,
                         const vtb_places *places) {
  for (const vtb_inst *i = f->first; i; i = i->next) {
    const vtb_inst *concat = as_concat(i);
    if (!concat) continue;
    int axis = (int)vtb_attr_int(concat, "axis", 0), n = i->n_operands;
    const vtb_value **parts = vtb_xcalloc((size_t)n + 1, sizeof *parts);
    vtb_slot *slots = vtb_xcalloc((size_t)n + 1, sizeof *slots);
    bool all = true;
    int64_t start = 0;
    for (int o = 0; o < n && all; o++) {
      parts[o] = part_of(i, o, axis, start, return_of, places, &slots[o]);
      all = parts[o] && frame->slots[parts[o]->id].base == NULL;
      for (int k = 0; k < o; k++) all &= parts[k] != parts[o];
      start += i->operands[o]->type.dim[axis].size;
    }
    for (int o = 0; o < n && all; o++) frame->slots[parts[o]->id] = slots[o];
    frame->slots[i->results[0]->id].in_place = all;
    vtb_free(parts);
    vtb_free(slots);
  }
}

/* All that reads the image `v` [B, C, grid...] turns it so that channels are last. */
static bool is_read_by_channels(const vtb_func *f, const vtb_value *v) {
  bool any = false;
  for (const vtb_inst *i = f->first; i; i = i->next)
    for (int o = 0; o < i->n_operands; o++) {
      int n;
      if (i->operands[o] != v) continue;
      if (i->op != VTB_OP_transpose) return false;
      const int64_t *perm = vtb_attr_ints(i, "perm", &n);
      for (int a = 1; a + 1 < n; a++)
        if (perm[a] != a + 1) return false;
      any = perm[0] == 0 && perm[n - 1] == 1;
      if (!any) return false;
    }
  return any;
}

/* Strides of a value that has a place of its own in the workspace. */
static void stored_strides(const vtb_func *f, const vtb_value *v, const vtb_places *places,
                           int64_t *stride) {
  const vtb_type *t = &v->type;
  row_major(t, stride);
  if (v->def->op != VTB_OP_col2im || !places || !places->channels_last ||
      !is_read_by_channels(f, v))
    return;
  for (int a = 2; a < t->rank; a++) stride[a] *= t->dim[1].size;
  stride[1] = 1;
}

/* Small values keep their places: a training step's small kernels run later than they
 * stand (codegen/cuda/plan/jobs.c), if nothing takes the place of what they read. */
static bool keeps_small(const vtb_func *entry, const vtb_places *places) {
  for (const vtb_inst *i = entry->last; i && places && places->small_bytes; i = i->prev)
    if (i->op == VTB_OP_update) return true;
  return false;
}

/* By value id: what is not prepared reads it, a view of it, or what it is a part of. */
static bool *find_outliving(const vtb_func *f, const vtb_frame *frame) {
  bool *needed = vtb_xcalloc((size_t)f->n_values + 1, sizeof *needed);
  for (const vtb_inst *i = f->last; i; i = i->prev) {
    bool reads = !vtb_attr_int(i, "prepared", 0);
    for (int r = 0; r < i->n_results; r++)
      reads |= needed[i->results[r]->id] && vtb_op_get(i->op)->klass == VTB_CLASS_SHAPE;
    for (int o = 0; o < i->n_operands && reads; o++) {
      const vtb_value *part_of = frame->slots[i->operands[o]->id].base;
      needed[i->operands[o]->id] = true;
      if (part_of) needed[part_of->id] = true;
    }
  }
  return needed;
}

static void plan_func(vtb_func *f, const vtb_places *places, int64_t small, vtb_frame *frame) {
  int n_insts = vtb_func_number(f), n_live = 0, n_constants = 0;
  frame->slots = vtb_xcalloc((size_t)f->n_values + 1, sizeof *frame->slots);
  live *lives = vtb_xcalloc((size_t)f->n_values + 1, sizeof *lives);
  int *live_of = vtb_xmalloc(((size_t)f->n_values + 1) * sizeof *live_of);
  int *return_of = vtb_xmalloc(((size_t)f->n_values + 1) * sizeof *return_of);
  for (int v = 0; v < f->n_values; v++) live_of[v] = return_of[v] = -1;
  for (int r = f->n_returns - 1; r >= 0; r--) return_of[f->returns[r]->id] = r;
  int *uses = vtb_count_uses(f);
  return_through_reshapes(f, uses, return_of);
  plan_concats(f, frame, return_of, places);
  bool keeps = places && places->kept, *outlives = keeps ? find_outliving(f, frame) : NULL;
  for (int a = 0; a < f->n_args; a++) {
    vtb_slot *s = &frame->slots[f->args[a]->id];
    *s = (vtb_slot){.place = VTB_PLACE_ARG, .index = a, .bytes = vtb_type_bytes(&f->args[a]->type)};
    row_major(&f->args[a]->type, s->stride);
  }
  for (vtb_inst *i = f->first; i; i = i->next) {
    for (int r = 0; r < i->n_results; r++) {
      vtb_value *v = i->results[r];
      vtb_slot *s = &frame->slots[v->id];
      if (s->base) { /* part of a concatenation, whose place is taken with its first part */
        v = (vtb_value *)s->base;
        s = &frame->slots[v->id];
      }
      if (s->bytes) {
        use(lives, live_of, frame, v, i->order);
        continue;
      }
      bool sum = i->op == VTB_OP_sum_ranks, copied = sum && !summed_in_place(i, uses);
      if ((i->n_operands == 1 || sum) && return_of[v->id] < 0 && !copied &&
          make_view(i, &frame->slots[i->operands[0]->id], s))
        continue;
      *s = (vtb_slot){.bytes = round_up(vtb_type_bytes(&v->type)), .in_place = s->in_place};
      row_major(&v->type, s->stride);
      if (i->op == VTB_OP_constant) {
        s->place = VTB_PLACE_CONSTANT;
        s->index = n_constants++;
      } else if (return_of[v->id] >= 0) {
        s->place = VTB_PLACE_RETURN;
        s->index = return_of[v->id];
      } else if (keeps && vtb_attr_int(i, "prepared", 0) && outlives[v->id]) {
        s->place = VTB_PLACE_KEPT;
        s->offset = frame->kept_bytes;
        frame->kept_bytes += s->bytes;
      } else {
        s->place = VTB_PLACE_WORKSPACE;
        stored_strides(f, v, places, s->stride);
        /* to the next run */
        bool stays = vtb_attr_int(i, "prepared", 0) && !keeps;
        int to = stays || s->bytes <= small ? n_insts : i->order;
        live_of[v->id] = n_live;
        lives[n_live++] = (live){v->id, i->order, to, s->bytes, 0};
      }
    }
    for (int o = 0; o < i->n_operands; o++) use(lives, live_of, frame, i->operands[o], i->order);
  }
  for (int r = 0; r < f->n_returns; r++) use(lives, live_of, frame, f->returns[r], n_insts);

  qsort(lives, (size_t)n_live, sizeof *lives, by_size);
  live **scratch = vtb_xcalloc((size_t)n_live + 1, sizeof(live *));
  for (int k = 0; k < n_live; k++) {
    assert(k == 0 || lives[k].bytes <= lives[k - 1].bytes); /* the largest first */
    lives[k].offset = place(&lives[k], lives, k, scratch);
    frame->slots[lives[k].value].offset = lives[k].offset;
    if (lives[k].offset + lives[k].bytes > frame->bytes)
      frame->bytes = lives[k].offset + lives[k].bytes;
  }
  vtb_free(scratch);
  vtb_free(outlives);
  vtb_free(uses);
  vtb_free(lives);
  vtb_free(live_of);
  vtb_free(return_of);
}

const vtb_frame *vtb_plan_frame(const vtb_plan *p, const vtb_func *f) {
  for (size_t i = 0; i < p->n_funcs; i++)
    if (p->funcs[i] == f) return &p->frames[i];
  return NULL;
}

vtb_status vtb_plan_memory(vtb_module *m, vtb_func *entry, const vtb_places *places, vtb_plan *plan,
                           vtb_error *err) {
  (void)m;
  *plan = (vtb_plan){0};
  vtb_func **order;
  size_t n = vtb_module_post_order(entry, &order);
  for (size_t i = 0; i < n; i++)
    if (order[i]->kind == VTB_FUNC_PLAIN) order[plan->n_funcs++] = order[i];
  plan->funcs = order;
  plan->frames = vtb_xcalloc(plan->n_funcs, sizeof *plan->frames);
  for (size_t i = 0; i < plan->n_funcs; i++) {
    vtb_func *f = plan->funcs[i];
    for (vtb_inst *k = f->first; k; k = k->next)
      for (int r = 0; r < k->n_results; r++)
        if (vtb_type_is_dynamic(&k->results[r]->type)) {
          vtb_plan_free(plan);
          return vtb_fail(err, VTB_E_INTERNAL,
                          "memory planning needs a bound batch; @%s is symbolic", f->name);
        }
    plan_func(f, places, keeps_small(entry, places) ? places->small_bytes : 0, &plan->frames[i]);
    int64_t deepest = 0;
    for (vtb_inst *k = f->first; k; k = k->next) {
      const vtb_frame *callee =
          k->op == VTB_OP_call || k->op == VTB_OP_fold ? vtb_plan_frame(plan, k->callee) : NULL;
      if (callee && callee->total_bytes > deepest) deepest = callee->total_bytes;
    }
    plan->frames[i].total_bytes = plan->frames[i].bytes + deepest;
  }
  plan->peak_bytes = vtb_plan_frame(plan, entry)->total_bytes;
  plan->kept_bytes = vtb_plan_frame(plan, entry)->kept_bytes;
  vtb_status status = vtb_checks() ? vtb_plan_check(plan, entry, places, err) : VTB_OK;
  if (status != VTB_OK) vtb_plan_free(plan);
  return status;
}

void vtb_plan_free(vtb_plan *p) {
  for (size_t i = 0; i < p->n_funcs; i++) vtb_free(p->frames[i].slots);
  vtb_free(p->frames);
  vtb_free(p->funcs);
  *p = (vtb_plan){0};
}

void vtb_plan_print(const vtb_plan *p, vtb_strbuf *out) {
  static const char *const place_names[] = {"argument", "return",   "workspace", "kept",
                                            "view",     "constant", "none"};
  for (size_t i = p->n_funcs; i-- > 0;) {
    const vtb_func *f = p->funcs[i];
    const vtb_frame *frame = &p->frames[i];
    vtb_strbuf_printf(out, "func @%s: frame %.1f KiB, with callees %.1f KiB\n", f->name,
                      (double)frame->bytes / 1024, (double)frame->total_bytes / 1024);
    for (const vtb_inst *k = f->first; k; k = k->next) {
      for (int r = 0; r < k->n_results; r++) {
        const vtb_slot *s = &frame->slots[k->results[r]->id];
        vtb_strbuf_printf(out, "  %%%-24s %-9s ", k->results[r]->name, place_names[s->place]);
        if (s->place == VTB_PLACE_WORKSPACE || s->place == VTB_PLACE_KEPT)
          vtb_strbuf_printf(out, "at %9lld, %9lld bytes", (long long)s->offset,
                            (long long)s->bytes);
        else if (s->place == VTB_PLACE_VIEW)
          vtb_strbuf_printf(out, "of %%%s + %lld", s->base->name, (long long)s->view_offset);
        else
          vtb_strbuf_printf(out, "%d", s->index);
        vtb_strbuf_puts(out, "  ");
        vtb_type_print(&k->results[r]->type, out);
        vtb_strbuf_putc(out, '\n');
      }
    }
  }
  vtb_strbuf_printf(out, "peak workspace: %.2f MiB\n", (double)p->peak_bytes / (1024.0 * 1024.0));
  if (p->kept_bytes)
    vtb_strbuf_printf(out, "kept between runs: %.2f MiB\n",
                      (double)p->kept_bytes / (1024.0 * 1024.0));
}
