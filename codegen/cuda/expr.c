/* Values of a body at an index: every op that is an expression of its operands or a change of index. Mirrors
 * codegen/cpu/expr.c.
 *
 * One line of C an op. Names tell types: s float, v vtb_f4, n int. Conditions become branches, so that what they
 * exclude is never read.
 */
#include "codegen/cuda/expr.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ------------------------------------------------------------------------------------------------ */

bool vtb__cuda_is_vector(const char *name) { return name[0] == 'v' && name[1] != 't'; /* not vtb_... */ }

static const char *declare(vtb_cuda_expr *e, char type, const char *value) {
  static const char *const types[] = {['n'] = "int", ['s'] = "float", ['v'] = "vtb_f4"};
  const char *name = vtb_arena_printf(&e->c->arena, "%c%d", type, e->next_name++);
  vtb_cuda_line(e->k, "const %s %s = %s;", types[(int)type], name, value);
  return name;
}

static const char *fmt(vtb_cuda_expr *e, const char *f, const char *a, const char *b) {
  vtb_strbuf s = {0};
  for (; *f; f++) {
    if (*f == '$')
      vtb_strbuf_puts(&s, a);
    else if (*f == '@')
      vtb_strbuf_puts(&s, b);
    else
      vtb_strbuf_putc(&s, *f);
  }
  const char *text = vtb_arena_strdup(&e->c->arena, s.n ? s.at : "");
  vtb_strbuf_free(&s);
  return text;
}

static const char *literal(vtb_cuda_expr *e, vtb_dtype d, double v) {
  vtb_arena *a = &e->c->arena;
  if (d == VTB_I32) return vtb_arena_printf(a, v < 0 ? "(%d)" : "%d", (int)v);
  float f = (float)v;
  if (isnan(f)) return "(VTB_NAN)";
  if (isinf(f)) return f > 0 ? "(VTB_INF)" : "(-VTB_INF)";
  char digits[32];
  snprintf(digits, sizeof digits, "%.9g", (double)f);
  const char *dot = strpbrk(digits, ".e") ? "" : ".0";
  return vtb_arena_printf(a, signbit(f) ? "(%s%sf)" : "%s%sf", digits, dot);
}

static const char *widen(vtb_cuda_expr *e, const char *v) {
  return vtb__cuda_is_vector(v) ? v : fmt(e, "vtb_splat($)", v, NULL);
}

/* ---- memory ----------------------------------------------------------------------------------------------- */

vtb_cuda_index vtb__cuda_linear(vtb_cuda_expr *e, const vtb_type *t, const int64_t *stride,
                                const vtb_cuda_index *index) {
  vtb_cuda_index at = {0};
  for (int a = 0; a < t->rank; a++) {
    if (t->dim[a].size == 1) continue;
    vtb_cuda_index part = vtb__cuda_index_scale(e, &index[a], stride[a]);
    at = vtb__cuda_index_add(e, &at, &part);
  }
  return at;
}

/* Whether the first of four lanes stands at a multiple of four elements, and the others follow it. */
static bool is_aligned(const vtb_cuda_expr *e, const vtb_cuda_index *at, int align) {
  if (align < 4 || at->c % 4 || (at->dyn && at->multiple % 4) || vtb__cuda_index_step(e, at) != 1) return false;
  for (int g = 0; g < e->n_groups; g++)
    if (g != e->vec && at->coef[e->groups[g].last] % 4) return false;
  return true;
}

static const char *load(vtb_cuda_expr *e, vtb_dtype d, const char *from, int align, const vtb_cuda_index *at) {
  vtb_arena *a = &e->c->arena;
  const char *text = vtb__cuda_index_text(e, at);
  bool varies = vtb__cuda_index_varies(e, at);
  if (d == VTB_I32 || (varies && at->lanes)) {
    e->no_lanes |= varies;
    return declare(e, d == VTB_I32 ? 'n' : 's', vtb_arena_printf(a, "%s[%s]", from, text));
  }
  if (!varies) return declare(e, 's', vtb_arena_printf(a, "%s[%s]", from, text));
  if (is_aligned(e, at, align)) return declare(e, 'v', vtb_arena_printf(a, "vtb_load4(%s, %s)", from, text));
  long long step = (long long)vtb__cuda_index_step(e, at);
  return declare(e, 'v', vtb_arena_printf(a, "vtb_gather4(%s, %s, %lld)", from, text, step));
}

