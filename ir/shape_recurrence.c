/* Shape rules of recurrences and scans; ir/recurrence.h has the meaning of the operands. */
#include "ir/internal.h"
#include "ir/recurrence.h"

const char *const vtb_mode_names[VTB_N_MODES] = {"auto", "parallel", "recurrent", "chunkwise"};

bool vtb_is_mode(const char *name) {
  bool is = false;
  for (int i = 0; i < VTB_N_MODES; i++) is |= vtb_streq(name, vtb_mode_names[i]);
  return is;
}

static const char *op_name(const vtb__shape *s) { return vtb_op_get(s->inst->op)->name; }

static bool check_mode(vtb__shape *s) {
  const char *mode = vtb_attr_str(s->inst, "mode", "auto");
  if (!vtb_is_mode(mode))
    return vtb__shape_fail(s, VTB_DIAG_IR_ATTR, "%s: no mode \"%s\"", op_name(s), mode);
  const vtb_attr *chunk = vtb_attr_find(s->inst, "chunk");
  if (chunk ? chunk->i >= 1 : !vtb_streq(mode, "chunkwise")) return true;
  return vtb__shape_fail(s, VTB_DIAG_IR_ATTR,
                         "%s: mode chunkwise needs a chunk length of at least 1", op_name(s));
}

/* ---- linscan --------------------------------------------------------------------------------- */

typedef struct scan {
  vtb_dim b, n, h, k, v;
  const vtb_decay *decay;
  bool normalizer, init, dlast;
  int64_t starts;
} scan;

static bool expect(vtb__shape *s, int operand, const char *what, const vtb_dim *dims, int rank) {
  vtb_type want = {.dtype = VTB_F32, .rank = rank};
  for (int i = 0; i < rank; i++) want.dim[i] = dims[i];
  if (vtb_type_equal(&want, vtb__shape_operand(s, operand))) return true;
  return vtb__shape_fail(s, VTB_DIAG_IR_SCAN, "%s: %s is %s, not %s", op_name(s), what,
                         vtb__shape_text(s, vtb__shape_operand(s, operand)),
                         vtb__shape_text(s, &want));
}

static bool expect_decay(vtb__shape *s, const scan *c) {
  const vtb_decay *d = c->decay;
  vtb_dim dims[5] = {c->b, c->n, c->h};
  int rank = 3;
  if (!d->by_step) return expect(s, 3, "the decay d", &c->h, 1);
  if ((d->axes & VTB_ALONG_KEY) && !d->rates) dims[rank++] = c->k;
  if (d->axes & VTB_ALONG_VALUE) dims[rank++] = c->v;
  if (!expect(s, 3, d->rates ? "the step size d" : "the decay d", dims, rank)) return false;
  return !d->rates || expect(s, 4, "the rates A", (vtb_dim[]){c->h, c->k, c->v}, 3);
}

static bool scan_attrs(vtb__shape *s, scan *c) {
  const char *name = vtb_attr_str(s->inst, "class", "");
  vtb_decay_class decay;
  if (!vtb_decay_class_find(name, &decay))
    return vtb__shape_fail(s, VTB_DIAG_IR_ATTR, "%s: no decay class \"%s\"", op_name(s), name);
  c->decay = vtb_decay_get(decay);
  c->normalizer = vtb_attr_int(s->inst, "normalizer", 0) != 0;
  c->init = vtb_attr_int(s->inst, "init", 0) != 0;
  c->dlast = vtb_attr_int(s->inst, "dlast", 0) != 0;
  c->starts = vtb_attr_int(s->inst, "starts", 0);
  if (c->starts < 0 || (c->starts && (!c->decay->rates || c->init || c->dlast)))
    return vtb__shape_fail(s, VTB_DIAG_IR_ATTR,
                           "%s: starts are of class rates, without states given or asked for",
                           op_name(s));
  if (c->normalizer && (c->decay->axes & VTB_ALONG_VALUE))
    return vtb__shape_fail(s, VTB_DIAG_IR_SCAN,
                           "%s: a normalizer needs a decay without a value axis, not class %s",
                           op_name(s), name);
  return check_mode(s);
}

