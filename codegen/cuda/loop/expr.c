/* Values of a body as C expressions: loads, stores, elementwise ops, conditions.
 *
 * One line of C an op. Names tell types: s float, v vtb_f4, n int. Conditions become branches, so
 * that what they exclude is never read.
 */
#include "codegen/cuda/loop/expr.h"
#include "ir/ops.h"
#include "ir/product.h"
#include "ir/rewrite.h"

#include <math.h>
#include <string.h>

/* ---- names ----------------------------------------------------------------------------------- */

bool vtb__cuda_is_vector(const char *name) {
  return name[0] == 'v' && name[1] != 't'; /* not vtb_... */
}

static const char *declare(vtb_cuda_expr *e, char type, const char *value) {
  static const char *const types[] = {['n'] = "int", ['s'] = "float", ['v'] = "vtb_f4"};
  const char *name = vtb_arena_printf(&e->c->arena, "%c%d", type, e->next_name++);
  vtb_cuda_line(e->k, "const %s %s = %s;", types[(int)type], name, value);
  return name;
}

/* `f` with $, @ and % replaced by texts. */
static const char *fmt3(vtb_cuda_expr *e, const char *f, const char *const *a) {
  static const char holes[] = "$@%";
  vtb_strbuf s = {0};
  for (; *f; f++) {
    const char *hole = strchr(holes, *f);
    if (hole)
      vtb_strbuf_puts(&s, a[hole - holes]);
    else
      vtb_strbuf_putc(&s, *f);
  }
  const char *text = vtb_arena_strdup(&e->c->arena, s.n ? s.at : "");
  vtb_strbuf_free(&s);
  return text;
}

static const char *fmt(vtb_cuda_expr *e, const char *f, const char *a, const char *b) {
  return fmt3(e, f, (const char *[]){a, b, ""});
}

static const char *literal(vtb_cuda_expr *e, vtb_dtype d, double v) {
  vtb_arena *a = &e->c->arena;
  if (d == VTB_I32) return vtb_arena_printf(a, v < 0 ? "(%d)" : "%d", (int)v);
  float f = (float)v;
  if (isnan(f)) return "(VTB_NAN)";
  if (isinf(f)) return f > 0 ? "(VTB_INF)" : "(-VTB_INF)";
  vtb_strbuf digits = {0};
  vtb_strbuf_float(&digits, f);
  const char *dot = strpbrk(digits.at, ".e") ? "" : ".0";
  const char *text = vtb_arena_printf(a, signbit(f) ? "(%s%sf)" : "%s%sf", digits.at, dot);
  vtb_strbuf_free(&digits);
  return text;
}

const char *vtb__cuda_widen(vtb_cuda_expr *e, const char *v) {
  return vtb__cuda_is_vector(v) ? v : fmt(e, "vtb_splat($)", v, NULL);
}

/* Texts are never changed through a handle. */
static void *as_handle(const char *text) { return (void *)(uintptr_t)text; }

/* ---- indices --------------------------------------------------------------------------------- */

static bool same_text(const void *x, const void *y) { return strcmp(x, y) == 0; }

static void *add_dyn(vtb_body *b, const vtb_index *x, const vtb_index *y) {
  return as_handle(fmt(vtb__cuda_expr_of(b), "($ + @)", x->dyn, y->dyn));
}

static void *scale_dyn(vtb_body *b, const vtb_index *x, int64_t k) {
  vtb_arena *a = &vtb__cuda_expr_of(b)->c->arena;
  return vtb_arena_printf(a, "%s * %lld", (const char *)x->dyn, (long long)k);
}

static void divide(vtb_body *b, const vtb_index *x, int64_t inner, vtb_index *quotient,
                   vtb_index *rest) {
  vtb_cuda_expr *e = vtb__cuda_expr_of(b);
  bool lanes = vtb__index_varies(b, x);
  const char *text = vtb__cuda_index_text(e, x);
  e->no_lanes |= lanes;
  *quotient = vtb__index_dyn(
      vtb_arena_printf(&e->c->arena, "((%s) / %lld)", text, (long long)inner), lanes);
  *rest = vtb__index_dyn(vtb_arena_printf(&e->c->arena, "((%s) %% %lld)", text, (long long)inner),
                         lanes);
}

