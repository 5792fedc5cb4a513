/* Builtins on tensors of any layout: elementwise functions, reductions, products, and moving
 * axes. */
#include "frontend/lang/builtin.h"
#include "ir/ops.h"

/* ---- elementwise; the rows of ir/scalar_ops.def are in builtin_scalar.c ---------------------- */

vtb__val vtb__b_select(vtb__eval *e, const vtb__args *a) {
  vtb__val c = vtb__arg(a, "test"), x = vtb__arg(a, "yes"), y = vtb__arg(a, "no");
  vtb_value *vx = vtb__as_tensor(e, x, a->span), *vy = vtb__as_tensor(e, y, a->span);
  if (!vx || !vy) return VTB__ERR;
  if (vx->type.dtype != vy->type.dtype) { /* labels and other numbers */
    if (vx->type.dtype == VTB_I32) vx = vtb_b_cast(vtb__at(e, a->span), vx, VTB_F32);
    if (vy->type.dtype == VTB_I32) vy = vtb_b_cast(vtb__at(e, a->span), vy, VTB_F32);
  }
  return vtb__elementwise(e, VTB_OP_select, (vtb__val[]){c, x, y}, 3, a->span);
}

/* ---- reductions ------------------------------------------------------------------------------ */

/* A sum over the batch divided by how many samples it has, which is known when the batch is. */
static vtb__val over_batch(vtb__eval *e, vtb_value *x, int64_t axis, bool keep, vtb__val sum,
                           vtb_span span) {
  vtb_type ones = {.dtype = VTB_F32, .rank = x->type.rank};
  for (int i = 0; i < ones.rank; i++) ones.dim[i] = i == axis ? x->type.dim[i] : (vtb_dim){1, NULL};
  vtb_value *one = vtb_b_splat(vtb__at(e, span), 1, &ones),
            *count = vtb_b_reduce(vtb__at(e, span), VTB_OP_reduce_sum, one, &axis, 1, keep);
  return vtb__elementwise2(e, VTB_OP_div, sum, vtb__tensor(count, NULL), span);
}

static bool of_rule(const vtb__eval *e) {
  return e->frame && e->frame->func->kind == VTB_FUNC_RULE;
}

/* Words for several axes: all, which is meant in optimizers, too; those of a sample, giving [B];
 * its places, giving [B, C]. */
typedef enum several { ALL, SAMPLE, PLACES, ONE } several;

static several axes_of(const vtb__eval *e, const vtb__args *a, const vtb_type *t) {
  const char *word = vtb__arg(a, "axis").u.str.s;
  bool batch = t->rank && vtb__batches_of(e, t->dim[0]);
  if (vtb_streq(word, "all") || (!word && t->rank > 1 && of_rule(e))) return ALL;
  if (batch && vtb_streq(word, "sample")) return SAMPLE;
  return batch && vtb_streq(word, "places") ? PLACES : ONE;
}

static vtb__val over_several(vtb__eval *e, const vtb__args *a, vtb__val of, several which) {
  int64_t axes[VTB_MAX_RANK];
  vtb_value *x = of.u.t.v;
  bool image = of.u.t.layout->kind == VTB__IMAGE; /* its channels come first */
  int first = which == ALL ? 0 : which == PLACES && image ? 2 : 1;
  double count = 1;
  int n = 0, pairs = 0;
  for (int i = first; i < x->type.rank - (which == PLACES && !image); i++) {
    axes[n++] = i;
    pairs += vtb_is_batch(x->type.dim[i].size);
    count *= (double)vtb_bound_size(x->type.dim[i].size, 1);
  }
  vtb_op op = strcmp(a->name, "amax") == 0 ? VTB_OP_reduce_max : VTB_OP_reduce_sum;
  if (n) x = vtb_b_reduce(vtb__at(e, a->span), op, x, axes, n, false);
  vtb__val y = vtb__tensor(x, NULL);
  if (strcmp(a->name, "mean") != 0 || y.kind == VTB__ERROR) return y;
  for (; pairs > 0 && y.kind == VTB__TENSOR; pairs--)
    y = vtb__elementwise2(e, VTB_OP_div, y, vtb__tensor(vtb__n_samples(e, a->span), NULL), a->span);
  if (count == 1 || y.kind == VTB__ERROR) return y;
  return vtb__elementwise2(e, VTB_OP_mul, y, vtb__float(1 / count), a->span);
}

