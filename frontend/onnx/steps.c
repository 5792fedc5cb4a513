/* Recurrences as Scan, a step of the body a token: linear ones, and what corrections add. */
#include "frontend/onnx/linscan.h"

#define B(op, a, b) vtb__ox_binary(x, op, a, b)

/* ---- loops ----------------------------------------------------------------------------------- */

/* [B, N, ...] to [B, ...] */
static ox_type step_type(const ox_type *t) {
  ox_type s = *t;
  s.rank--;
  for (int i = 1; i < s.rank; i++) s.dim[i] = s.dim[i + 1];
  return s;
}

ox_loop vtb__ox_loop_begin(ox *x, ox_value *const *init, int states, ox_value *const *over,
                           int seqs) {
  ox_loop l = {.outside = x->at, .states = states, .seqs = seqs};
  l.body = VTB_NEW(&x->arena, ox_graph);
  *l.body = (ox_graph){.name = "step", .n_in = states + seqs};
  l.body->in = VTB_NEW_ARRAY(&x->arena, ox_value *, l.body->n_in + 1);
  l.outer = VTB_NEW_ARRAY(&x->arena, ox_value *, l.body->n_in + 1);
  for (int i = 0; i < l.body->n_in; i++) {
    l.outer[i] = i < states ? init[i] : over[i - states];
    ox_type t = i < states ? init[i]->type : step_type(&over[i - states]->type);
    l.body->in[i] = vtb__ox_new(x, &t);
  }
  x->at = l.body;
  return l;
}

/* A body gives what its own nodes make, each once. */
static ox_value *given(ox *x, const ox_graph *g, int n, ox_value *v) {
  bool own = v->def && v->def->graph == g;
  for (int i = 0; i < n; i++) own &= g->out[i] != v;
  return own ? v : vtb__ox_unary(x, "Identity", v);
}

void vtb__ox_loop_end(ox *x, ox_loop *l, ox_value *const *made, int n, int64_t steps,
                      ox_value **out) {
  ox_type *types = VTB_NEW_ARRAY(&x->arena, ox_type, n + 1);
  int64_t *axes = VTB_NEW_ARRAY(&x->arena, int64_t, n + l->seqs + 1);
  int yields = n - l->states;
  l->body->out = VTB_NEW_ARRAY(&x->arena, ox_value *, n + 1);
  for (int i = 0; i < n; i++) {
    ox_value *v = l->body->out[i] = given(x, l->body, i, made[i]);
    types[i] = v->type;
    if (i < l->states) continue;
    for (int k = types[i].rank++; k > 1; k--) types[i].dim[k] = types[i].dim[k - 1];
    types[i].dim[1] = steps;
  }
  l->body->n_out = n;
  x->at = l->outside;
  for (int i = 0; i < n + l->seqs; i++) axes[i] = 1;
  const vtb_attr attrs[] = {VTB_A_INT("num_scan_inputs", l->seqs),
                            VTB_A_INTS("scan_input_axes", axes, l->seqs),
                            VTB_A_INTS("scan_output_axes", axes, yields)};
  ox_node *node =
      vtb__ox_node(x, "Scan", l->outer, l->states + l->seqs, attrs, yields ? 3 : 2, types, n);
  node->body = l->body;
  for (int i = 0; i < yields; i++) out[i] = node->out[l->states + i];
  for (int i = 0; i < l->states; i++) out[yields + i] = node->out[i];
}

/* ---- linear recurrences ---------------------------------------------------------------------- */

/* Decays [B, N, h, ...], or what is the same at all [h], as factors of a state [B, h, K, V] behind
 * the axis of steps, so that the body need not reshape. */