static const char *tensor_name(vtb_cuda_expr *e, int tensor, int temp) {
  int n = e->c->unit.n_operands;
  if (tensor < 0) return vtb_arena_printf(&e->c->arena, "t%d", temp);
  return vtb_arena_printf(&e->c->arena, tensor < n ? "a%d" : "r%d", tensor < n ? tensor : tensor - n);
}

static const char *load_leaf(vtb_cuda_expr *e, const vtb_cuda_leaf *leaf, const vtb_cuda_index *index) {
  const vtb_value *v = leaf->value;
  const char *name = tensor_name(e, leaf->tensor, leaf->temp);
  int64_t dense[VTB_MAX_RANK];
  const int64_t *stride = dense;
  int align = 4;
  vtb__cuda_dense(&v->type, dense);
  if (leaf->tensor >= 0) {
    stride = e->c->unit.t[leaf->tensor].stride;
    align = e->c->unit.t[leaf->tensor].align;
    vtb__cuda_use(e->k, leaf->tensor, name, VTB_LAUNCH_READ);
  } else {
    vtb__cuda_use_temp(e->k, leaf->temp, v->type.dtype == VTB_F32 ? "float" : "int", name, VTB_LAUNCH_READ);
  }
  vtb_cuda_index at = vtb__cuda_linear(e, &v->type, stride, index);
  return load(e, v->type.dtype, name, align, &at);
}

void vtb__cuda_store(vtb_cuda_expr *e, const vtb_cuda_root *r, const vtb_cuda_index *index, const char *value) {
  const char *name = tensor_name(e, r->tensor, r->temp);
  vtb_dtype d = r->value->type.dtype;
  int align = r->tensor >= 0 ? e->c->unit.t[r->tensor].align : 4;
  if (r->tensor >= 0)
    vtb__cuda_use(e->k, r->tensor, name, VTB_LAUNCH_WRITE);
  else
    vtb__cuda_use_temp(e->k, r->temp, d == VTB_F32 ? "float" : "int", name, VTB_LAUNCH_WRITE);
  vtb_cuda_index at = vtb__cuda_linear(e, &r->value->type, r->stride, index);
  at = vtb__cuda_index_shift(&at, r->offset);
  const char *text = vtb__cuda_index_text(e, &at);
  if (!vtb__cuda_index_varies(e, &at))
    vtb_cuda_line(e->k, "%s[%s] = %s;", name, text, value);
  else if (d == VTB_I32)
    e->no_lanes = true;
  else if (is_aligned(e, &at, align))
    vtb_cuda_line(e->k, "vtb_store4(%s, %s, %s);", name, text, widen(e, value));
  else
    vtb_cuda_line(e->k, "vtb_scatter4(%s, %s, %lld, %s);", name, text, (long long)vtb__cuda_index_step(e, &at),
                  widen(e, value));
}

const vtb_cuda_leaf *vtb__cuda_leaf_find(const vtb_cuda_expr *e, const vtb_value *v) {
  for (size_t i = 0; i < e->leaves.n; i++)
    if (e->leaves.at[i].value == v) return &e->leaves.at[i];
  return NULL;
}

/* ---- conditions ------------------------------------------------------------------------------------------- */

typedef enum truth { NEVER, ALWAYS, SOMETIMES } truth;

/* lo <= x < hi; *cond is set when that is not known now. */
static truth in_range(vtb_cuda_expr *e, const vtb_cuda_index *x, int64_t lo, int64_t hi, const char **cond) {
  int64_t min = INT64_MIN, max = INT64_MAX;
  if (vtb__cuda_index_bounds(e, x, &min, &max)) {
    if (min >= lo && max < hi) return ALWAYS;
    if (max < lo || min >= hi) return NEVER;
  }
  const char *text = vtb__cuda_index_text(e, x);
  vtb_arena *a = &e->c->arena;
  if (vtb__cuda_index_varies(e, x)) e->no_lanes = true;
  if (min >= lo)
    *cond = vtb_arena_printf(a, "%s < %lld", text, (long long)hi);
  else if (max < hi)
    *cond = vtb_arena_printf(a, "%s >= %lld", text, (long long)lo);
  else
    *cond = vtb_arena_printf(a, "%s >= %lld && %s < %lld", text, (long long)lo, text, (long long)hi);
  return SOMETIMES;
}

/* A variable that the arms of a condition set. */
typedef struct choice {
  const char *name;
  size_t known;
} choice;