vtb__val vtb__b_reduce(vtb__eval *e, const vtb__args *a) {
  vtb__val x = vtb__arg(a, "x");
  vtb__axis w;
  several which = axes_of(e, a, &x.u.t.v->type);
  if (which != ONE && !(e->frame && e->frame->step)) return over_several(e, a, x, which);
  if (!vtb__take_axis(e, a, x, &w)) return VTB__ERR;
  vtb_value *v = w.x.u.t.v;
  bool whole = e->frame->step || (of_rule(e) && v->type.rank == 1);
  bool keep = !w.tokens && !whole, is_max = strcmp(a->name, "amax") == 0;
  vtb_value *r = vtb_b_reduce(vtb__at(e, a->span), is_max ? VTB_OP_reduce_max : VTB_OP_reduce_sum,
                              v, &w.axis, 1, keep);
  vtb__val y = vtb__tensor(r, vtb__reduced_layout(&w));
  if (y.kind == VTB__TENSOR && strcmp(a->name, "mean") == 0) {
    int64_t n = v->type.dim[w.axis].size;
    y = vtb_is_batch(n) ? over_batch(e, v, w.axis, keep, y, a->span)
                        : vtb__elementwise2(e, VTB_OP_mul, y, vtb__float(1.0 / (double)n), a->span);
  }
  return w.opened && y.kind == VTB__TENSOR ? vtb__along_axis(e, &w, y.u.t.v) : y;
}

/* ---- products -------------------------------------------------------------------------------- */

static vtb__val matmul_mismatch(vtb__eval *e, vtb__val x, vtb__val w, vtb_span span) {
  const vtb_type *tx = &x.u.t.v->type, *tw = &w.u.t.v->type;
  long long in = tx->dim[tx->rank - 1].size;
  vtb__report(e, VTB_DIAG_MATMUL_AXIS, span,
              "the last axis of %s does not fit the weight %s, which is [out, in]",
              vtb__describe(e, x), vtb__type_string(e, tw));
  if (e->stopped) return VTB__ERR;
  if (tw->dim[0].size == in && w.u.t.v->def)
    vtb__help(e,
              "matmul(x, w) is x times w transposed; einsum(\"ij,jk->ik\", x, w) is x times w as "
              "it stands");
  else if (tw->dim[0].size == in)
    vtb_diag_help(e->diags,
                  "it stands as [in, out]: declare it [%lld, %lld], or transpose(w, [1, 0])",
                  (long long)tw->dim[1].size, in);
  else
    vtb_diag_help(e->diags, "a weight [%lld, %lld] would fit", (long long)tw->dim[0].size, in);
  return VTB__ERR;
}

vtb__val vtb__b_matmul(vtb__eval *e, const vtb__args *a) {
  vtb__val x = vtb__arg(a, "x"), w = vtb__arg(a, "w");
  vtb_value *vx = x.u.t.v, *vw = w.u.t.v;
  if (!vtb__channels_last(e, a, x)) return VTB__ERR;
  if (vtb__is_param(e, vw)) vtb__warn_windows(e, a->span, x, "this weight mixes them");
  int r = vx->type.rank;
  if (vw->type.rank != 2 || r < 1 || r > VTB_MAX_RANK)
    return vtb__report(e, VTB_DIAG_WRONG_RANK, a->span,
                       "matmul takes x (..., in) and w (out, in), not %s and %s",
                       vtb__describe(e, x), vtb__describe(e, w)),
           vtb__hint_call(e, "matmul"), VTB__ERR;
  if (vx->type.dim[r - 1].size != vw->type.dim[1].size) return matmul_mismatch(e, x, w, a->span);
  char spec[2 * VTB_MAX_RANK + 16], in[VTB_MAX_RANK + 1];
  vtb__axis_letters(&vx->type, r, "", in);
  char to = vtb__axis_letter("embedding", in);
  snprintf(spec, sizeof spec, "%s,%c%c->%.*s%c", in, to, in[r - 1], r - 1, in, to);
  vtb_value *y = vtb_b_einsum(vtb__at(e, a->span), spec, vx, vw);
  if (y && !y->type.dim[r - 1].name) y->type.dim[r - 1].name = vx->type.dim[r - 1].name;
  return vtb__tensor(y, x.u.t.layout);
}

