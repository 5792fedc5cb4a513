/* Builtins on values that are known when compiling: lists, sizes, paths, chunks, numbers; what
 * rounds and clamps takes tensors, too. */
#include "frontend/lang/builtin.h"
#include "ir/ops.h"

#include <fnmatch.h>
#include <math.h>

vtb__val vtb__b_len(vtb__eval *e, const vtb__args *a) {
  vtb__val v = vtb__arg(a, "list");
  if (v.kind == VTB__ERROR) return v;
  if (v.kind != VTB__LIST && v.kind != VTB__TUPLE)
    return vtb__report(e, VTB_DIAG_TYPE_MISMATCH, a->span, "len takes a list, not %s",
                       vtb__describe(e, v)),
           vtb__hint_call(e, "len"), VTB__ERR;
  return vtb__int((int64_t)v.u.list.n);
}

vtb__val vtb__b_matches(vtb__eval *e, const vtb__args *a) {
  vtb__val text = vtb__arg(a, "text"), pattern = vtb__arg(a, "pattern");
  (void)e;
  return vtb__bool(fnmatch(pattern.u.str.s, text.u.str.s, 0) == 0);
}

/* total(x): the part of the tensor is a result, the sum over all of them an argument. */
vtb__val vtb__b_total(vtb__eval *e, const vtb__args *a) {
  const vtb__argument *v = vtb__arg_of(a, "x");
  vtb_func *f = e->frame->func;
  if (f->kind != VTB_FUNC_RULE)
    return vtb__report(e, VTB_DIAG_MISPLACED, a->span, "total(x) belongs to optimizers");
  vtb_value *x = vtb__as_tensor(e, v->value, v->span);
  vtb_builder *b = x ? vtb__at(e, a->span) : NULL;
  if (!b) return VTB__ERR;
  int64_t axes[VTB_MAX_RANK];
  for (int i = 0; i < x->type.rank; i++) axes[i] = i;
  if (!x->type.rank)
    return vtb__report(e, VTB_DIAG_WRONG_RANK, v->span,
                       "total(x) sums over the elements of all tensors, and this is one number");
  const char *name = vtb_arena_printf(&e->arena, "total.%zu", e->frame->outputs.n);
  vtb_value *part = vtb_b_reduce(b, VTB_OP_reduce_sum, x, axes, x->type.rank, false);
  if (!part) return VTB__ERR;
  vtb_vec_push(&e->frame->outputs, ((vtb__output){name, part, a->span, NULL}));
  vtb_value *all = vtb_func_add_arg(f, name, vtb_type_scalar());
  f->arg_info[all->index] = (vtb_arg_info){
      .role = VTB_ROLE_PLAIN, .official = vtb_intern(e->module, name), .span = a->span};
  return vtb__tensor(all, NULL);
}

/* size(w), size(h, w), size(t, h, w) */
vtb__val vtb__b_size(vtb__eval *e, const vtb__args *a) {
  int64_t side[VTB_GRID_AXES] = {0};
  bool inside = true;
  for (size_t k = 0; k < a->n; k++) {
    side[k] = a->at[k].value.u.i;
    inside &= side[k] >= 0 && side[k] < VTB__MAX_SIZE;
  }
  vtb_grid g = vtb_grid_of((int)a->n, side);
  if (!inside)
    return vtb__report(e, VTB_DIAG_BAD_SIZE, a->span, "size %s is out of range",
                       vtb__grid_text(e, &g));
  return (vtb__val){.kind = VTB__SIZE, .u.size = g};
}

static bool is_permutation(const int64_t *list, int64_t n) {
  bool *seen = vtb_xcalloc((size_t)n + 1, sizeof *seen), ok = true;
  for (int64_t i = 0; i < n && ok; i++) {
    ok = list[i] >= 0 && list[i] < n && !seen[list[i]];
    if (ok) seen[list[i]] = true;
  }
  vtb_free(seen);
  return ok;
}

vtb__val vtb__b_path(vtb__eval *e, const vtb__args *a) {
  vtb__val v = vtb__arg(a, "list");
  vtb__path nest = {0};
  if (v.kind == VTB__ERROR || v.kind == VTB__PATH) return v;
  if (v.kind == VTB__STRING && *v.u.str.s && vtb_path_nest(&nest.order, v.u.str.s))
    return vtb__path_val(e, nest);
  if (v.kind != VTB__LIST || !v.u.list.n)
    return vtb__report(e, VTB_DIAG_BAD_PATH, a->span,
                       "path takes a list of token indices, by = a key of t, h and w, or the axes "
                       "from outside in, as in \"hwt\", not %s",
                       vtb__describe(e, v));
  int64_t n = (int64_t)v.u.list.n, *list = VTB_NEW_ARRAY(&e->arena, int64_t, n);
  for (int64_t i = 0; i < n; i++) {
    if (v.u.list.at[i].kind != VTB__INT)
      return vtb__report(e, VTB_DIAG_BAD_PATH, a->span, "path takes a list of ints");
    list[i] = v.u.list.at[i].u.i;
  }
  if (!is_permutation(list, n))
    return vtb__report(e, VTB_DIAG_BAD_PERMUTATION, a->span,
                       "the list does not name each of its %lld tokens once", (long long)n);
  return vtb__path_val(e, (vtb__path){{.order = VTB_PATH_LIST, .list = list, .n = n}, NULL, NULL});
}

