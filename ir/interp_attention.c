/* Interpreter: attention and its adjoint, one query at a time with all of its scores; see
 * ir/attention.h. */
#include "ir/attention.h"
#include "ir/interp_internal.h"

#include <math.h>

typedef struct query {
  const vtb_attention *a;
  /* the query; keys and values of its batch entry and head; bias NULL or its row */
  const double *q, *k, *v, *bias;
  int64_t k_step, v_step;      /* from one key to the next */
  int64_t n_keys;              /* it may see */
  int64_t index;               /* (b * N + i) * h + head */
  int64_t k_at, v_at, bias_at; /* offsets of k, v and bias in their tensors */
} query;

static query query_at(const vtb_attention *a, vtb_tensor *const *in, int64_t b, int64_t i,
                      int64_t head) {
  query x = {.a = a, .k_step = a->kv_heads * a->width, .v_step = a->kv_heads * a->value_width};
  int64_t group = head / (a->n_heads / a->kv_heads), seen = i + 1 + a->n_keys - a->n_queries;
  x.index = (b * a->n_queries + i) * a->n_heads + head;
  x.k_at = (b * a->n_keys * a->kv_heads + group) * a->width;
  x.v_at = (b * a->n_keys * a->kv_heads + group) * a->value_width;
  x.bias_at =
      (((a->bias_batch > 1 ? b : 0) * a->bias_heads + head % a->bias_heads) * a->n_queries + i) *
      a->n_keys;
  x.q = in[0]->data + x.index * a->width, x.k = in[1]->data + x.k_at, x.v = in[2]->data + x.v_at;
  if (a->bias >= 0) x.bias = in[a->bias]->data + x.bias_at;
  x.n_keys = !a->causal ? a->n_keys : seen > 0 ? seen : 0;
  return x;
}

static double score(const query *x, int64_t j) {
  double s = 0;
  for (int64_t c = 0; c < x->a->width; c++) s += x->q[c] * x->k[j * x->k_step + c];
  return s * x->a->scale + (x->bias ? x->bias[j] : 0);
}

/* The scores in `s`; returns lse. */
static double scores(const query *x, double *s) {
  double m = -INFINITY, sum = 0;
  for (int64_t j = 0; j < x->n_keys; j++) {
    s[j] = score(x, j);
    if (!(s[j] <= m)) m = s[j];
  }
  if (m == -INFINITY) return INFINITY;
  for (int64_t j = 0; j < x->n_keys; j++) sum += exp(s[j] - m);
  return m + log(sum);
}

/* Calls `each` for every query, batch entries and queries outermost. */
typedef void each_fn(vtb__interp_eval *e, const query *x, double *s);
static vtb_status for_queries(vtb__interp_eval *e, each_fn *each) {
  vtb_attention a = vtb_attention_of(e->inst);
  a.n_batch = e->in[0]->type.dim[0].size;
  if (a.bias >= 0 && vtb_is_batch(a.bias_batch)) a.bias_batch = a.n_batch;
  double *s = vtb_xcalloc((size_t)a.n_keys, sizeof *s);
  for (int64_t b = 0; b < a.n_batch; b++)
    for (int64_t i = 0; i < a.n_queries; i++)
      for (int64_t head = 0; head < a.n_heads; head++) {
        query x = query_at(&a, e->in, b, i, head);
        each(e, &x, s);
      }
  vtb_free(s);
  return VTB_OK;
}

static void attend(vtb__interp_eval *e, const query *x, double *s) {
  vtb_factors factors = vtb_factors_of(e->inst);
  int64_t width = x->a->value_width;
  double lse = scores(x, s), *y = e->out[0]->data + x->index * width;
  e->out[1]->data[x->index] = lse;
  for (int64_t c = 0; c < width; c++) y[c] = 0;
  for (int64_t j = 0; j < x->n_keys; j++)
    for (int64_t c = 0; c < width; c++)
      y[c] += vtb_round_factor(exp(s[j] - lse), factors) * x->v[j * x->v_step + c];
}

vtb_status vtb__interp_attention(vtb__interp_eval *e) { return for_queries(e, attend); }

static void adjoin(vtb__interp_eval *e, const query *x, double *s) {
  const vtb_attention *a = x->a;
  vtb_factors factors = vtb_factors_of(e->inst);
  int64_t width = a->value_width;
  double lse = e->in[a->lse]->data[x->index], delta = 0;
  const double *y = e->in[a->y]->data + x->index * width,
               *dy = e->in[a->dy]->data + x->index * width;
  double *dq = e->out[0]->data + x->index * a->width, *dk = e->out[1]->data + x->k_at,
         *dv = e->out[2]->data + x->v_at;
  scores(x, s);
  for (int64_t c = 0; c < width; c++) delta += dy[c] * y[c];
  if (a->dlse >= 0) delta -= e->in[a->dlse]->data[x->index];
  for (int64_t j = 0; j < x->n_keys; j++) {
    double p = exp(s[j] - lse), dp = 0;
    for (int64_t c = 0; c < width; c++) {
      dp += dy[c] * x->v[j * x->v_step + c];
      dv[j * x->v_step + c] += vtb_round_factor(p, factors) * dy[c];
    }
    double ds = p * (dp - delta), factor = vtb_round_factor(ds, factors);
    for (int64_t c = 0; c < a->width; c++) {
      dq[c] += a->scale * factor * x->k[j * x->k_step + c];
      dk[j * x->k_step + c] += a->scale * factor * x->q[c];
    }
    if (a->wants_dbias) e->out[3]->data[x->bias_at + j] += ds;
  }
}

vtb_status vtb__interp_attention_grad(vtb__interp_eval *e) {
  for (int r = 0; r < e->inst->n_results; r++)
    memset(e->out[r]->data, 0, (size_t)vtb_type_count(&e->out[r]->type) * sizeof(double));
  return for_queries(e, adjoin);
}