/* One operand or result of a specification: "..." becomes `lead` letters that the specification
 * does not use. */
static bool expand(const char *part, size_t n, int lead, const char *fresh, char *out, size_t size,
                   bool *dots) {
  size_t at = 0;
  *dots = false;
  for (size_t i = 0; i < n; i++) {
    if (part[i] == ' ') continue;
    if (part[i] == '.') {
      if (*dots || i + 3 > n || strncmp(part + i, "...", 3) != 0) return false;
      *dots = true;
      i += 2;
      for (int k = 0; k < lead && at + 1 < size; k++) out[at++] = fresh[k];
      continue;
    }
    if (part[i] < 'a' || part[i] > 'z' || at + 1 >= size) return false;
    out[at++] = part[i];
  }
  out[at] = '\0';
  return true;
}

static int letters(const char *part, size_t n) {
  int count = 0;
  for (size_t i = 0; i < n; i++) count += part[i] >= 'a' && part[i] <= 'z';
  return count;
}

static int distinct_letters(const char *spec, char out[27]) {
  int n = 0;
  for (char c = 'a'; c <= 'z'; c++)
    if (strchr(spec, c)) out[n++] = c;
  out[n] = 0;
  return n;
}

static vtb__val bad_spec(vtb__eval *e, const vtb__args *a, const char *spec) {
  return vtb__report(e, VTB_DIAG_EINSUM_SPEC, a->span,
                     "\"%s\" does not describe a product of two operands", spec);
}

vtb__val vtb__b_einsum(vtb__eval *e, const vtb__args *a) {
  vtb__val x = vtb__arg(a, "x"), y = vtb__arg(a, "y");
  vtb_value *vx = x.u.t.v, *vy = y.u.t.v;
  const char *spec = vtb__arg(a, "spec").u.str.s, *comma = strchr(spec, ','),
             *arrow = strstr(spec, "->");
  if (!comma || !arrow || comma > arrow) return bad_spec(e, a, spec);
  size_t n1 = (size_t)(comma - spec), n2 = (size_t)(arrow - comma - 1), n3 = strlen(arrow + 2);
  char fresh[VTB_MAX_RANK + 1], in1[40], in2[40], out[40];
  int l1 = vx->type.rank - letters(spec, n1), l2 = vy->type.rank - letters(comma + 1, n2);
  bool d1, d2, d3;
  char used[27];
  if (l1 < 0 || l2 < 0 || distinct_letters(spec, used) > 26 - VTB_MAX_RANK)
    return bad_spec(e, a, spec);
  int lead = l1 > l2 ? l1 : l2;
  vtb__axis_letters(l1 > l2 ? &vx->type : &vy->type, lead, used, fresh);
  if (!expand(spec, n1, l1, fresh + (lead - l1), in1, sizeof in1, &d1) ||
      !expand(comma + 1, n2, l2, fresh + (lead - l2), in2, sizeof in2, &d2))
    return bad_spec(e, a, spec);
  lead = d1 && d2 ? lead : d1 ? l1 : d2 ? l2 : 0;
  if (!d1) l1 = 0;
  if (!expand(arrow + 2, n3, lead, fresh + ((l1 > l2 ? l1 : l2) - lead), out, sizeof out, &d3) ||
      (d3 && !d1 && !d2))
    return bad_spec(e, a, spec);
  if ((int)strlen(in1) != vx->type.rank || (int)strlen(in2) != vy->type.rank)
    return vtb__report(e, VTB_DIAG_EINSUM_SPEC, a->span, "\"%s\" does not fit %s and %s", spec,
                       vtb__describe(e, x), vtb__describe(e, y)),
           vtb__hint_call(e, "einsum"), VTB__ERR;
  const char *full = vtb_arena_printf(&e->arena, "%s,%s->%s", in1, in2, out);
  vtb_value *r = vtb_b_einsum(vtb__at(e, a->span), full, vx, vy);
  /* Tokens stay tokens when the batch and token axes lead the operand and the result. */
  bool x_tokens = x.u.t.layout->kind == VTB__TOKENS && strncmp(in1, out, 2) == 0 &&
                  strlen(in1) >= 2 && strlen(out) >= 2;
  bool y_tokens = y.u.t.layout->kind == VTB__TOKENS && strncmp(in2, out, 2) == 0 &&
                  strlen(in2) >= 2 && strlen(out) >= 2;
  if (x_tokens && y_tokens && !vtb__layout_merge(e, x, y, a->span)) return VTB__ERR;
  return vtb__tensor(r, x_tokens ? x.u.t.layout : y_tokens ? y.u.t.layout : NULL);
}