/* Both sides of a condition are never evaluated. */
static vtb_index no_clamp(vtb_body *b, const vtb_index *x, int64_t lo, int64_t hi) {
  (void)b, (void)lo, (void)hi;
  return *x;
}

/* An index as an int, the same for all lanes. */
static const char *index_value(vtb_cuda_expr *e, const vtb_index *x) {
  e->no_lanes |= vtb__index_varies(&e->body, x);
  return fmt(e, "(int)($)", vtb__cuda_index_text(e, x), NULL);
}

static void *position(vtb_body *b, vtb_dtype d, const vtb_index *x) {
  vtb_cuda_expr *e = vtb__cuda_expr_of(b);
  const char *n = index_value(e, x);
  return as_handle(d == VTB_I32 ? declare(e, 'n', n)
                                : declare(e, 's', fmt(e, "(float)$", n, NULL)));
}

static void *as_dyn(vtb_body *b, void *i32) {
  (void)b;
  return i32;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* The first of four lanes stands at a multiple of four elements, and the others follow
 * it. */
static bool is_aligned(const vtb_cuda_expr *e, const vtb_index *at, int align) {
  if (align < 4 || at->c % 4 || (at->dyn && at->multiple % 4) || vtb__index_step(&e->body, at) != 1)
    return false;
  for (int g = 0; g < e->body.n_groups; g++)
    if (g != e->body.vec && at->coef[e->body.groups[g].last] % 4) return false;
  return true;
}

/* Accesses of four lanes, by what a warp of them touches. */
static void note_access(vtb_cuda_expr *e, const vtb_index *at, int align) {
  enum { NEAR = 4 };
  int64_t step = vtb__index_step(&e->body, at);
  if (is_aligned(e, at, align))
    e->whole++;
  else if (step >= -NEAR && step <= NEAR)
    e->apart++;
}

static bool is_same_for_rows(const vtb_cuda_expr *e, const vtb_index *at) {
  if (!e->before_rows || e->k->indent != e->rows_indent || at->dyn) return false;
  for (int g = 0; g < e->body.n_groups; g++)
    if (e->by_row[g] && at->coef[e->body.groups[g].last]) return false;
  return true;
}

/* A variable in front of the loop over rows. */
static const char *declare_before(vtb_cuda_expr *e, const char *value) {
  vtb_strbuf *s = &e->k->body;
  char *loop = vtb_arena_strdup(&e->c->arena, s->at + e->before_rows);
  s->n = e->before_rows;
  s->at[s->n] = '\0';
  e->k->indent--;
  const char *name = declare(e, 'v', value);
  e->k->indent++;
  e->before_rows = s->n;
  vtb_strbuf_puts(s, loop);
  return name;
}

static const char *load(vtb_cuda_expr *e, vtb_dtype d, const char *from, int align,
                        const vtb_index *at) {
  vtb_arena *a = &e->c->arena;
  const char *text = vtb__cuda_index_text(e, at);
  bool varies = vtb__index_varies(&e->body, at);
  if (d == VTB_I32 || (varies && at->lanes)) {
    e->no_lanes |= varies;
    return declare(e, d == VTB_I32 ? 'n' : 's', vtb_arena_printf(a, "%s[%s]", from, text));
  }
  if (!varies) return declare(e, 's', vtb_arena_printf(a, "%s[%s]", from, text));
  note_access(e, at, align);
  if (is_aligned(e, at, align))
    return declare(e, 'v', vtb_arena_printf(a, "vtb_load4(%s, %s)", from, text));
  long long step = (long long)vtb__index_step(&e->body, at);
  const char *apart = vtb_arena_printf(a, "vtb_gather4(%s, %s, %lld)", from, text, step);
  return is_same_for_rows(e, at) ? declare_before(e, apart) : declare(e, 'v', apart);
}

static const char *tensor_name(vtb_cuda_expr *e, int tensor, int64_t temp) {
  int n = e->c->unit.n_operands;
  if (tensor < 0) return vtb_arena_printf(&e->c->arena, "t%lld", (long long)temp);
  return vtb_arena_printf(&e->c->arena, tensor < n ? "a%d" : "r%d",
                          tensor < n ? tensor : tensor - n);
}

/* Elements of a kernel's argument that its body reads: where only slices are taken, theirs. */
static int64_t elements_read(const vtb_body *b, const vtb_value *v) {
  const vtb_func *body = b->inst ? b->inst->callee : NULL;
  int64_t all = vtb_type_count(&v->type), n = 0;
  if (b->inst && !body && b->inst->op == VTB_OP_slice)
    return vtb_type_count(&b->inst->results[0]->type);
  if (!body || v->def) return all;
  if (vtb_is_returned(v)) return all;
  for (const vtb_inst *i = body->first; i; i = i->next)
    for (int o = 0; o < i->n_operands; o++)
      if (i->operands[o] == v)
        n += i->op == VTB_OP_slice ? vtb_type_count(&i->results[0]->type) : all;
  return n && n < all ? n : all;
}

/* The part of the row that the kernel has. */
static void *load_near(vtb_cuda_expr *e, const vtb_cuda_near *near, const vtb_index *index) {
  vtb_index at = near->along ? index[near->value->type.rank - 1] : vtb__index_const(0);
  return as_handle(load(e, VTB_F32, near->from, 4, &at));
}

static void *load_leaf(vtb_body *b, const vtb_leaf *leaf, const vtb_index *index) {
  vtb_cuda_expr *e = vtb__cuda_expr_of(b);
  const vtb_value *v = leaf->value;
  for (int i = 0; i < e->n_near; i++)
    if (e->near[i].value == v) return load_near(e, &e->near[i], index);
  const char *name = tensor_name(e, leaf->tensor, leaf->temp);
  int64_t dense[VTB_MAX_RANK];
  const int64_t *stride = dense;
  int align = 4;
  vtb__dense_strides(&v->type, dense);
  if (leaf->tensor >= 0) {
    stride = e->c->unit.t[leaf->tensor].stride;
    align = e->c->unit.t[leaf->tensor].align;
    vtb__cuda_use(e->k, leaf->tensor, name, VTB_LAUNCH_READ);
    vtb__cuda_touches(e->k, name, elements_read(b, v));
  } else {
    vtb__cuda_use_temp(e->k, (int)leaf->temp, vtb__cuda_type_name(v->type.dtype), name,
                       VTB_LAUNCH_READ);
  }
  vtb_index at = vtb__linear(&e->body, &v->type, stride, index);
  return as_handle(load(e, v->type.dtype, name, align, &at));
}

void vtb__cuda_store(vtb_cuda_expr *e, const vtb_root *r, const vtb_index *index,
                     const char *value) {
  const char *name = tensor_name(e, r->tensor, r->temp);
  vtb_dtype d = r->value->type.dtype;
  int align = r->tensor >= 0 ? e->c->unit.t[r->tensor].align : 4;
  if (r->tensor >= 0)
    vtb__cuda_use(e->k, r->tensor, name, VTB_LAUNCH_WRITE);
  else
    vtb__cuda_use_temp(e->k, (int)r->temp, vtb__cuda_type_name(d), name, VTB_LAUNCH_WRITE);
  vtb__cuda_stores(e->k, name, r->value, r->offset);
  vtb_index at = vtb__linear(&e->body, &r->value->type, r->stride, index);
  at = vtb__index_shift(&at, r->offset);
  const char *text = vtb__cuda_index_text(e, &at);
  if (vtb__index_varies(&e->body, &at)) note_access(e, &at, align);
  if (!vtb__index_varies(&e->body, &at))
    vtb_cuda_line(e->k, "%s[%s] = %s;", name, text, value);
  else if (d == VTB_I32)
    e->no_lanes = true;
  else if (is_aligned(e, &at, align))
    vtb_cuda_line(e->k, "vtb_store4(%s, %s, %s);", name, text, vtb__cuda_widen(e, value));
  else
    vtb_cuda_line(e->k, "vtb_scatter4(%s, %s, %lld, %s);", name, text,
                  (long long)vtb__index_step(&e->body, &at), vtb__cuda_widen(e, value));
}

static void store_root(vtb_body *b, const vtb_root *r, const vtb_index *index, void *value) {
  vtb__cuda_store(vtb__cuda_expr_of(b), r, index, value);
}

static int64_t new_temp(vtb_body *b, int64_t bytes) {
  return vtb_cuda_temp(vtb__cuda_expr_of(b)->c, bytes);
}

static void *load_table(vtb_body *b, vtb_dtype d, const int32_t *bits, size_t n,
                        const vtb_index *at) {
  vtb_cuda_expr *e = vtb__cuda_expr_of(b);
  char *name =
      vtb_arena_printf(&e->c->arena, "table%lld", (long long)vtb__cuda_constant(e->c, bits, n * 4));
  if (d == VTB_I32)
    vtb_cuda_table_i32(e->k, bits, n, name);
  else
    vtb_cuda_table_f32(e->k, (const float *)(const void *)bits, n, name);
  return as_handle(load(e, d, name, 4, at));
}

static void *load_kept(vtb_body *b, const vtb_kept *k) {
  vtb_cuda_expr *e = vtb__cuda_expr_of(b);
  return as_handle(fmt(e, "$[@]", k->place, e->chunk));
}

static void *store_kept(vtb_body *b, const vtb_kept *k, void *v) {
  vtb_cuda_expr *e = vtb__cuda_expr_of(b);
  const char *array = k->place, *value = vtb__cuda_is_vector(array) ? vtb__cuda_widen(e, v) : v;
  vtb_cuda_line(e->k, "%s[%s] = %s;", array, e->chunk, value);
  return v;
}

/* ---- conditions ------------------------------------------------------------------------------ */

static void *within(vtb_body *b, const vtb_index *x, int64_t lo, int64_t hi, bool above,
                    bool below) {
  vtb_cuda_expr *e = vtb__cuda_expr_of(b);
  vtb_arena *a = &e->c->arena;
  const char *text = vtb__cuda_index_text(e, x);
  e->no_lanes |= vtb__index_varies(b, x);
  if (above) return vtb_arena_printf(a, "%s < %lld", text, (long long)hi);
  if (below) return vtb_arena_printf(a, "%s >= %lld", text, (long long)lo);
  return vtb_arena_printf(a, "%s >= %lld && %s < %lld", text, (long long)lo, text, (long long)hi);
}

static void *both(vtb_body *b, void *x, void *y) {
  return as_handle(fmt(vtb__cuda_expr_of(b), "$ && @", x, y));
}

/* A variable that the arms set; what an arm computed is known inside its branch only. */
static void *choose(vtb_body *b, vtb_dtype d, void *condition, vtb_arm_fn arm, const void *user) {
  static const char *const types[] = {['n'] = "int", ['s'] = "float", ['v'] = "vtb_f4"};
  vtb_cuda_expr *e = vtb__cuda_expr_of(b);
  char type = d == VTB_I32 ? 'n' : b->lanes > 1 ? 'v' : 's';
  char *name = vtb_arena_printf(&e->c->arena, "%c%d", type, e->next_name++);
  size_t known = b->memo.n;
  vtb_cuda_line(e->k, "%s %s;", types[(int)type], name);
  vtb_cuda_open(e->k, "if (%s)", (const char *)condition);
  b->conditions++;
  for (int yes = 1; yes >= 0; yes--) {
    const char *value = arm(b, user, yes);
    vtb_cuda_line(e->k, "%s = %s;", name, type == 'v' ? vtb__cuda_widen(e, value) : value);
    b->memo.n = known;
    vtb_cuda_close(e->k);
    if (yes) vtb_cuda_open(e->k, "else");
  }
  b->conditions--;
  return name;
}

/* ---- elementwise ----------------------------------------------------------------------------- */

/* $ is the first operand, @ the second, % the third. form_<name>: of rows whose column cuda is
 * infix. */
static const char form_neg[] = "-$", form_add[] = "$ + @", form_sub[] = "$ - @",
                  form_mul[] = "$ * @", form_div[] = "$ / @", form_square[] = "$ * $",
                  form_stop_gradient[] = "$", form_select[] = "$ != 0 ? @ : %";
/* Wrapping arithmetic, as the other targets have it. */
static const char int_form_neg[] = "(int)(0u - (vtb_u32)$)", int_form_abs[] = "vtb_abs_int($)",
                  int_form_sign[] = "vtb_sign_int($)",
                  int_form_square[] = "(int)((vtb_u32)$ * (vtb_u32)$)",
                  int_form_stop_gradient[] = "$", int_form_add[] = "(int)((vtb_u32)$ + (vtb_u32)@)",
                  int_form_sub[] = "(int)((vtb_u32)$ - (vtb_u32)@)",
                  int_form_mul[] = "(int)((vtb_u32)$ * (vtb_u32)@)",
                  int_form_max[] = "vtb_max_int($, @)", int_form_min[] = "vtb_min_int($, @)",
                  int_form_gt[] = "$ > @ ? 1.0f : 0.0f", int_form_ge[] = "$ >= @ ? 1.0f : 0.0f",
                  int_form_eq[] = "$ == @ ? 1.0f : 0.0f", int_form_select[] = "$ != 0 ? @ : %";

#define OPERANDS_1 "($)"
#define OPERANDS_2 "($, @)"
#define OPERANDS_3 "($, @, %)"
#define FORM_infix(name, n) form_##name
#define FORM_hand(name, n) "vtb_" #name OPERANDS_##n
#define FORM_formula(name, n) "vtb_" #name OPERANDS_##n
static const char *const float_forms[VTB_OP_COUNT] = {
#define VTB_SCALAR(name, n, formula, adjoints, eval, cpu, cuda, ...)                               \
  [VTB_OP_##name] = FORM_##cuda(name, n),
#include "ir/scalar_ops.def"
#undef VTB_SCALAR
};
const char *vtb__cuda_float_form(vtb_op op) { return float_forms[op]; }

#define FORM_ints(name) int_form_##name
#define FORM_floats(name) NULL /* not given i32: vtb__shape_broadcast() sees to it */
static const char *const int_forms[VTB_OP_COUNT] = {
#define VTB_SCALAR(name, n, formula, adjoints, eval, cpu, cuda, ints, ...)                         \
  [VTB_OP_##name] = FORM_##ints(name),
#include "ir/scalar_ops.def"
#undef VTB_SCALAR
};

static const char *cast_op(vtb_cuda_expr *e, const vtb_inst *i, const char *x) {
  vtb_dtype from = i->operands[0]->type.dtype, to = i->results[0]->type.dtype;
  if (vtb_is_half(to) && i->results[0]->n_readers) /* else it is rounded where it is stored */
    return declare(e, vtb__cuda_is_vector(x) ? 'v' : 's',
                   fmt(e, "vtb_rounded_to<$>(@)", vtb__cuda_type_name(to), x));
  if (from == to || (from != VTB_I32 && to != VTB_I32)) return x;
  if (to == VTB_F32) return declare(e, 's', fmt(e, "(float)$", x, NULL));
  if (vtb__cuda_is_vector(x)) {
    e->no_lanes = true;
    return "0";
  }
  return declare(e, 'n', fmt(e, "vtb_to_int($)", x, NULL));
}

/* Three operands are vectors together; a choice by one number chooses between vectors. */
static const char *form3(vtb_cuda_expr *e, const vtb_inst *i, const char *form, const char **a) {
  bool select = i->op == VTB_OP_select, by_vector = i->operands[0]->type.dtype == VTB_F32;
  for (int o = select && !by_vector ? 1 : 0; o < 3; o++) a[o] = vtb__cuda_widen(e, a[o]);
  return select && by_vector ? "vtb_select4($, @, %)" : form;
}

static void *elementwise(vtb_body *b, const vtb_inst *i, void **operands) {
  vtb_cuda_expr *e = vtb__cuda_expr_of(b);
  const char *a[3] = {"", "", ""};
  bool vector = false;
  for (int o = 0; o < i->n_operands; o++) {
    a[o] = operands[o];
    vector |= vtb__cuda_is_vector(a[o]);
  }
  if (i->op == VTB_OP_cast) return as_handle(cast_op(e, i, a[0]));
  const char *form = (i->operands[0]->type.dtype == VTB_I32 ? int_forms : float_forms)[i->op];
  if (vector && i->n_operands == 3) form = form3(e, i, form, a);
  if (i->op == VTB_OP_div && e->n_near && vector && !vtb__cuda_is_vector(a[1]))
    form = "$ * vtb_inverse(@)"; /* of a row that is much longer than what divides it */
  char type = vector ? 'v' : i->results[0]->type.dtype == VTB_I32 ? 'n' : 's';
  return as_handle(declare(e, type, fmt3(e, form, a)));
}

static void *number(vtb_body *b, vtb_dtype d, double v) {
  return as_handle(literal(vtb__cuda_expr_of(b), d, v));
}

static void *random_value(vtb_body *b, void *seed, uint32_t stream, const vtb_index *at) {
  vtb_cuda_expr *e = vtb__cuda_expr_of(b);
  const char *text =
      vtb_arena_printf(&e->c->arena, "vtb_random(vtb_random_key((vtb_u32)%s, %uu), (vtb_u32)%s)",
                       (const char *)seed, stream, index_value(e, at));
  return as_handle(declare(e, 's', text));
}

/* ---- products of small matrices -------------------------------------------------------------- */

/* Operand `which` of an einsum at the letters of its result, of which the last is at `n`, and at
 * `k` along what is summed. */
static const char *factor_at(vtb_body *b, const vtb_inst *i, int which, const vtb_index *index,
                             const vtb_index *n, const vtb_index *k) {
  vtb_product p = vtb_product_of(i);
  vtb_index at[VTB_MAX_RANK];
  for (int a = 0; a < p.rank[which]; a++) {
    int there = vtb_product_at(&p, which, a)->at[VTB_IN_RESULT];
    at[a] = there < 0 ? *k : there + 1 < p.rank[VTB_IN_RESULT] ? index[there] : *n;
  }
  return vtb__body_eval(b, i->operands[which], at);
}

/* A product of four by four, lanes along the results: they run along what is summed in the same
 * way. The matrix is read along its last axis. */
static const char *whole_product(vtb_body *b, const vtb_inst *i, const vtb_index *index,
                                 const vtb_index *lanes) {
  static const char component[] = "xyzw";
  vtb_cuda_expr *e = vtb__cuda_expr_of(b);
  vtb_arena *arena = &e->c->arena;
  const char *part[4];
  vtb_product p = vtb_product_of(i);
  bool along_sum = vtb_product_at(&p, 1, p.rank[1] - 1)->at[VTB_IN_RESULT] < 0;
  const char *x = vtb__cuda_widen(e, factor_at(b, i, 0, index, lanes, lanes));
  if (!vtb__cuda_is_vector(x)) x = declare(e, 'v', x);
  for (int k = 0; k < 4; k++) {
    vtb_index at = vtb__index_const(k);
    const char *row = factor_at(b, i, 1, index, along_sum ? &at : lanes, along_sum ? lanes : &at);
    part[k] = along_sum ? vtb_arena_printf(arena, "vtb_dot4(%s, %s)", row, x)
                        : vtb_arena_printf(arena, "%s * %s.%c", row, x, component[k]);
  }
  vtb_strbuf s = {0};
  for (int k = 0; k < 4; k++)
    vtb_strbuf_printf(&s, "%s%s", k ? along_sum ? ", " : " + " : along_sum ? "{" : "", part[k]);
  vtb_strbuf_puts(&s, along_sum ? "}" : "");
  const char *sum = declare(e, 'v', s.at);
  vtb_strbuf_free(&s);
  return sum;
}

/* The last letter of the first operand alone is summed. */
static void *einsum(vtb_body *b, const vtb_value *v, const vtb_index *index) {
  vtb_cuda_expr *e = vtb__cuda_expr_of(b);
  const vtb_inst *i = v->def;
  vtb_arena *arena = &e->c->arena;
  const char *sum = NULL;
  int last = v->type.rank - 1, n = (int)i->operands[0]->type.dim[last].size;
  bool lanes = b->lanes > 1 && vtb__index_varies(b, &index[last]);
  if (b->probing) { /* which form it will have is not known: the groups must allow both */
    vtb_index first = vtb__index_const(0);
    factor_at(b, i, 0, index, &index[last], &index[last]);
    factor_at(b, i, 1, index, &first, &index[last]);
  }
  if (lanes && n == 4 && v->type.dim[last].size == 4 && vtb__index_step(b, &index[last]) == 1) {
    sum = whole_product(b, i, index, &index[last]);
    n = 0;
  }
  for (int k = 0; k < n; k++) {
    vtb_index at = vtb__index_const(k);
    const char *part =
        vtb_arena_printf(arena, "%s * %s", factor_at(b, i, 1, index, &index[last], &at),
                         factor_at(b, i, 0, index, &index[last], &at));
    sum = sum ? vtb_arena_printf(arena, "%s + %s", sum, part) : part;
  }
  if (i->n_operands == 3) {
    vtb_index at[VTB_MAX_RANK];
    vtb__operand_index(i->operands[2], &v->type, index, at);
    const char *add = vtb__body_eval(b, i->operands[2], at);
    sum = vtb_arena_printf(arena, "%s + %s", sum, add);
  }
  return as_handle(declare(e, lanes ? 'v' : 's', sum));
}

static void *unknown(vtb_body *b, const vtb_value *v) {
  vtb_cuda *c = vtb__cuda_expr_of(b)->c;
  vtb_cuda_unsupported(c, c->unit.inst, "%%%s, a %s, is not known where a kernel's body reads it",
                       v->name, vtb_op_get(v->def->op)->name);
  return as_handle("0.0f");
}

/* A convolution is known where the body is evaluated; only probing, whose indices are not split
 * yet, may not find it there. */
static void *structured(vtb_body *b, const vtb_value *v, const vtb_index *index) {
  if (v->def->op == VTB_OP_einsum) return einsum(b, v, index);
  return b->probing ? as_handle("0.0f") : unknown(b, v);
}

/* ---- the target ------------------------------------------------------------------------------ */

static const vtb_body_target target = {.most_together = 8,
                                       .keeps_leaves = true,
                                       .grids_by_division = true,
                                       .joins_rows = true,
                                       .same = same_text,
                                       .add = add_dyn,
                                       .scale = scale_dyn,
                                       .divide = divide,
                                       .clamp = no_clamp,
                                       .load = load_leaf,
                                       .structured = structured,
                                       .unknown = unknown,
                                       .number = number,
                                       .table = load_table,
                                       .position = position,
                                       .as_dyn = as_dyn,
                                       .random = random_value,
                                       .elementwise = elementwise,
                                       .load_kept = load_kept,
                                       .store_kept = store_kept,
                                       .within = within,
                                       .both = both,
                                       .choose = choose,
                                       .begin_probe = vtb__cuda_begin_probe,
                                       .end_probe = vtb__cuda_end_probe,
                                       .store = store_root,
                                       .temp = new_temp,
                                       .loop = vtb__cuda_emit_loop,
                                       .row = vtb__cuda_emit_row,
                                       .reduce = vtb__cuda_emit_reduce};

void vtb__cuda_expr_init(vtb_cuda_expr *e, vtb_cuda *c, const vtb_inst *inst) {
  *e = (vtb_cuda_expr){.c = c};
  vtb__body_init(&e->body, &target, inst);
  for (int i = 0; i < c->unit.n_operands + c->unit.n_results; i++)
    e->wide |= vtb_cuda_is_far(c, vtb_cuda_reach(c->unit.t[i].type, c->unit.t[i].stride));
}

void vtb__cuda_expr_free(vtb_cuda_expr *e) { vtb__body_free(&e->body); }

const char *vtb__cuda_eval(vtb_cuda_expr *e, const vtb_value *v, const vtb_index *index) {
  return vtb__body_eval(&e->body, v, index);
}