static choice begin_choice(vtb_cuda_expr *e, vtb_dtype d, const char *cond) {
  char type = d == VTB_I32 ? 'n' : e->lanes > 1 ? 'v' : 's';
  choice c = {vtb_arena_printf(&e->c->arena, "%c%d", type, e->next_name++), e->memo.n};
  vtb_cuda_line(e->k, "%s %s;", type == 'n' ? "int" : type == 'v' ? "vtb_f4" : "float", c.name);
  vtb_cuda_open(e->k, "if (%s)", cond);
  e->conditions++;
  return c;
}

/* What an arm computed is known inside its branch only. */
static void set_choice(vtb_cuda_expr *e, const choice *c, const char *value) {
  vtb_cuda_line(e->k, "%s = %s;", c->name, vtb__cuda_is_vector(c->name) ? widen(e, value) : value);
  vtb__cuda_forget(e, c->known);
}

static void else_choice(vtb_cuda_expr *e) {
  vtb_cuda_close(e->k);
  vtb_cuda_open(e->k, "else");
}

static const char *end_choice(vtb_cuda_expr *e, const choice *c) {
  vtb_cuda_close(e->k);
  e->conditions--;
  return c->name;
}

/* ---- elementwise ------------------------------------------------------------------------------------------ */

/* Numpy broadcast: the operand's axes are the last ones of the result. */
static void operand_index(const vtb_value *operand, const vtb_type *result, const vtb_cuda_index *index,
                          vtb_cuda_index *out) {
  int skip = result->rank - operand->type.rank;
  for (int a = 0; a < operand->type.rank; a++)
    out[a] = operand->type.dim[a].size == 1 ? vtb__cuda_index_const(0) : index[a + skip];
}

/* $ is the first operand, @ the second. */
static const char *const float_ops[VTB_OP_COUNT] = {
    [VTB_OP_neg] = "-$",
    [VTB_OP_abs] = "vtb_abs($)",
    [VTB_OP_sign] = "vtb_sign($)",
    [VTB_OP_exp] = "vtb_exp($)",
    [VTB_OP_log] = "vtb_log($)",
    [VTB_OP_sqrt] = "vtb_sqrt($)",
    [VTB_OP_rsqrt] = "vtb_rsqrt($)",
    [VTB_OP_square] = "$ * $",
    [VTB_OP_sin] = "vtb_sin($)",
    [VTB_OP_cos] = "vtb_cos($)",
    [VTB_OP_tanh] = "vtb_tanh($)",
    [VTB_OP_erf] = "vtb_erf($)",
    [VTB_OP_sigmoid] = "vtb_sigmoid($)",
    [VTB_OP_log_sigmoid] = "vtb_log_sigmoid($)",
    [VTB_OP_softplus] = "vtb_softplus($)",
    [VTB_OP_silu] = "vtb_silu($)",
    [VTB_OP_gelu] = "vtb_gelu($)",
    [VTB_OP_gelu_tanh] = "vtb_gelu_tanh($)",
    [VTB_OP_relu] = "vtb_relu($)",
    [VTB_OP_floor] = "vtb_floor($)",
    [VTB_OP_stop_gradient] = "$",
    [VTB_OP_add] = "$ + @",
    [VTB_OP_sub] = "$ - @",
    [VTB_OP_mul] = "$ * @",
    [VTB_OP_div] = "$ / @",
    [VTB_OP_max] = "vtb_max($, @)",
    [VTB_OP_min] = "vtb_min($, @)",
    [VTB_OP_pow] = "vtb_pow($, @)",
    [VTB_OP_gt] = "vtb_gt($, @)",
    [VTB_OP_ge] = "vtb_ge($, @)",
    [VTB_OP_eq] = "vtb_eq($, @)",
};
/* Wrapping arithmetic, as the other targets have it. */
static const char *const int_ops[VTB_OP_COUNT] = {
    [VTB_OP_neg] = "(int)(0u - (vtb_u32)$)",
    [VTB_OP_abs] = "vtb_abs_int($)",
    [VTB_OP_sign] = "vtb_sign_int($)",
    [VTB_OP_square] = "(int)((vtb_u32)$ * (vtb_u32)$)",
    [VTB_OP_stop_gradient] = "$",
    [VTB_OP_add] = "(int)((vtb_u32)$ + (vtb_u32)@)",
    [VTB_OP_sub] = "(int)((vtb_u32)$ - (vtb_u32)@)",
    [VTB_OP_mul] = "(int)((vtb_u32)$ * (vtb_u32)@)",
    [VTB_OP_max] = "vtb_max_int($, @)",
    [VTB_OP_min] = "vtb_min_int($, @)",
    [VTB_OP_gt] = "$ > @ ? 1.0f : 0.0f",
    [VTB_OP_ge] = "$ >= @ ? 1.0f : 0.0f",
    [VTB_OP_eq] = "$ == @ ? 1.0f : 0.0f",
};