/* ---- axes ------------------------------------------------------------------------------------ */

vtb__val vtb__b_group(vtb__eval *e, const vtb__args *a) {
  vtb__val x = vtb__arg(a, "x");
  vtb_value *v = x.u.t.v;
  int64_t n = vtb__arg(a, "groups").u.i;
  if (!vtb__channels_last(e, a, x)) return VTB__ERR;
  int r = v->type.rank;
  if (r < 1) return vtb__report(e, VTB_DIAG_WRONG_RANK, a->span, "group of a scalar");
  if (r == VTB_MAX_RANK)
    return vtb__report(e, VTB_DIAG_TOO_MANY_AXES, a->span, "%s has no room for another axis",
                       vtb__describe(e, x));
  if (n < 1 || v->type.dim[r - 1].size % n)
    return vtb__report(e, VTB_DIAG_NOT_DIVISIBLE, a->span,
                       "%lld groups do not divide the last axis of %s", (long long)n,
                       vtb__describe(e, x));
  vtb_type t = v->type;
  t.rank = r + 1;
  t.dim[r] = (vtb_dim){t.dim[r - 1].size / n, t.dim[r - 1].name};
  t.dim[r - 1] = (vtb_dim){n, "heads"};
  return vtb__tensor(vtb_b_reshape(vtb__at(e, a->span), v, &t), x.u.t.layout);
}

vtb__val vtb__b_ungroup(vtb__eval *e, const vtb__args *a) {
  vtb__val x = vtb__arg(a, "x");
  vtb_value *v = x.u.t.v;
  int r = v->type.rank;
  bool batch = r > 1 && (vtb_is_batch(v->type.dim[r - 2].size) ||
                         (vtb_is_batch(v->type.dim[r - 1].size) && v->type.dim[r - 2].size != 1));
  if (r < 2 || batch || (r == 3 && x.u.t.layout->kind == VTB__TOKENS))
    return vtb__report(e, VTB_DIAG_WRONG_RANK, a->span,
                       "ungroup joins the last two axes, and %s has none to spare",
                       vtb__describe(e, x));
  vtb_type t = v->type;
  t.rank = r - 1;
  t.dim[r - 2] = (vtb_dim){t.dim[r - 2].size * t.dim[r - 1].size, "C"};
  const vtb__layout *l = x.u.t.layout->kind == VTB__IMAGE ? NULL : x.u.t.layout;
  return vtb__tensor(vtb_b_reshape(vtb__at(e, a->span), v, &t), l);
}