/* q, k, v, d, A, S_0, n_0; returns the number of operands checked, -1 after a failure. */
static int scan_operands(vtb__shape *s, scan *c) {
  int inputs = c->decay->rates ? 5 : 4, n = inputs + (c->init ? 1 + c->normalizer : 0);
  const vtb_type *q = vtb__shape_operand(s, 0), *v = vtb__shape_operand(s, 2);
  if (s->inst->n_operands < n) {
    vtb__shape_fail(s, VTB_DIAG_IR_SCAN, "%s: %d operands, want %d", op_name(s),
                    s->inst->n_operands, n);
    return -1;
  }
  if (q->rank != 4 || v->rank != 4 || vtb_is_batch(q->dim[1].size)) {
    vtb__shape_fail(s, VTB_DIAG_IR_SCAN,
                    "%s: q is %s and v is %s; want [B, N, h, K] and [B, N, h, V]", op_name(s),
                    vtb__shape_text(s, q), vtb__shape_text(s, v));
    return -1;
  }
  c->b = q->dim[0], c->n = q->dim[1], c->h = q->dim[2], c->k = q->dim[3], c->v = v->dim[3];
  bool good = vtb__shape_f32(s) && expect(s, 1, "k", (vtb_dim[]){c->b, c->n, c->h, c->k}, 4) &&
              expect(s, 2, "v", (vtb_dim[]){c->b, c->n, c->h, c->v}, 4) && expect_decay(s, c) &&
              vtb__shape_path(s, c->n.size);
  if (good && c->init)
    good = expect(s, inputs, "the initial state", (vtb_dim[]){c->b, c->h, c->k, c->v}, 4);
  if (good && c->init && c->normalizer)
    good = expect(s, inputs + 1, "the initial normalizer", (vtb_dim[]){c->b, c->h, c->k}, 3);
  return good ? n : -1;
}

/* The states before tokens `starts`, 2 `starts`, ... */
static void start_dims(const scan *c, vtb_dim *dims) {
  vtb_dim n = c->n;
  n.size = (c->n.size - 1) / c->starts;
  dims[0] = c->b, dims[1] = n, dims[2] = c->h, dims[3] = c->k, dims[4] = c->v;
}

static bool wrong_count(vtb__shape *s, int want) {
  if (s->inst->n_operands == want) return false;
  vtb__shape_fail(s, VTB_DIAG_IR_SCAN, "%s: %d operands, want %d", op_name(s), s->inst->n_operands,
                  want);
  return true;
}

static vtb_type f32_of(const vtb_dim *dims, int rank) {
  vtb_type t = {.dtype = VTB_F32, .rank = rank};
  for (int i = 0; i < rank; i++) t.dim[i] = dims[i];
  return t;
}

bool vtb__shape_linscan(vtb__shape *s) {
  scan c = {0};
  if (!scan_attrs(s, &c)) return false;
  int n = scan_operands(s, &c);
  if (n < 0 || wrong_count(s, n)) return false;
  vtb__shape_push(s, f32_of((vtb_dim[]){c.b, c.n, c.h, c.v}, 4));
  vtb_dim dims[5] = {c.b, c.h, c.k, c.v};
  if (c.starts) start_dims(&c, dims);
  vtb__shape_push(s, f32_of(dims, c.starts ? 5 : 4));
  if (!c.normalizer) return true;
  vtb__shape_push(s, f32_of((vtb_dim[]){c.b, c.n, c.h}, 3));
  vtb__shape_push(s, f32_of((vtb_dim[]){c.b, c.h, c.k}, 3));
  return true;
}