static const char *cast_op(vtb_cuda_expr *e, const vtb_inst *i, const char *x) {
  vtb_dtype from = i->operands[0]->type.dtype, to = i->results[0]->type.dtype;
  if (from == to) return x;
  if (to == VTB_F32) return declare(e, 's', fmt(e, "(float)$", x, NULL));
  if (vtb__cuda_is_vector(x)) {
    e->no_lanes = true;
    return "0";
  }
  return declare(e, 'n', fmt(e, "vtb_to_int($)", x, NULL));
}

static const char *select_op(vtb_cuda_expr *e, const vtb_inst *i, const char **a) {
  vtb_arena *m = &e->c->arena;
  bool vector = false, is_int = i->results[0]->type.dtype == VTB_I32;
  for (int o = 0; o < 3; o++) vector |= vtb__cuda_is_vector(a[o]);
  if (vector && i->operands[0]->type.dtype == VTB_F32)
    return declare(e, 'v',
                   vtb_arena_printf(m, "vtb_select4(%s, %s, %s)", widen(e, a[0]), widen(e, a[1]), widen(e, a[2])));
  if (vector) return declare(e, 'v', vtb_arena_printf(m, "%s != 0 ? %s : %s", a[0], widen(e, a[1]), widen(e, a[2])));
  return declare(e, is_int ? 'n' : 's', vtb_arena_printf(m, "%s != 0 ? %s : %s", a[0], a[1], a[2]));
}

static const char *eval_elementwise(vtb_cuda_expr *e, const vtb_value *v, const vtb_cuda_index *index) {
  const vtb_inst *i = v->def;
  const char *a[3] = {"", "", ""};
  bool vector = false;
  for (int o = 0; o < i->n_operands; o++) {
    vtb_cuda_index at[VTB_MAX_RANK];
    operand_index(i->operands[o], &v->type, index, at);
    a[o] = vtb__cuda_eval(e, i->operands[o], at);
    vector |= vtb__cuda_is_vector(a[o]);
  }
  if (i->op == VTB_OP_cast) return cast_op(e, i, a[0]);
  if (i->op == VTB_OP_select) return select_op(e, i, a);
  bool ints = i->operands[0]->type.dtype == VTB_I32;
  const char *form = (ints ? int_ops : float_ops)[i->op];
  vtb_check(form != NULL, "op %s of %s", vtb_op_get(i->op)->name, ints ? "i32" : "f32");
  return declare(e, v->type.dtype == VTB_I32 ? 'n' : vector ? 'v' : 's', fmt(e, form, a[0], a[1]));
}

/* ---- sources ---------------------------------------------------------------------------------------------- */

static const char *eval_constant(vtb_cuda_expr *e, const vtb_value *v, const vtb_cuda_index *index) {
  const vtb_attr *data = vtb_attr_find(v->def, "data");
  if (!data) return literal(e, v->type.dtype, vtb_attr_float(v->def, "value", 0));
  int64_t stride[VTB_MAX_RANK];
  char name[32];
  float *copy = vtb_xcalloc((size_t)data->n + 1, sizeof *copy);
  vtb__cuda_dense(&v->type, stride);
  for (int k = 0; k < data->n; k++) {
    int32_t whole = (int32_t)data->floats[k];
    copy[k] = (float)data->floats[k];
    if (v->type.dtype == VTB_I32) memcpy(&copy[k], &whole, 4);
  }
  snprintf(name, sizeof name, "table%lld", (long long)vtb__cuda_constant(e->c, copy, (size_t)data->n * 4));
  if (v->type.dtype == VTB_I32)
    vtb_cuda_table_i32(e->k, (const int32_t *)(const void *)copy, (size_t)data->n, name);
  else
    vtb_cuda_table_f32(e->k, copy, (size_t)data->n, name);
  free(copy);
  vtb_cuda_index at = vtb__cuda_linear(e, &v->type, stride, index);
  return load(e, v->type.dtype, vtb_arena_strdup(&e->c->arena, name), 4, &at);
}