vtb__val vtb__b_reshape(vtb__eval *e, const vtb__args *a) {
  vtb__val x = vtb__arg(a, "x");
  vtb_value *v = x.u.t.v;
  vtb__val shape = vtb__arg(a, "shape");
  if (shape.kind != VTB__LIST || shape.u.list.n > VTB_MAX_RANK)
    return vtb__report(e, VTB_DIAG_TYPE_MISMATCH, a->span,
                       "a shape is a list of at most %d ints, not %s", VTB_MAX_RANK,
                       vtb__describe(e, shape));
  if (vtb_type_is_dynamic(&v->type))
    return vtb__report(e, VTB_DIAG_RESHAPE_COUNT, a->span,
                       "%s holds the batch and keeps its axes; use group and ungroup",
                       vtb__describe(e, x));
  vtb_type t = {.dtype = v->type.dtype, .rank = (int)shape.u.list.n};
  double count = 1;
  for (int i = 0; i < t.rank; i++) {
    vtb__val d = shape.u.list.at[i];
    if (d.kind != VTB__INT || d.u.i < 1 || d.u.i >= VTB__MAX_SIZE)
      return vtb__report(e, VTB_DIAG_BAD_DIMENSION, a->span, "axis %d is %s", i,
                         vtb__describe(e, d));
    t.dim[i].size = d.u.i;
    count *= (double)d.u.i;
  }
  if (count != (double)vtb_type_count(&v->type))
    return vtb__report(e, VTB_DIAG_RESHAPE_COUNT, a->span, "%s cannot become %s",
                       vtb__describe(e, x), vtb__type_string(e, &t));
  return vtb__tensor(vtb_b_reshape(vtb__at(e, a->span), v, &t), NULL);
}

/* Weights of a convolution [D, C, kh, kw] as a matrix [D, C*kh*kw]. */
vtb__val vtb__b_flatten(vtb__eval *e, const vtb__args *a) {
  vtb__val x = vtb__arg(a, "w");
  vtb_value *v = x.u.t.v;
  if (v->type.rank < 2 || x.u.t.layout->kind == VTB__TOKENS || vtb_type_is_dynamic(&v->type))
    return vtb__report(e, VTB_DIAG_WRONG_RANK, a->span,
                       "flatten takes a weight of two or more axes, not %s", vtb__describe(e, x)),
           vtb__hint_call(e, "flatten"), VTB__ERR;
  vtb_type t = {.dtype = v->type.dtype,
                .rank = 2,
                .dim = {v->type.dim[0], {vtb_type_count(&v->type) / v->type.dim[0].size, NULL}}};
  return vtb__tensor(vtb_b_reshape(vtb__at(e, a->span), v, &t), NULL);
}

vtb__val vtb__b_transpose(vtb__eval *e, const vtb__args *a) {
  vtb__val x = vtb__arg(a, "x");
  vtb_value *v = x.u.t.v;
  vtb__val order = vtb__arg(a, "axes");
  int64_t perm[VTB_MAX_RANK];
  unsigned seen = 0;
  if (order.kind == VTB__NONE && v->type.rank == 2) /* the other way round */
    return vtb__tensor(vtb_b_transpose(vtb__at(e, a->span), v, (int64_t[]){1, 0}), NULL);
  bool ok = order.kind == VTB__LIST && (int)order.u.list.n == v->type.rank;
  for (int i = 0; ok && i < v->type.rank; i++) {
    vtb__val p = order.u.list.at[i];
    ok = p.kind == VTB__INT && p.u.i >= 0 && p.u.i < v->type.rank && !(seen & (1u << p.u.i));
    if (ok) seen |= 1u << (perm[i] = p.u.i);
  }
  if (!ok)
    return vtb__report(e, VTB_DIAG_WRONG_RANK, a->span,
                       "transpose takes a list that names each axis of %s once",
                       vtb__describe(e, x));
  bool stays = v->type.rank >= 2 && perm[0] == 0 && perm[1] == 1;
  return vtb__tensor(vtb_b_transpose(vtb__at(e, a->span), v, perm), stays ? x.u.t.layout : NULL);
}

vtb__val vtb__b_shape(vtb__eval *e, const vtb__args *a) {
  vtb__val x = vtb__arg(a, "x");
  vtb_value *v = x.u.t.v;
  if (vtb_type_is_dynamic(&v->type))
    return vtb__report(e, VTB_DIAG_NOT_COMPILE_TIME, a->span,
                       "the shape of %s holds the batch; use .dim, .tokens, .h, .w",
                       vtb__describe(e, x));
  vtb__val *at = VTB_NEW_ARRAY(&e->arena, vtb__val, v->type.rank);
  for (int i = 0; i < v->type.rank; i++) at[i] = vtb__int(v->type.dim[i].size);
  return (vtb__val){.kind = VTB__LIST, .u.list = {at, (size_t)v->type.rank}};
}