bool vtb__shape_linscan_grad(vtb__shape *s) {
  scan c = {0};
  if (!scan_attrs(s, &c)) return false;
  int at = scan_operands(s, &c), n_states = 1 + c.normalizer;
  if (at < 0 || wrong_count(s, at + n_states + (c.dlast ? n_states : 0) + !!c.starts)) return false;
  if (!expect(s, at++, "dy", (vtb_dim[]){c.b, c.n, c.h, c.v}, 4)) return false;
  if (c.normalizer && !expect(s, at++, "dz", (vtb_dim[]){c.b, c.n, c.h}, 3)) return false;
  if (c.dlast && !expect(s, at++, "dS_T", (vtb_dim[]){c.b, c.h, c.k, c.v}, 4)) return false;
  if (c.dlast && c.normalizer && !expect(s, at++, "dn_T", (vtb_dim[]){c.b, c.h, c.k}, 3))
    return false;
  vtb_dim dims[5];
  if (c.starts) start_dims(&c, dims);
  if (c.starts && !expect(s, at++, "the starts", dims, 5)) return false;
  int n_inputs = (c.decay->rates ? 5 : 4) + (c.init ? n_states : 0);
  for (int i = 0; i < n_inputs; i++) vtb__shape_push(s, *vtb__shape_operand(s, i));
  return true;
}

/* ---- delta ----------------------------------------------------------------------------------- */

bool vtb__shape_delta(vtb__shape *s) {
  scan c = {0};
  if (!scan_attrs(s, &c)) return false;
  const vtb_type *k = vtb__shape_operand(s, 0), *v = vtb__shape_operand(s, 1);
  if (c.decay->axes & VTB_ALONG_VALUE)
    return vtb__shape_fail(s, VTB_DIAG_IR_ATTR, "%s: a decay of class %s differs along values",
                           op_name(s), c.decay->name);
  if (k->rank != 5 || v->rank != 5 || vtb_is_batch(k->dim[1].size))
    return vtb__shape_fail(s, VTB_DIAG_IR_SCAN,
                           "%s: k is %s and v is %s; want [B, N, h, R, K] and [B, N, h, R, V]",
                           op_name(s), vtb__shape_text(s, k), vtb__shape_text(s, v));
  c.b = k->dim[0], c.n = k->dim[1], c.h = k->dim[2], c.k = k->dim[4], c.v = v->dim[4];
  vtb_dim r = k->dim[3];
  if (wrong_count(s, 4 + c.init) || !vtb__shape_f32(s) ||
      !expect(s, 1, "v", (vtb_dim[]){c.b, c.n, c.h, r, c.v}, 5) ||
      !expect(s, 2, "b", (vtb_dim[]){c.b, c.n, c.h, r, c.k}, 5) || !expect_decay(s, &c) ||
      !vtb__shape_path(s, c.n.size))
    return false;
  if (c.init && !expect(s, 4, "the initial state", (vtb_dim[]){c.b, c.h, c.k, c.v}, 4))
    return false;
  vtb__shape_push(s, *v);
  return true;
}

/* ---- maxplus --------------------------------------------------------------------------------- */

/* g, i [B, N, ...] and, if asked for, m_0 [B, ...]. */
static bool maxplus_operands(vtb__shape *s, bool init) {
  const vtb_type *g = vtb__shape_operand(s, 0), *i = vtb__shape_operand(s, 1);
  if (!vtb__shape_f32(s)) return false;
  if (g->rank < 2 || vtb_is_batch(g->dim[1].size) || !vtb_type_equal(g, i))
    return vtb__shape_fail(s, VTB_DIAG_IR_SCAN,
                           "%s: g is %s and i is %s; want the same [B, N, ...]", op_name(s),
                           vtb__shape_text(s, g), vtb__shape_text(s, i));
  if (!vtb__shape_path(s, g->dim[1].size)) return false;
  if (!init) return true;
  vtb_dim dims[VTB_MAX_RANK] = {g->dim[0]};
  for (int k = 2; k < g->rank; k++) dims[k - 1] = g->dim[k];
  return expect(s, 2, "m_0", dims, g->rank - 1);
}

