/* The adjoint of delta, of ops there are.
 *
 *   w_{t,r} = v_{t,r} + S_{t-1}^T b_{t,r}      S_t = D_t * S_{t-1} + sum_r k_{t,r} w_{t,r}^T
 *
 * With omega the adjoint of w, w^ that adjoint made whole and G_t the adjoint of S_t:
 *
 *   w^_{t,r} = omega_{t,r} + G_t^T k_{t,r}     G_{t-1} = D_t * G_t + sum_r b_{t,r} w^_{t,r}^T
 *   dv = w^    dk_{t,r} = G_t w_{t,r}    db_{t,r} = S_{t-1} w^_{t,r}    dD_t = G_t * S_{t-1}
 *
 * The first line is a delta itself, along the reversed path with k and b exchanged. The others are
 * the adjoint of the linscan whose query and whose adjoint at step t are b and w^ of step t + 1:
 * there the adjoint of the state is G_t. Several rows a token become 2 R - 1 steps of that scan: R
 * that add a row, the last of which reads one, and R - 1 that read the others.
 */
#include "ir/path.h"
#include "ir/recurrence.h"
#include "passes/grad/autodiff.h"

#include <string.h>

typedef struct rule {
  vtb__gradient *g;
  vtb_builder *b;
  vtb_inst *inst;
  vtb_delta of;
  vtb_dim batch, tokens, heads, key;
  int64_t steps;    /* of the scan, a token */
  const char *path; /* of these steps */
  vtb_value *omega, *w;
} rule;

/* ---- paths ----------------------------------------------------------------------------------- */

static const char *reversed_path(rule *c) {
  if (!c->of.path) return vtb__text(c->g->ad, "rows~@1x%lld", (long long)c->of.n_tokens);
  vtb_path p = vtb__path_of(c->of.path);
  p.reversed = !p.reversed;
  const char *text = vtb__path_text(c->g->ad->module, &p);
  vtb_path_free(&p);
  return text;
}

/* The path of the scan's steps: those of a token one after the other. */
static const char *path_of_steps(rule *c) {
  if (!c->of.path || c->steps == 1) return c->of.path;
  int64_t *perm = vtb__path_indices(c->g->ad->module, c->of.path, c->of.n_tokens);
  vtb_strbuf s = {0};
  for (int64_t t = 0; t < c->of.n_tokens * c->steps; t++)
    vtb_strbuf_printf(&s, "%c%lld", t ? ',' : '[',
                      (long long)(perm[t / c->steps] * c->steps + t % c->steps));
  vtb_strbuf_printf(&s, "]@1x%lld", (long long)(c->of.n_tokens * c->steps));
  const char *text = vtb_arena_strdup(&c->g->ad->module->scratch, s.at);
  vtb_strbuf_free(&s);
  return text;
}

static vtb_value *shifted(rule *c, vtb_value *x, int by, vtb_value *first) {
  vtb_attr attrs[3] = {VTB_A_INT("axis", 1), VTB_A_INT("by", by)};
  int n = 2 + vtb_attrs_of(c->inst, "path", attrs + 2);
  vtb_value *operands[] = {x, first};
  return vtb_build(c->b, VTB_OP_shift, operands, first ? 2 : 1, attrs, n)->results[0];
}

/* ---- rows and steps -------------------------------------------------------------------------- */

static vtb_type rows_type(const rule *c, int64_t rows, vtb_dim width) {
  return VTB__F32(c->batch, c->tokens, c->heads, {.size = rows}, width);
}

/* Rows [B,N,h,n,X], zeros before and after them, as steps of the scan [B, N steps, h, X]. */
static vtb_value *as_steps(rule *c, vtb_value *x, int64_t before, int64_t after) {
  vtb_type t = VTB__F32(c->batch, {.size = c->of.n_tokens * c->steps}, c->heads, x->type.dim[4]);
  if (before || after) x = vtb__build_pad(c->b, x, 3, before, after, 1);
  if (c->steps > 1) x = vtb_b_transpose(c->b, x, (int64_t[]){0, 1, 3, 2, 4});
  return vtb_b_reshape(c->b, x, &t);
}

/* And back: rows [first, first + R) of every token. */
static vtb_value *as_rows(rule *c, vtb_value *x, int64_t first) {
  vtb_type t = rows_type(c, c->steps, x->type.dim[3]);
  if (c->steps == 1) return vtb_b_reshape(c->b, x, &t);
  vtb_dim heads = t.dim[2];
  t.dim[2] = t.dim[3], t.dim[3] = heads;
  x = vtb_b_transpose(c->b, vtb_b_reshape(c->b, x, &t), (int64_t[]){0, 1, 3, 2, 4});
  return vtb_b_slice(c->b, x, 3, first, first + c->of.rank, 1);
}

/* The decay at the first step of a token, 1 at the others. */
static vtb_value *decay_of_steps(rule *c) {
  vtb_value *d = c->inst->operands[c->of.at.d];
  if (c->steps == 1) return d;
  bool along_key = c->of.decay->axes & VTB_ALONG_KEY;
  vtb_type t = rows_type(c, 1, along_key ? c->key : (vtb_dim){.size = 1});
  if (!c->of.decay->by_step) {
    vtb_type heads = VTB__F32(c->batch, c->tokens, c->heads);
    d = vtb_b_broadcast(c->b, d, &heads);
  }
  d = vtb_b_reshape(c->b, d, &t);
  t.dim[3].size = c->steps - 1;
  vtb_value *parts[] = {d, vtb_b_splat(c->b, 1, &t)};
  d = as_steps(c, vtb_b_concat(c->b, parts, 2, 3), 0, 0);
  if (along_key) return d;
  vtb_type flat = VTB__F32(c->batch, {.size = c->of.n_tokens * c->steps}, c->heads);
  return vtb_b_reshape(c->b, d, &flat);
}