/* ---- sources --------------------------------------------------------------------------------- */

static vtb_value *seed_argument(vtb__eval *e, vtb_span span) {
  vtb__frame *f = e->frame;
  if (f->seed) return f->seed;
  vtb_type t = {.dtype = VTB_I32};
  f->seed = vtb_func_add_arg(f->func, "seed", t);
  if (f->is_model)
    f->func->arg_info[f->seed->index] = (vtb_arg_info){
        .role = VTB_ROLE_INPUT, .official = vtb_intern(e->module, "seed"), .span = span};
  return f->seed;
}

vtb_value *vtb__seed(vtb__eval *e, bool fresh, vtb_span span) {
  vtb_value *seed = seed_argument(e, span);
  vtb_builder *b = vtb__at(e, span);
  vtb_type t = {.dtype = VTB_I32};
  for (const vtb__loop *l = e->frame->loop; l; l = l->up) {
    vtb_value *stride = vtb_b_splat(b, (double)l->stride, &t);
    seed = vtb_b_binary(b, VTB_OP_add, seed, vtb_b_binary(b, VTB_OP_mul, l->index, stride));
  }
  if (!fresh) return seed;
  int64_t step = 0x9E37 * (int64_t)++e->frame->n_seeds; /* calls of one block draw apart */
  return vtb_b_binary(b, VTB_OP_add, seed, vtb_b_splat(b, (double)step, &t));
}

/* random(batch): one number a sample; random(n): n numbers; random(x): one for each element of x.
 * Uniform in [0, 1). */
static bool random_shape(vtb__eval *e, const vtb__args *a, vtb__val n, vtb_type *t) {
  if (n.kind == VTB__TENSOR && n.u.t.v->type.dtype == VTB_F32) {
    *t = n.u.t.v->type;
    return true;
  }
  int64_t batches = vtb__batches_meant(n);
  if (batches && e->models && e->models->batch) batches *= e->models->batch / e->batch;
  if (!batches && (n.kind != VTB__INT || n.u.i < 1 || n.u.i >= VTB__MAX_SIZE)) {
    vtb__report(e, VTB_DIAG_BAD_VALUE, a->span,
                "%s takes the batch, a number of elements or a tensor, not %s", a->name,
                vtb__describe(e, n));
    return false;
  }
  *t = (vtb_type){.dtype = VTB_F32,
                  .rank = 1,
                  .dim = {{batches ? batches * e->batch : n.u.i, batches ? "B" : NULL}}};
  return true;
}

/* Joined batches are drawn sample by sample, so that a draw does not depend on the batch's size. */
static vtb_value *uniform(vtb__eval *e, vtb_value *seed, const vtb_type *t, vtb_span span) {
  vtb_attr stream = VTB_A_INT("stream", e->n_streams++);
  int64_t joined = t->rank && t->rank < VTB_MAX_RANK ? vtb__batches_of(e, t->dim[0]) : 0;
  vtb_type drawn = *t;
  if (joined > 1) {
    drawn = vtb_type_with_axis(t, 1, (vtb_dim){joined, NULL});
    drawn.dim[0].size = e->batch;
  }
  vtb_inst *i = vtb_build_typed(vtb__at(e, span), VTB_OP_random, &seed, 1, &stream, 1, &drawn, 1);
  if (!i || joined <= 1) return i ? i->results[0] : NULL;
  int64_t perm[VTB_MAX_RANK] = {1, 0, 2, 3, 4, 5, 6, 7};
  return vtb_b_reshape(vtb__at(e, span), vtb_b_transpose(vtb__at(e, span), i->results[0], perm), t);
}