/* An index as an int, the same for all lanes. */
static const char *index_value(vtb_cuda_expr *e, const vtb_cuda_index *x) {
  e->no_lanes |= vtb__cuda_index_varies(e, x);
  return fmt(e, "(int)($)", vtb__cuda_index_text(e, x), NULL);
}

static const char *eval_iota(vtb_cuda_expr *e, const vtb_value *v, const vtb_cuda_index *index) {
  const char *n = index_value(e, &index[vtb_attr_int(v->def, "axis", 0)]);
  return v->type.dtype == VTB_I32 ? declare(e, 'n', n) : declare(e, 's', fmt(e, "(float)$", n, NULL));
}

static const char *eval_random(vtb_cuda_expr *e, const vtb_value *v, const vtb_cuda_index *index) {
  int64_t stride[VTB_MAX_RANK];
  vtb_cuda_index zero[VTB_MAX_RANK] = {{0}};
  vtb__cuda_dense(&v->type, stride);
  const char *seed = vtb__cuda_eval(e, v->def->operands[0], zero);
  unsigned stream = (unsigned)vtb_attr_int(v->def, "stream", 0);
  vtb_cuda_index at = vtb__cuda_linear(e, &v->type, stride, index);
  return declare(e, 's',
                 vtb_arena_printf(&e->c->arena, "vtb_random(vtb_random_key((vtb_u32)%s, %uu), (vtb_u32)%s)", seed,
                                  stream, index_value(e, &at)));
}

/* ---- views ------------------------------------------------------------------------------------------------ */

/* Row-major regrouping: runs of axes with equal products are joined, then cut at the operand's sizes. */
static void reshape_index(vtb_cuda_expr *e, const vtb_type *to, const vtb_cuda_index *index, const vtb_type *from,
                          vtb_cuda_index *out) {
  int a = to->rank - 1, b = from->rank - 1;
  while (b >= 0) {
    if (from->dim[b].size == 1) {
      out[b--] = vtb__cuda_index_const(0);
      continue;
    }
    while (a >= 0 && to->dim[a].size == 1) a--;
    vtb_check(a >= 0, "reshape of different counts");
    int first = b;
    int64_t have = to->dim[a].size, want = from->dim[b].size;
    vtb_cuda_index joined = index[a--];
    while (have != want) {
      if (have < want) {
        vtb_cuda_index part = vtb__cuda_index_scale(e, &index[a], have);
        joined = vtb__cuda_index_add(e, &joined, &part);
        have *= to->dim[a--].size;
      } else {
        want *= from->dim[--first].size;
      }
    }
    for (int k = b; k > first; k--) {
      vtb_cuda_index q;
      vtb__cuda_index_split(e, &joined, from->dim[k].size, &q, &out[k]);
      joined = q;
    }
    out[first] = joined;
    b = first - 1;
  }
}

static const char *eval_pad(vtb_cuda_expr *e, const vtb_value *v, const vtb_cuda_index *index) {
  const vtb_inst *i = v->def;
  const vtb_value *x = i->operands[0];
  int axis = (int)vtb_attr_int(i, "axis", 0);
  int64_t step = vtb_attr_int(i, "step", 1), size = x->type.dim[axis].size;
  vtb_cuda_index at[VTB_MAX_RANK];
  memcpy(at, index, sizeof *at * (size_t)v->type.rank);
  at[axis] = vtb__cuda_index_shift(&index[axis], -vtb_attr_int(i, "low", 0));
  const char *zero = literal(e, v->type.dtype, 0), *cond = NULL, *whole = NULL;
  truth t = in_range(e, &at[axis], 0, (size - 1) * step + 1, &cond);
  if (t == NEVER) return zero;
  if (step > 1) { /* only multiples of step come from x */
    vtb_cuda_index q, r;
    vtb__cuda_index_split(e, &at[axis], step, &q, &r);
    truth tw = in_range(e, &r, 0, 1, &whole);
    if (tw == NEVER) return zero;
    if (tw == SOMETIMES) cond = cond ? fmt(e, "$ && @", cond, whole) : whole;
    at[axis] = q;
    if (tw == SOMETIMES) t = SOMETIMES;
  }
  if (t == ALWAYS) return vtb__cuda_eval(e, x, at);
  choice c = begin_choice(e, v->type.dtype, cond);
  set_choice(e, &c, vtb__cuda_eval(e, x, at));
  else_choice(e);
  set_choice(e, &c, zero);
  return end_choice(e, &c);
}