bool vtb__shape_maxplus(vtb__shape *s) {
  if (!maxplus_operands(s, s->inst->n_operands == 3)) return false;
  vtb__shape_push(s, *vtb__shape_operand(s, 0));
  return true;
}

bool vtb__shape_maxplus_grad(vtb__shape *s) {
  bool init = vtb_attr_int(s->inst, "init", 0) != 0;
  if (wrong_count(s, 4 + init) || !maxplus_operands(s, init)) return false;
  const vtb_type *g = vtb__shape_operand(s, 0);
  for (int i = 2 + init; i < s->inst->n_operands; i++)
    if (!expect(s, i, i == 2 + init ? "m" : "dm", g->dim, g->rank)) return false;
  vtb__shape_push(s, *g);
  vtb__shape_push(s, *g);
  if (init) vtb__shape_push(s, *vtb__shape_operand(s, 2));
  return true;
}

/* ---- recurrence ------------------------------------------------------------------------------ */

/* The operands of a recurrence by part, and the axes they share. */
typedef struct parts {
  const vtb_func *step;
  int states, inits, seqs, consts;
  vtb_dim b, n, heads[VTB_MAX_RANK];
  int n_heads;
  bool have_b;
} parts;

static bool scan_fail(vtb__shape *s, const char *what, int i, const vtb_type *t,
                      const vtb_type *step) {
  return vtb__shape_fail(s, VTB_DIAG_IR_SCAN, "@%s: %s %d is %s, which does not fit %s a step",
                         s->inst->callee->name, what, i + 1, vtb__shape_text(s, t),
                         vtb__shape_text(s, step));
}

static bool count_parts(vtb__shape *s, parts *p) {
  const vtb_inst *inst = s->inst;
  p->step = inst->callee;
  p->states = (int)vtb_attr_int(inst, "states", -1);
  p->inits = (int)vtb_attr_int(inst, "inits", -1);
  p->seqs = (int)vtb_attr_int(inst, "seqs", -1);
  if (p->states < 0 || p->seqs < 1 || p->inits < 0 || p->seqs > inst->n_operands ||
      p->inits > inst->n_operands || p->states > p->step->n_args)
    return vtb__shape_fail(s, VTB_DIAG_IR_SCAN,
                           "recurrence @%s: states, inits or seqs out of range", p->step->name);
  p->consts = inst->n_operands - p->inits - p->seqs;
  if (p->inits != 0 && p->inits != p->states && p->inits != p->states + 1)
    return vtb__shape_fail(s, VTB_DIAG_IR_SCAN, "recurrence @%s: %d initial states for %d states",
                           p->step->name, p->inits, p->states);
  if (p->consts >= 0 && p->step->n_args == p->states + p->seqs + p->consts &&
      p->step->n_returns >= p->states)
    return true;
  return vtb__shape_fail(
      s, VTB_DIAG_IR_SCAN,
      "recurrence @%s: %d operands do not fit a step of %d arguments and %d results", p->step->name,
      inst->n_operands, p->step->n_args, p->step->n_returns);
}

static bool tail_equal(const vtb_type *t, const vtb_type *step) {
  for (int i = 0; i < step->rank; i++)
    if (t->dim[t->rank - step->rank + i].size != step->dim[i].size) return false;
  return t->dtype == step->dtype;
}

/* The axes `at`.. of t are the heads; the first operand that has them decides. */
static bool heads_at(parts *p, const vtb_type *t, int at, int n) {
  if (p->n_heads < 0) {
    p->n_heads = n;
    for (int i = 0; i < n; i++) p->heads[i] = t->dim[at + i];
  }
  if (n != p->n_heads) return false;
  for (int i = 0; i < n; i++)
    if (t->dim[at + i].size != p->heads[i].size) return false;
  return true;
}