static ox_value *factors(ox *x, const vtb_decay *decay, ox_value *d) {
  int rank = d->type.rank;
  if (decay->axes == VTB_ALONG_BOTH && !decay->rates) return d;
  if (decay->axes == VTB_ALONG_KEY) return vtb__ox_unsqueeze(x, d, 4);
  if (decay->rates || decay->axes == VTB_ALONG_VALUE) return vtb__ox_unsqueeze(x, d, 3);
  return vtb__ox_unsqueeze(x, vtb__ox_unsqueeze(x, d, rank), rank + 1);
}

static ox_value *zeros(ox *x, ox_value *like, int64_t h, int64_t k, int64_t v) {
  const int64_t dim[] = {like->type.dim[0], h, k, v};
  return vtb__ox_expand(x, vtb__ox_number(x, 0), 4, dim);
}

void vtb__ox_linscan_steps(ox *x, const vtb_inst *inst, ox_value *const *in, ox_value **out) {
  ox_form f = vtb__ox_form_of(x, inst, in, 1);
  const vtb_scan *s = &f.s;
  ox_value *over[4] = {in[s->at.q], in[s->at.k], vtb__ox_form_values(&f), in[s->at.d]};
  ox_value *start = vtb__ox_form_start(&f), *made[2], *results[2], *rates = NULL;
  int seqs = s->decay->by_step ? 4 : 3;
  for (int i = 0; i < seqs; i++) over[i] = vtb__ox_along(x, inst, over[i], 1, false);
  if (!start) start = zeros(x, over[0], s->n_heads, s->K, f.V1);
  over[0] = vtb__ox_unsqueeze(x, over[0], 3), over[1] = vtb__ox_unsqueeze(x, over[1], 4);
  over[2] = vtb__ox_unsqueeze(x, over[2], 3), over[3] = factors(x, s->decay, over[3]);
  if (s->decay->rates) rates = in[s->at.rates];
  ox_loop l = vtb__ox_loop_begin(x, &start, 1, over, seqs);
  ox_value *const *a = l.body->in; /* the state, q, k, v, d */
  ox_value *d = s->decay->by_step ? a[4] : over[3];
  if (rates) d = vtb__ox_unary(x, "Exp", B("Mul", d, rates));
  made[0] = B("Add", B("Mul", d, a[0]), B("Mul", a[2], a[3]));
  made[1] = vtb__ox_matmul(x, a[1], made[0]);
  vtb__ox_loop_end(x, &l, made, 2, s->n_tokens, results);
  vtb__ox_form_outputs(&f, vtb__ox_squeeze(x, results[0], 3), out);
  vtb__ox_form_last(&f, results[1], out);
}

/* ---- corrections ----------------------------------------------------------------------------- */

/* w = v + b S, S = D S + k^T w */
void vtb__ox_delta(ox *x, const vtb_inst *inst, ox_value *const *in, ox_value **out) {
  vtb_delta s = vtb_delta_of(inst);
  ox_value *over[4] = {in[s.at.k], in[s.at.v], in[s.at.b], in[s.at.d]}, *made[2], *results[2];
  int seqs = s.decay->by_step ? 4 : 3;
  for (int i = 0; i < seqs; i++) over[i] = vtb__ox_along(x, inst, over[i], 1, false);
  ox_value *start = s.init ? in[s.at.s0] : zeros(x, over[0], s.n_heads, s.K, s.V);
  over[0] = OX_TRANSPOSE(x, over[0], 0, 1, 2, 4, 3);
  over[3] = factors(x, s.decay, over[3]);
  ox_loop l = vtb__ox_loop_begin(x, &start, 1, over, seqs);
  ox_value *const *a = l.body->in; /* the state, k, v, b, d */
  ox_value *d = s.decay->by_step ? a[4] : over[3];
  made[1] = B("Add", a[2], vtb__ox_matmul(x, a[3], a[0]));
  made[0] = B("Add", B("Mul", d, a[0]), vtb__ox_matmul(x, a[1], made[1]));
  vtb__ox_loop_end(x, &l, made, 2, s.n_tokens, results);
  out[0] = vtb__ox_along(x, inst, results[0], 1, true);
}