static const char *eval_concat(vtb_cuda_expr *e, const vtb_value *v, const vtb_cuda_index *index, int k,
                               int64_t start) {
  const vtb_inst *i = v->def;
  int axis = (int)vtb_attr_int(i, "axis", 0);
  const vtb_value *x = i->operands[k];
  int64_t size = x->type.dim[axis].size;
  vtb_cuda_index at[VTB_MAX_RANK];
  memcpy(at, index, sizeof *at * (size_t)v->type.rank);
  at[axis] = vtb__cuda_index_shift(&index[axis], -start);
  const char *cond = NULL;
  truth t = k + 1 == i->n_operands ? ALWAYS : in_range(e, &index[axis], start, start + size, &cond);
  if (t == ALWAYS) return vtb__cuda_eval(e, x, at);
  if (t == NEVER) return eval_concat(e, v, index, k + 1, start + size);
  choice c = begin_choice(e, v->type.dtype, cond);
  set_choice(e, &c, vtb__cuda_eval(e, x, at));
  else_choice(e);
  set_choice(e, &c, eval_concat(e, v, index, k + 1, start + size));
  return end_choice(e, &c);
}

/* ---- along a path ----------------------------------------------------------------------------------------- */

/* from[s]: which position of x comes to position s; -1: none. */
static int32_t *source_table(const vtb_inst *i, int64_t n) {
  int64_t *perm = vtb_xcalloc((size_t)n + 1, sizeof *perm);
  const char *text = vtb_attr_str(i, "path", NULL);
  for (int64_t t = 0; t < n; t++) perm[t] = t;
  if (text) {
    vtb_path path;
    vtb_error err = {0};
    vtb_check(vtb_path_parse(text, &path, &err) == VTB_OK && path.n == n, "path %s: %s", text, err.text);
    vtb_path_indices(&path, perm);
    vtb_path_free(&path);
  }
  int32_t *from = vtb_xcalloc((size_t)n + 1, sizeof *from);
  int64_t by = vtb_attr_int(i, "by", 0);
  bool inverse = vtb_attr_int(i, "inverse", 0) != 0;
  for (int64_t t = 0; t < n; t++) {
    if (i->op == VTB_OP_shift)
      from[perm[t]] = t - by >= 0 && t - by < n ? (int32_t)perm[t - by] : -1;
    else if (inverse)
      from[perm[t]] = (int32_t)t;
    else
      from[t] = (int32_t)perm[t];
  }
  free(perm);
  return from;
}

/* from[s] = a s + b for lo <= s < hi, -1 elsewhere. */
static bool table_is_line(const int32_t *from, int64_t n, int64_t *lo, int64_t *hi, int64_t *a, int64_t *b) {
  for (*lo = 0; *lo < n && from[*lo] < 0;) ++*lo;
  for (*hi = n; *hi > *lo && from[*hi - 1] < 0;) --*hi;
  *a = *hi - *lo > 1 ? from[*lo + 1] - from[*lo] : 1;
  *b = *lo < n ? from[*lo] - *a * *lo : 0;
  for (int64_t s = *lo; s < *hi; s++)
    if (from[s] < 0 || from[s] != *a * s + *b) return false;
  return true;
}

/* from[s] = from[0] + (s / inner) outer_step + (s % inner) inner_step, nothing missing. */
static bool table_is_grid(const int32_t *from, int64_t n, int64_t *inner, int64_t *outer_step, int64_t *inner_step) {
  if (n < 4 || from[0] < 0) return false;
  *inner_step = from[1] - from[0];
  for (*inner = 1; *inner < n && from[*inner] - from[*inner - 1] == *inner_step;) ++*inner;
  if (*inner == n || n % *inner) return false;
  *outer_step = from[*inner] - from[0];
  for (int64_t s = 0; s < n; s++)
    if (from[s] != from[0] + s / *inner * *outer_step + s % *inner * *inner_step) return false;
  return true;
}

/* Index into x along the axis by a look-up; *cond as in_range. */
static truth look_up(vtb_cuda_expr *e, const int32_t *from, int64_t n, const vtb_cuda_index *at, vtb_cuda_index *out,
                     const char **cond) {
  char name[32];
  snprintf(name, sizeof name, "table%lld", (long long)vtb__cuda_constant(e->c, from, (size_t)n * 4));
  vtb_cuda_table_i32(e->k, from, (size_t)n, name);
  const char *entry = load(e, VTB_I32, vtb_arena_strdup(&e->c->arena, name), 4, at);
  bool missing = false;
  for (int64_t s = 0; s < n; s++) missing |= from[s] < 0;
  *out = vtb__cuda_index_dyn(entry, vtb__cuda_index_varies(e, at));
  if (!missing) return ALWAYS;
  *cond = fmt(e, "$ >= 0", entry, NULL);
  return SOMETIMES;
}