/* Box and Muller 1958: sqrt(-2 log(1 - u)) cos(2 pi v) of two uniform numbers is normal. */
static vtb_value *normal(vtb__eval *e, vtb_value *u, vtb_value *v, vtb_span span) {
  vtb_builder *b = vtb__at(e, span);
  vtb_value *rest = vtb_b_binary(b, VTB_OP_sub, vtb_b_constant(b, 1), u),
            *two = vtb_b_constant(b, -2), *turn = vtb_b_constant(b, 6.283185307179586477);
  vtb_value *radius = vtb_b_unary(
      b, VTB_OP_sqrt, vtb_b_binary(b, VTB_OP_mul, two, vtb_b_unary(b, VTB_OP_log, rest)));
  vtb_value *angle = vtb_b_unary(b, VTB_OP_cos, vtb_b_binary(b, VTB_OP_mul, turn, v));
  return vtb_b_binary(b, VTB_OP_mul, radius, angle);
}

vtb__val vtb__b_random(vtb__eval *e, const vtb__args *a) {
  vtb__val n = vtb__arg(a, "n");
  vtb_type t;
  bool schedule = e->decl && e->decl->kind == VTB_DECL_SCHEDULE;
  if (schedule || (e->frame && e->frame->func->kind == VTB_FUNC_RULE))
    return vtb__report(e, VTB_DIAG_NOT_A_STEP_OPERATION, a->span,
                       "schedules and optimizers draw nothing");
  if (!random_shape(e, a, n, &t)) return VTB__ERR;
  if (!e->frame || e->frame->step)
    return vtb__report(e, VTB_DIAG_NOT_A_STEP_OPERATION, a->span,
                       "random numbers are drawn in models, blocks and functions");
  vtb_value *seed = vtb__seed(e, false, a->span), *x = uniform(e, seed, &t, a->span);
  if (strcmp(a->name, "random_normal") == 0)
    x = normal(e, x, uniform(e, seed, &t, a->span), a->span);
  return vtb__tensor(x, n.kind == VTB__TENSOR ? n.u.t.layout : NULL);
}

/* Labels that the model takes are below n: whoever fills them can check it. */
static void say_classes(vtb__eval *e, const vtb_value *v, int64_t n) {
  vtb_arg_info *info = v->def ? NULL : &e->frame->func->arg_info[v->index];
  if (!info || info->role != VTB_ROLE_INPUT || info->init) return;
  info->init = vtb_intern(e->module, vtb_arena_printf(&e->arena, "classes %lld", (long long)n));
}

vtb__val vtb__b_one_hot(vtb__eval *e, const vtb__args *a) {
  vtb__val x = vtb__arg(a, "indices");
  vtb_value *v = x.u.t.v;
  vtb__val n = vtb__arg(a, "n");
  if (vtb__batches_meant(n) && v->type.rank < VTB_MAX_RANK)
    return vtb__tensor(vtb__index_table(e, v, vtb__batches_meant(n) * e->batch, "B", a->span),
                       NULL);
  if (n.kind != VTB__INT || n.u.i < 1 || n.u.i >= VTB__MAX_SIZE || v->type.rank >= VTB_MAX_RANK)
    return vtb__report(e, VTB_DIAG_BAD_VALUE, a->span, "one_hot into as many classes as %s",
                       vtb__describe(e, n));
  say_classes(e, v, n.u.i);
  vtb_value *table = vtb__index_table(e, v, n.u.i, NULL, a->span);
  return vtb__tensor(vtb__check_classes(e, v, table, a->span), NULL);
}

/* sample_mask(indices): 1 for the samples of the batch that the list names, else 0. */
vtb__val vtb__b_sample_mask(vtb__eval *e, const vtb__args *a) {
  vtb__val x = vtb__arg(a, "indices");
  vtb_value *v = x.u.t.v;
  if (v->type.rank != 1)
    return vtb__report(e, VTB_DIAG_WRONG_RANK, a->span,
                       "sample_mask takes a list of samples, not %s", vtb__describe(e, x));
  vtb_value *table = vtb__index_table(e, v, e->batch, "B", a->span);
  int64_t axis = 0;
  return vtb__tensor(vtb_b_reduce(vtb__at(e, a->span), VTB_OP_reduce_sum, table, &axis, 1, false),
                     NULL);
}