static bool sequence_operand(vtb__shape *s, parts *p, int i) {
  const vtb_type *t = vtb__shape_operand(s, p->inits + i),
                 *step = &p->step->args[p->states + i]->type;
  int n_heads = t->rank - 2 - step->rank;
  bool good = n_heads >= 0 && tail_equal(t, step) && heads_at(p, t, 2, n_heads) &&
              !vtb_is_batch(t->dim[1].size);
  if (good && i == 0) p->b = t->dim[0], p->n = t->dim[1];
  good = good && t->dim[0].size == p->b.size && t->dim[1].size == p->n.size;
  return good || scan_fail(s, "per-step input", i, t, step);
}

static bool initial_operand(vtb__shape *s, parts *p, int i) {
  vtb_type scalar = vtb_type_scalar();
  const vtb_type *t = vtb__shape_operand(s, i),
                 *step = i < p->states ? &p->step->args[i]->type : &scalar;
  bool good = t->rank == 1 + p->n_heads + step->rank && tail_equal(t, step) &&
              t->dim[0].size == p->b.size && heads_at(p, t, 1, p->n_heads);
  return good || scan_fail(s, i < p->states ? "initial state" : "initial log scale", i, t, step);
}

static bool constant_operand(vtb__shape *s, parts *p, int i) {
  const vtb_type *t = vtb__shape_operand(s, p->inits + p->seqs + i);
  const vtb_type *step = &p->step->args[p->states + p->seqs + i]->type;
  int n_heads = t->rank - step->rank;
  bool good = n_heads >= 0 && tail_equal(t, step) && (n_heads == 0 || heads_at(p, t, 0, n_heads));
  return good || scan_fail(s, "constant", i, t, step);
}

/* [B, N, h..., X...] or, without n, [B, h..., X...]. */
static bool push_lifted(vtb__shape *s, const parts *p, const vtb_type *step, bool with_n) {
  vtb_type t = {.dtype = step->dtype};
  if (1 + with_n + p->n_heads + step->rank > VTB_MAX_RANK)
    return vtb__shape_fail(s, VTB_DIAG_IR_SIZE, "recurrence @%s: a result has more than %d axes",
                           p->step->name, VTB_MAX_RANK);
  t.dim[t.rank++] = p->b;
  if (with_n) t.dim[t.rank++] = p->n;
  for (int i = 0; i < p->n_heads; i++) t.dim[t.rank++] = p->heads[i];
  for (int i = 0; i < step->rank; i++) t.dim[t.rank++] = step->dim[i];
  vtb__shape_push(s, t);
  return true;
}

bool vtb__shape_recurrence(vtb__shape *s) {
  parts p = {.n_heads = -1};
  if (!check_mode(s) || !count_parts(s, &p)) return false;
  for (int i = 0; i < p.step->n_args; i++)
    if (vtb_type_is_dynamic(&p.step->args[i]->type))
      return vtb__shape_fail(s, VTB_DIAG_IR_SCAN, "recurrence @%s: a step has no batch axis",
                             p.step->name);
  for (int i = 0; i < p.seqs; i++)
    if (!sequence_operand(s, &p, i)) return false;
  for (int i = 0; i < p.inits; i++)
    if (!initial_operand(s, &p, i)) return false;
  for (int i = 0; i < p.consts; i++)
    if (!constant_operand(s, &p, i)) return false;
  if (!vtb__shape_path(s, p.n.size)) return false;
  for (int i = 0; i < p.states; i++)
    if (!vtb_type_equal(&p.step->returns[i]->type, &p.step->args[i]->type))
      return vtb__shape_fail(s, VTB_DIAG_IR_SCAN, "@%s: state %s is %s but its update is %s",
                             p.step->name, p.step->args[i]->name,
                             vtb__shape_text(s, &p.step->args[i]->type),
                             vtb__shape_text(s, &p.step->returns[i]->type));
  vtb_type scalar = vtb_type_scalar();
  for (int i = p.states; i < p.step->n_returns; i++)
    if (!push_lifted(s, &p, &p.step->returns[i]->type, true)) return false;
  for (int i = 0; i < p.states; i++)
    if (!push_lifted(s, &p, &p.step->returns[i]->type, false)) return false;
  return push_lifted(s, &p, &scalar, false);
}