/* The adjoint of that, [B, N steps, h] or [B, N steps, h, K], as the adjoint of the decay. */
static vtb_value *decay_adjoint(rule *c, vtb_value *d) {
  const vtb_type *want = &c->inst->operands[c->of.at.d]->type;
  if (c->steps == 1) return d;
  vtb_type t = VTB__F32(c->batch, c->tokens, {.size = c->steps}, c->heads);
  if (d->type.rank == 4) t.dim[t.rank++] = c->key;
  d = vtb_b_slice(c->b, vtb_b_reshape(c->b, d, &t), 2, 0, 1, 1);
  if (!c->of.decay->by_step)
    return vtb_b_reduce(c->b, VTB_OP_reduce_sum, d, (int64_t[]){0, 1, 2}, 3, false);
  return vtb_b_reshape(c->b, d, want);
}

/* ---- the adjoint ----------------------------------------------------------------------------- */

/* Attributes of the delta but the path and the initial state. */
static int copy_attrs(const vtb_inst *inst, vtb_attr *attrs, const char *klass) {
  attrs[0] = VTB_A_STR("class", klass);
  return 1 + vtb_attrs_of(inst, "mode chunk", attrs + 1);
}

static vtb_value *make_whole(rule *c) {
  vtb_attr attrs[6];
  int n = copy_attrs(c->inst, attrs, c->of.decay->name);
  attrs[n++] = VTB_A_STR("path", reversed_path(c));
  vtb_value **x = c->inst->operands,
            *operands[] = {x[c->of.at.b], c->omega, x[c->of.at.k], x[c->of.at.d]};
  return vtb_build(c->b, VTB_OP_delta, operands, 4, attrs, n)->results[0];
}

/* Results dq, dk, dv, dd, [dS_0] as ir/recurrence.h has them. */
static vtb_inst *scan_adjoint(rule *c, vtb_value *whole) {
  bool spread = c->steps > 1 && !c->of.decay->by_step;
  int64_t rows = c->of.rank, more = c->steps - rows;
  vtb_attr attrs[6];
  int n = copy_attrs(c->inst, attrs, spread ? "scalar" : c->of.decay->name), n_operands = 0;
  if (c->path) attrs[n++] = VTB_A_STR("path", c->path);
  if (c->of.init) attrs[n++] = VTB_A_INT("init", 1);
  vtb_value **x = c->inst->operands, *operands[6];
  operands[n_operands++] = as_steps(c, shifted(c, x[c->of.at.b], -1, NULL), more, 0);
  operands[n_operands++] = as_steps(c, x[c->of.at.k], 0, more);
  operands[n_operands++] = as_steps(c, c->w, 0, more);
  operands[n_operands++] = decay_of_steps(c);
  if (c->of.init) operands[n_operands++] = x[c->of.at.s0];
  operands[n_operands++] = as_steps(c, shifted(c, whole, -1, NULL), more, 0);
  return vtb_build(c->b, VTB_OP_linscan_grad, operands, n_operands, attrs, n);
}

/* The rows [B,h,R,X] of the first token visited. */
static vtb_value *first_token(rule *c, vtb_value *x) {
  int64_t at = vtb__path_end(c->g->ad->module, c->of.path, c->of.n_tokens, false);
  vtb_type t = VTB__F32(c->batch, c->heads, {.size = c->of.rank}, x->type.dim[4]);
  return vtb_b_reshape(c->b, vtb_b_slice(c->b, x, 1, at, at + 1, 1), &t);
}

void vtb__grad_delta(vtb__gradient *g, vtb_inst *inst) {
  const vtb_dim *k = inst->operands[0]->type.dim;
  rule c = {g, &g->b, inst, .of = vtb_delta_of(inst), k[0], k[1], k[2], k[4]};
  vtb_value **x = inst->operands;
  c.steps = 2 * c.of.rank - 1;
  c.omega = vtb__adjoint(g, inst->results[0]), c.w = inst->results[0];
  c.path = path_of_steps(&c);
  vtb_value *whole = make_whole(&c);
  vtb__contribute(g, x[c.of.at.v], whole);
  bool init = c.of.init && vtb__wants(x[c.of.at.s0]);
  if (!vtb__wants(x[c.of.at.k]) && !vtb__wants(x[c.of.at.b]) && !vtb__wants(x[c.of.at.d]) && !init)
    return;
  vtb_inst *scan = scan_adjoint(&c, whole);
  vtb__contribute(g, x[c.of.at.k], as_rows(&c, scan->results[1], 0));
  vtb__contribute(g, x[c.of.at.d], decay_adjoint(&c, scan->results[3]));
  vtb_value *first = NULL;
  if (c.of.init)
    first = vtb_b_einsum(c.b, "bhkv,bhrv->bhrk", x[c.of.at.s0], first_token(&c, whole));
  vtb__contribute(g, x[c.of.at.b],
                  shifted(&c, as_rows(&c, scan->results[0], c.steps - c.of.rank), 1, first));
  if (!init) return;
  vtb__contribute(g, x[c.of.at.s0], scan->results[4]);
  vtb__contribute(
      g, x[c.of.at.s0],
      vtb_b_einsum(c.b, "bhrk,bhrv->bhkv", first_token(&c, x[c.of.at.b]), first_token(&c, whole)));
}