static truth source_index(vtb_cuda_expr *e, const vtb_inst *i, int64_t n, const vtb_cuda_index *at, vtb_cuda_index *out,
                          const char **cond) {
  int32_t *from = source_table(i, n);
  int64_t lo, hi, a, b;
  truth t = ALWAYS;
  vtb_cuda_index q, r;
  if (table_is_line(from, n, &lo, &hi, &a, &b)) {
    t = hi > lo ? in_range(e, at, lo, hi, cond) : NEVER;
    *out = vtb__cuda_index_scale(e, at, a);
    *out = vtb__cuda_index_shift(out, b);
  } else if (table_is_grid(from, n, &lo, &a, &b)) {
    vtb__cuda_index_split(e, at, lo, &q, &r);
    q = vtb__cuda_index_scale(e, &q, a);
    r = vtb__cuda_index_scale(e, &r, b);
    *out = vtb__cuda_index_add(e, &q, &r);
    *out = vtb__cuda_index_shift(out, from[0]);
  } else {
    t = look_up(e, from, n, at, out, cond);
  }
  free(from);
  return t;
}

static const char *eval_moved(vtb_cuda_expr *e, const vtb_value *v, const vtb_cuda_index *index) {
  const vtb_inst *i = v->def;
  int axis = (int)vtb_attr_int(i, "axis", 0);
  vtb_cuda_index at[VTB_MAX_RANK], edge[VTB_MAX_RANK];
  memcpy(at, index, sizeof *at * (size_t)v->type.rank);
  const char *cond = NULL, *fill = literal(e, v->type.dtype, vtb_attr_float(i, "fill", 0));
  truth t = source_index(e, i, v->type.dim[axis].size, &index[axis], &at[axis], &cond);
  for (int a = 0; a + 1 < v->type.rank; a++) edge[a] = index[a < axis ? a : a + 1];
  if (t == ALWAYS) return vtb__cuda_eval(e, i->operands[0], at);
  if (t == NEVER) return i->n_operands == 2 ? vtb__cuda_eval(e, i->operands[1], edge) : fill;
  choice c = begin_choice(e, v->type.dtype, cond);
  set_choice(e, &c, vtb__cuda_eval(e, i->operands[0], at));
  else_choice(e);
  set_choice(e, &c, i->n_operands == 2 ? vtb__cuda_eval(e, i->operands[1], edge) : fill);
  return end_choice(e, &c);
}

static const char *eval_shape(vtb_cuda_expr *e, const vtb_value *v, const vtb_cuda_index *index) {
  const vtb_inst *i = v->def;
  vtb_cuda_index at[VTB_MAX_RANK] = {{0}};
  int n, axis = (int)vtb_attr_int(i, "axis", 0);
  const int64_t *perm = vtb_attr_ints(i, "perm", &n);
  switch (i->op) {
  case VTB_OP_constant:
    return eval_constant(e, v, index);
  case VTB_OP_iota:
    return eval_iota(e, v, index);
  case VTB_OP_random:
    return eval_random(e, v, index);
  case VTB_OP_reshape:
    reshape_index(e, &v->type, index, &i->operands[0]->type, at);
    break;
  case VTB_OP_broadcast:
    operand_index(i->operands[0], &v->type, index, at);
    break;
  case VTB_OP_transpose:
    for (int a = 0; a < n; a++) at[perm[a]] = index[a];
    break;
  case VTB_OP_slice:
    memcpy(at, index, sizeof *at * (size_t)v->type.rank);
    at[axis] = vtb__cuda_index_scale(e, &index[axis], vtb_attr_int(i, "step", 1));
    at[axis] = vtb__cuda_index_shift(&at[axis], vtb_attr_int(i, "start", 0));
    break;
  case VTB_OP_pad:
    return eval_pad(e, v, index);
  case VTB_OP_concat:
    return eval_concat(e, v, index, 0, 0);
  case VTB_OP_permute:
  case VTB_OP_shift:
    return eval_moved(e, v, index);
  default:
    vtb_bug("op %s inside a kernel body", vtb_op_get(i->op)->name);
  }
  return vtb__cuda_eval(e, i->operands[0], at);
}

/* ---- values ----------------------------------------------------------------------------------------------- */