vtb__val vtb__b_chunkwise(vtb__eval *e, const vtb__args *a) {
  int64_t n = vtb__arg(a, "chunk").u.i;
  if (n < 1 || n > (1 << 24)) {
    vtb__report(e, VTB_DIAG_BAD_CHUNK, a->span, "a chunk of %lld tokens", (long long)n);
    vtb__chunk_help(e);
    return VTB__ERR;
  }
  return (vtb__val){.kind = VTB__MODE, .u.mode = {"chunkwise", n}};
}

vtb__val vtb__b_ceil(vtb__eval *e, const vtb__args *a) {
  vtb__val v = vtb__arg(a, "x");
  if (v.kind == VTB__INT || v.kind == VTB__ERROR) return v;
  if (v.kind == VTB__TENSOR) {
    v = vtb__elementwise(e, VTB_OP_neg, &v, 1, a->span);
    if (v.kind == VTB__TENSOR) v = vtb__elementwise(e, VTB_OP_floor, &v, 1, a->span);
    return v.kind == VTB__TENSOR ? vtb__elementwise(e, VTB_OP_neg, &v, 1, a->span) : v;
  }
  if (v.kind != VTB__FLOAT)
    return vtb__report(e, VTB_DIAG_TYPE_MISMATCH, a->span, "%s takes a tensor or a number, not %s",
                       a->name, vtb__describe(e, v));
  double d = ceil(v.u.f);
  if (!(fabs(d) < 9e18))
    return vtb__report(e, VTB_DIAG_INTEGER_OVERFLOW, a->span,
                       "the result does not fit into 64 bits");
  return vtb__int((int64_t)d);
}

/* clamp(x, low, high): of numbers a number; either bound may be left out. */
static vtb__val bounded(vtb__eval *e, vtb_op op, vtb__val x, vtb__val bound, vtb_span span) {
  if (bound.kind == VTB__NONE || x.kind == VTB__ERROR) return x;
  if (!vtb__is_number(x) || !vtb__is_number(bound)) return vtb__elementwise2(e, op, x, bound, span);
  bool above = vtb__val_number(x) > vtb__val_number(bound);
  return above == (op == VTB_OP_max) ? x : bound;
}

vtb__val vtb__b_clamp(vtb__eval *e, const vtb__args *a) {
  vtb__val x = vtb__arg(a, "x"), low = vtb__arg(a, "low"), high = vtb__arg(a, "high");
  if (!vtb__arg_of(a, "low")->given && !vtb__arg_of(a, "high")->given)
    return vtb__report(e, VTB_DIAG_MISSING_ARGUMENT, a->span, "clamp needs 'low' or 'high'");
  return bounded(e, VTB_OP_min, bounded(e, VTB_OP_max, x, low, a->span), high, a->span);
}

/* float(x): as a float; of the batch how many samples it has. int(x): the next integer towards 0;
 * of tensors a number as others are. */
vtb__val vtb__b_float(vtb__eval *e, const vtb__args *a) {
  vtb__val v = vtb__arg(a, "x");
  bool whole = strcmp(a->name, "int") == 0;
  if (v.kind == VTB__ERROR) return v;
  int64_t batches = vtb__batches_meant(v);
  vtb__val samples = batches && e->batch == VTB_DYN ? vtb__tensor(vtb__n_samples(e, a->span), NULL)
                                                    : vtb__float((double)e->batch);
  if (batches)
    return batches == 1 ? samples
                        : vtb__binary(e, VTB_BIN_MUL, samples, vtb__int(batches), a->span);
  if (v.kind == VTB__TENSOR) {
    vtb_builder *b = vtb__at(e, a->span);
    vtb_value *y = v.u.t.v;
    if (whole && y->type.dtype != VTB_I32) y = vtb_b_cast(b, y, VTB_I32);
    if (y && y->type.dtype != VTB_F32) y = vtb_b_cast(b, y, VTB_F32);
    return vtb__tensor(y, v.u.t.layout);
  }
  if (!vtb__is_number(v))
    return vtb__report(e, VTB_DIAG_TYPE_MISMATCH, a->span, "%s takes a number or a tensor, not %s",
                       a->name, vtb__describe(e, v));
  double d = trunc(vtb__val_number(v));
  if (!whole) return vtb__float(vtb__val_number(v));
  if (v.kind == VTB__INT) return v;
  if (!(fabs(d) < 9e18))
    return vtb__report(e, VTB_DIAG_INTEGER_OVERFLOW, a->span,
                       "the result does not fit into 64 bits");
  return vtb__int((int64_t)d);
}