bool vtb__cuda_is_costly(vtb_op op) {
  const char *form = float_ops[op];
  return form && strncmp(form, "vtb_", 4) == 0 && op != VTB_OP_abs && op != VTB_OP_max && op != VTB_OP_min &&
         op != VTB_OP_gt && op != VTB_OP_ge && op != VTB_OP_eq && op != VTB_OP_floor && op != VTB_OP_relu;
}

static bool same_place(const vtb_value *v, const vtb_cuda_index *x, const vtb_cuda_index *y) {
  for (int a = 0; a < v->type.rank; a++)
    if (!vtb__cuda_index_equal(&x[a], &y[a])) return false;
  return true;
}

/* The entry for a stored or costly value that the row's loop has element by element; made while probing. */
static vtb_cuda_kept *kept_entry(vtb_cuda_expr *e, const vtb_value *v, const vtb_cuda_index *index, bool leaf) {
  if (!e->keep || e->conditions || e->vec < 0 || v->type.dtype != VTB_F32) return NULL;
  if (!leaf && !(v->def && vtb__cuda_is_costly(v->def->op))) return NULL;
  bool along_row = false;
  for (int a = 0; a < v->type.rank; a++) along_row |= index[a].coef[e->groups[e->vec].last] != 0;
  if (!along_row) return NULL;
  for (size_t k = 0; k < e->kept.n; k++)
    if (e->kept.at[k].value == v && same_place(v, index, e->kept.at[k].index)) return &e->kept.at[k];
  if (!e->probing) return NULL;
  vtb_cuda_kept fresh = {.value = v, .stored = -1};
  memcpy(fresh.index, index, sizeof *index * (size_t)v->type.rank);
  vtb_vec_push(&e->kept, fresh);
  return &e->kept.at[e->kept.n - 1];
}

static const char *eval_new(vtb_cuda_expr *e, const vtb_value *v, const vtb_cuda_index *index) {
  vtb_check(v->def != NULL, "value %%%s of a kernel is neither an operand nor computed", v->name);
  switch (vtb_op_get(v->def->op)->klass) {
  case VTB_CLASS_ELEMENTWISE:
    return eval_elementwise(e, v, index);
  case VTB_CLASS_SHAPE:
    return eval_shape(e, v, index);
  case VTB_CLASS_REDUCE:
    vtb_check(e->reduce != NULL, "reduction %%%s is not computed yet", v->name);
    return e->reduce(e, v, index);
  default:
    vtb_bug("op %s inside a kernel body", vtb_op_get(v->def->op)->name);
  }
}

static const char *eval_kept(vtb_cuda_expr *e, size_t entry, const vtb_cuda_leaf *leaf, const vtb_value *v,
                             const vtb_cuda_index *index) {
  vtb_cuda_kept *k = &e->kept.at[entry];
  if (e->probing) k->passes |= 1u << (e->pass < 31 ? e->pass : 31);
  if (!e->probing && k->array && k->stored >= 0 && k->stored < e->pass)
    return vtb_arena_printf(&e->c->arena, "%s[%s]", k->array, e->chunk);
  const char *r = leaf ? load_leaf(e, leaf, index) : eval_new(e, v, index);
  k = &e->kept.at[entry]; /* evaluation may have added entries */
  if (e->probing || !k->array) return r;
  vtb_cuda_line(e->k, "%s[%s] = %s;", k->array, e->chunk, vtb__cuda_is_vector(k->array) ? widen(e, r) : r);
  k->stored = e->pass;
  return r;
}

const char *vtb__cuda_eval(vtb_cuda_expr *e, const vtb_value *v, const vtb_cuda_index *index) {
  for (size_t m = e->memo.n; m-- > 0;)
    if (e->memo.at[m].value == v && same_place(v, e->memo.at[m].index, index)) return e->memo.at[m].result;
  const vtb_cuda_leaf *leaf = vtb__cuda_leaf_find(e, v);
  const vtb_cuda_kept *kept = kept_entry(e, v, index, leaf != NULL);
  const char *r;
  if (kept)
    r = eval_kept(e, (size_t)(kept - e->kept.at), leaf, v, index);
  else
    r = leaf ? load_leaf(e, leaf, index) : eval_new(e, v, index);
  vtb_cuda_memo known = {.value = v, .result = r};
  memcpy(known.index, index, sizeof *index * (size_t)v->type.rank);
  vtb_vec_push(&e->memo, known);
  return r;
}
