/* linscan and linscan_grad token by token: every class in mode recurrent, and classes key, value,
 * full and rates in all modes. States live in registers; lanes run along V, many keys are tiles of
 * blocks of their own. Sums that several blocks share, over V (dq, dk, dd of class key) or over
 * tiles of keys (y, dv, dd of the other classes), and the sum of dA over the batch are added by a
 * second kernel, in order. */
#include "codegen/cuda/scan/linscan.h"

#define HISTORY_BYTES (100 * 1024) /* of a segment's states in shared memory */

/* How lanes and registers share the state. */
typedef struct steps_shape {
  int64_t kr, groups, wide, segment;
  int64_t blocks, key_tiles; /* of one scan */
} steps_shape;

static int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }

/* At most `most_keys` a block, a multiple of 16. */
static steps_shape make_shape(const vtb__cuda_scan *s, int64_t most_keys) {
  steps_shape p = {.kr = 1, .segment = 8, .key_tiles = ceil_div(s->K, most_keys)};
  int64_t keys = ceil_div(s->K, p.key_tiles), columns = ceil_div(s->V1, 32);
  while (p.kr < keys && p.kr < 16) p.kr *= 2;
  p.groups = ceil_div(keys, p.kr);
  p.wide = p.groups > 1 ? 1 : columns < 4 ? columns : 4;
  p.blocks = ceil_div(columns, p.wide);
  while (p.segment > 1 && p.segment * p.kr * p.groups * p.wide * 128 > HISTORY_BYTES)
    p.segment /= 2;
  return p;
}

static void hole_sizes(vtb__cuda_holes *h, const vtb__cuda_scan *s, const steps_shape *p) {
  vtb__hole_number(h, "N", s->N);
  vtb__hole_number(h, "K", s->K);
  vtb__hole_number(h, "V", s->V);
  vtb__hole_number(h, "V1", s->V1);
  vtb__hole_number(h, "KR", p->kr);
  vtb__hole_number(h, "GROUPS", p->groups);
  vtb__hole_number(h, "WIDE", p->wide);
  vtb__hole_number(h, "KEY_TILES", p->key_tiles);
}

/* ${decay}: of token i of the segment, key j of the lane; and what of the decays is loaded a
 * segment at a time. */
static void hole_decays(vtb__cuda_holes *h, vtb__cuda_scan *s, vtb_cuda_kernel *k) {
  bool by_key = s->decay == VTB_DECAY_KEY, rates = s->decay == VTB_DECAY_RATES;
  bool by_value = s->decay == VTB_DECAY_VALUE || rates;
  vtb__scan_in(s, k, &s->at.d, "d");
  vtb__hole_number(h, "BY_KEY", by_key);
  vtb__hole_number(h, "BY_VALUE", by_value);
  vtb__hole_number(h, "RATES", rates);
  vtb__hole_text(h, "decay_row", "%s%s%s", by_key ? "d[" : "",
                 by_key ? vtb__cuda_scan_at(s, s->at.d, "x") : "0.0f", by_key ? "]" : "");
  vtb__hole_text(h, "decay_value", "%s%s%s", by_value ? "d[" : "",
                 by_value ? vtb__cuda_scan_at(s, s->at.d, "x") : "1.0f", by_value ? "]" : "");
  switch (s->decay) {
  case VTB_DECAY_CONSTANT:
    vtb__hole_text(h, "decay", "d[%s]", vtb_cuda_offset(s->c, s->at.d, (const char *const[]){"h"}));
    break;
  case VTB_DECAY_SCALAR:
    vtb__hole_text(h, "decay", "d[%s]", vtb__cuda_scan_at(s, s->at.d, NULL));
    break;
  case VTB_DECAY_KEY:
    vtb__hole_text(h, "decay", "decays[at]");
    break;
  case VTB_DECAY_VALUE:
    vtb__hole_text(h, "decay", "step");
    break;
  case VTB_DECAY_FULL:
    vtb__hole_text(
        h, "decay", "(real && key < K ? d[%s] : 1.0f)",
        vtb_cuda_offset(s->c, s->at.d, (const char *const[]){"b", "pos", "h", "key", "x"}));
    break;
  default:
    vtb__hole_text(h, "decay", "vtb_exp2_fast(step * rate[j])");
  }
  if (rates) {
    vtb__scan_in(s, k, &s->at.rates, "a");
    vtb__hole_text(h, "rate", "a[%s]",
                   vtb_cuda_offset(s->c, s->at.rates, (const char *const[]){"h", "key", "x"}));
  } else {
    vtb__hole_text(h, "rate", "0.0f");
  }
}

/* A state read from a tensor and, for the normalizer, a vector; 0 without one. */
static void hole_state(vtb__cuda_holes *h, vtb__cuda_scan *s, vtb_cuda_kernel *k, const char *hole,
                       const int *tensor, const int *vector) {
  vtb_strbuf name = {0};
  if (*tensor >= 0) vtb__scan_in(s, k, tensor, hole);
  vtb_strbuf_printf(&name, "%s_n", hole);
  if (*vector >= 0) vtb__scan_in(s, k, vector, name.at);
  if (*vector >= 0)
    vtb__hole_text(h, hole, "(x < V ? %s[%s] : %s[%s])", hole,
                   vtb__cuda_state_at(s, *tensor, false), name.at,
                   vtb__cuda_state_at(s, *vector, true));
  else if (*tensor >= 0)
    vtb__hole_text(h, hole, "%s[%s]", hole, vtb__cuda_state_at(s, *tensor, false));
  else
    vtb__hole_text(h, hole, "0.0f");
  vtb_strbuf_free(&name);
}

/* The same for storing s, if `asked`. */
static void hole_put_state(vtb__cuda_holes *h, vtb__cuda_scan *s, vtb_cuda_kernel *k,
                           const char *hole, bool asked, const int *tensor, const int *vector) {
  bool with_vector = asked && *vector >= 0;
  if (asked && *tensor >= 0) vtb__scan_out(s, k, tensor, "out_s");
  if (with_vector) vtb__scan_out(s, k, vector, "out_n");
  if (with_vector)
    vtb__hole_text(h, hole, "if (x < V)\n out_s[%s] = s;\nelse\n out_n[%s] = s;",
                   vtb__cuda_state_at(s, *tensor, false), vtb__cuda_state_at(s, *vector, true));
  else if (asked && *tensor >= 0)
    vtb__hole_text(h, hole, "out_s[%s] = s;", vtb__cuda_state_at(s, *tensor, false));
  else
    vtb__hole_text(h, hole, "(void)s;");
}

/* ---- results, and parts of them -------------------------------------------------------------- */

/* Rows that blocks make together: each stores its part of `n` of them, a second kernel adds them in
 * order. */
typedef struct steps_parts {
  const char *from; /* C expression: which part the block makes */
  int64_t n_parts, n, width;
  int temp; /* [n_parts, n, scans, N, width]; -1: one part, the rows themselves are stored */
} steps_parts;

static steps_parts make_parts(const vtb__cuda_scan *s, const char *from, int64_t n_parts, int64_t n,
                              int64_t width) {
  steps_parts p = {.from = from, .n_parts = n_parts, .n = n, .width = width, .temp = -1};
  if (n_parts > 1) p.temp = vtb_cuda_temp(s->c, n_parts * n * s->n * s->N * width * 4);
  return p;
}

/* Statements that store `value` at the row of `pos` and column x < parts->width as row `which` (a C
 * expression) of the parts; t is the row's step. */
static void put_part(vtb__cuda_scan *s, vtb_cuda_kernel *k, const steps_parts *p, const char *name,
                     const char *which, const char *t, const char *value, vtb_strbuf *text) {
  vtb_cuda_temp_out(k, p->temp, "float", name);
  vtb_strbuf_printf(text,
                    "if (x < %lld) %s[((((vtb_i64)%s * %lld + %s) * %lld + scan) * %lld + %s) * "
                    "%lld + x] = %s;\n",
                    (long long)p->width, name, p->from, (long long)p->n, which, (long long)s->n,
                    (long long)s->N, t, (long long)p->width, value);
}

/* Statements that store `value` in a result and, with the normalizer's column, a vector. */
static void put_row(vtb__cuda_scan *s, vtb_cuda_kernel *k, const char *name, const int *tensor,
                    const int *vector, const char *value, vtb_strbuf *text) {
  vtb__scan_out(s, k, tensor, name);
  vtb_strbuf_printf(text, "if (x < %lld) %s[%s] = %s;\n",
                    (long long)vtb_cuda_tensor_of(s->c, *tensor)->type->dim[3].size, name,
                    vtb__cuda_scan_at(s, *tensor, "x"), value);
  if (!vector || *vector < 0) return;
  vtb__scan_out(s, k, vector, "vector");
  vtb_strbuf_printf(text, "else vector[%s] = %s;\n", vtb__cuda_scan_at(s, *vector, NULL), value);
}

/* Adds the parts of row `which`. */
static void add_parts(vtb__cuda_scan *s, const steps_parts *p, int which, const int *tensor,
                      const int *vector) {
  if (p->temp < 0) return;
  int64_t n = s->N * p->width, per_scan = ceil_div(n, 256);
  vtb_cuda_kernel *k = vtb_cuda_begin(s->c, "linscan_add_parts", 256);
  vtb_strbuf put = {0};
  vtb__scan_begin(s, k, per_scan);
  vtb_cuda_temp_in(k, p->temp, "float", "parts");
  put_row(s, k, "result", tensor, vector, "sum", &put);
  vtb_cuda_line(k, "const int i = unit * 256 + vtb_tid();");
  vtb_cuda_open(k, "if (i < %lld)", (long long)n);
  vtb_cuda_line(k, "const int x = i %% %lld, t = i / %lld, pos = %s;", (long long)p->width,
                (long long)p->width, vtb__scan_place(s, k));
  vtb_cuda_line(k, "float sum = 0.0f;");
  vtb_cuda_open(k, "for (int part = 0; part < %lld; part++)", (long long)p->n_parts);
  vtb_cuda_line(k, "sum += parts[(((vtb_i64)part * %lld + %d) * %lld + scan) * %lld + i];",
                (long long)p->n, which, (long long)s->n, (long long)n);
  vtb_cuda_close(k);
  vtb_cuda_line(k, "%s", put.at);
  vtb_cuda_close(k);
  vtb_cuda_launch(k, s->n * per_scan);
  vtb_strbuf_free(&put);
}

static void share(vtb_cuda_kernel *k, vtb__cuda_scan *s, const steps_shape *p, int64_t segment,
                  bool grad) {
  int64_t keys = p->kr * p->groups;
  if (s->decay == VTB_DECAY_KEY)
    vtb_cuda_shared(k, "float", 4, "decays", segment * keys);
  else
    vtb_cuda_line(k, "VTB_PTR(float) decays = keys; /* none */");
  vtb_cuda_shared(k, "float", 4, "keys", segment * keys);
  vtb_cuda_shared(k, "float", 4, "queries", segment * keys);
  if (p->groups > 1)
    vtb_cuda_shared(k, "float", 4, "parts", (grad ? 2 : 1) * p->groups * segment * 32);
  else
    vtb_cuda_line(k, "VTB_PTR(float) parts = keys; /* none */");
}

/* ---- forward --------------------------------------------------------------------------------- */

#define FORWARD_KEYS 256 /* of a block */

void vtb__cuda_scan_steps(vtb__cuda_scan *s) {
  vtb__cuda_holes h;
  steps_shape p = make_shape(s, FORWARD_KEYS);
  steps_parts y = make_parts(s, "key_tile", p.key_tiles, 1, s->V1);
  vtb_cuda_kernel *k = vtb_cuda_begin(s->c, "linscan_steps", (int)(32 * p.groups * p.wide));
  vtb_strbuf put = {0};
  vtb__holes_init(&h);
  vtb__scan_begin(s, k, p.blocks * p.key_tiles);
  vtb__hole_place(&h, s, k);
  vtb__hole_row(&h, s, k, VTB__ROW_Q, "q");
  vtb__hole_row(&h, s, k, VTB__ROW_K, "k");
  vtb__hole_row(&h, s, k, VTB__ROW_V, "v");
  hole_decays(&h, s, k);
  hole_sizes(&h, s, &p);
  vtb__hole_number(&h, "FIRST", s->init);
  vtb__hole_number(&h, "LAST", s->last);
  hole_state(&h, s, k, "first", &s->at.s0, &s->at.n0);
  hole_put_state(&h, s, k, "put_last", s->last, &s->at.s, &s->at.n);
  if (y.temp >= 0)
    put_part(s, k, &y, "part_y", "0", "t0 + i", "value", &put);
  else
    put_row(s, k, "y_out", &s->at.y, &s->at.z, "value", &put);
  vtb__hole_text(&h, "put", "(void)pos;\n%s", put.at);
  share(k, s, &p, 8, false);
  vtb__holes_fill(&h, k, "linscan_steps.cu");
  vtb_cuda_launch(k, s->n * p.blocks * p.key_tiles);
  vtb_strbuf_free(&put);
  add_parts(s, &y, 0, &s->at.y, &s->at.z);
}

/* ---- adjoint --------------------------------------------------------------------------------- */

#define ADJOINT_KEYS 128 /* of a block, whose states of a segment share its memory */

/* dA [h, K, V] of a direction: the batch entries' parts [B, h, direction, K, V] in order. */
static void add_rates(vtb__cuda_scan *s, int rates) {
  int64_t n = s->K * s->V, per_scan = ceil_div(n, 256), entry = s->heads * s->n_dirs;
  vtb_cuda_kernel *k = vtb_cuda_begin(s->c, "linscan_add_rates", 256);
  vtb__scan_begin(s, k, per_scan);
  vtb_cuda_temp_in(k, rates, "float", "rates");
  vtb__scan_out(s, k, &s->at.drates, "da");
  vtb_cuda_line(k, "const int i = unit * 256 + vtb_tid();");
  vtb_cuda_open(k, "if (i < %lld)", (long long)n);
  vtb_cuda_line(k, "const int x = i %% %lld, key = i / %lld;", (long long)s->V, (long long)s->V);
  vtb_cuda_line(k, "float sum = 0.0f;");
  vtb_cuda_line(
      k, "for (int e = 0; e < %lld; e++) sum += rates[((vtb_i64)e * %lld + scan) * %lld + i];",
      (long long)s->B, (long long)entry, (long long)n);
  vtb_cuda_line(k, "da[%s] = sum;",
                vtb_cuda_offset(s->c, s->at.drates, (const char *const[]){"h", "key", "x"}));
  vtb_cuda_close(k);
  vtb_cuda_launch(k, entry * per_scan);
}

/* results of width K: dq, dk and, class key, dd; of width V: dv and, classes of V, dd */
typedef struct steps_sums {
  const int *by_key[3], *by_value[2];
  int n_by_key, n_by_value;
  steps_parts keys, values;
} steps_sums;

static steps_sums make_sums(const vtb__cuda_scan *s, const steps_shape *p) {
  bool by_key = s->decay == VTB_DECAY_KEY,
       by_value = s->decay == VTB_DECAY_VALUE || s->decay == VTB_DECAY_RATES;
  steps_sums r = {.by_key = {&s->at.dq, &s->at.dk, &s->at.dd}, .by_value = {&s->at.dv, &s->at.dd}};
  r.n_by_key = by_key ? 3 : 2;
  r.n_by_value = by_value ? 2 : 1;
  r.keys = make_parts(s, "block", p->blocks, r.n_by_key, s->K);
  r.values = make_parts(s, "key_tile", p->key_tiles, r.n_by_value, s->V);
  return r;
}

/* ${put_sum} stores row `which` of width K, ${put} value and value_d of width V. */
static void hole_sums(vtb__cuda_holes *h, vtb__cuda_scan *s, vtb_cuda_kernel *k,
                      const steps_sums *r) {
  static const char *const keys[] = {"dq", "dk", "dd"}, *const values[] = {"dv_out", "dd"};
  static const char *const number[] = {"0", "1"}, *const value[] = {"value", "value_d"};
  vtb_strbuf put = {0}, put_sum = {0};
  if (r->keys.temp >= 0)
    put_part(s, k, &r->keys, "part_k", "which", "t0 + token", "value", &put_sum);
  for (int i = 0; i < r->n_by_key && r->keys.temp < 0; i++) {
    vtb_strbuf_printf(&put_sum, "if (which == %d) ", i);
    put_row(s, k, keys[i], r->by_key[i], NULL, "value", &put_sum);
  }
  for (int i = 0; i < r->n_by_value; i++)
    if (r->values.temp >= 0)
      put_part(s, k, &r->values, "part_v", number[i], "t0 + i", value[i], &put);
    else
      put_row(s, k, values[i], r->by_value[i], NULL, value[i], &put);
  vtb__hole_text(h, "put_sum", "(void)pos;\n%s", put_sum.at);
  vtb__hole_text(h, "put", "(void)pos, (void)value_d;\n%s", put.at);
  vtb_strbuf_free(&put);
  vtb_strbuf_free(&put_sum);
}

static void hole_full_and_rates(vtb__cuda_holes *h, vtb__cuda_scan *s, vtb_cuda_kernel *k,
                                int rates) {
  bool full = s->decay == VTB_DECAY_FULL;
  if (full) vtb__scan_out(s, k, &s->at.dd, "dd");
  vtb__hole_number(h, "FULL", full);
  if (full)
    vtb__hole_text(
        h, "put_full", "dd[%s] = value;",
        vtb_cuda_offset(s->c, s->at.dd, (const char *const[]){"b", "pos", "h", "key", "x"}));
  else
    vtb__hole_text(h, "put_full", "(void)value;");
  if (rates >= 0) vtb_cuda_temp_out(k, rates, "float", "rates");
  vtb__hole_text(h, "put_rate",
                 rates >= 0 ? "rates[((vtb_i64)scan * K + key) * V + x] = s;" : "(void)s;");
}

void vtb__cuda_scan_steps_grad(vtb__cuda_scan *s) {
  vtb__cuda_holes h;
  steps_shape p = make_shape(s, ADJOINT_KEYS);
  steps_sums sums = make_sums(s, &p);
  int64_t keys = p.kr * p.groups;
  int starts = vtb_cuda_temp(s->c, s->n * ceil_div(s->N, p.segment) * s->K * s->V1 * 4);
  int rates = s->decay == VTB_DECAY_RATES ? vtb_cuda_temp(s->c, s->n * s->K * s->V * 4) : -1;
  vtb_cuda_kernel *k = vtb_cuda_begin(s->c, "linscan_steps_grad", (int)(32 * p.groups * p.wide));
  vtb__holes_init(&h);
  vtb__scan_begin(s, k, p.blocks * p.key_tiles);
  vtb__hole_place(&h, s, k);
  vtb__hole_row(&h, s, k, VTB__ROW_Q, "q");
  vtb__hole_row(&h, s, k, VTB__ROW_K, "k");
  vtb__hole_row(&h, s, k, VTB__ROW_V, "v");
  vtb__hole_row(&h, s, k, VTB__ROW_DY, "dy");
  hole_decays(&h, s, k);
  hole_sizes(&h, s, &p);
  vtb__hole_number(&h, "SEGMENT", p.segment);
  vtb__hole_number(&h, "FIRST", s->init);
  vtb__hole_number(&h, "LATER", s->dlast);
  vtb__hole_number(&h, "DFIRST", s->init);
  hole_state(&h, s, k, "first", &s->at.s0, &s->at.n0);
  hole_state(&h, s, k, "later", &s->at.ds, &s->at.dn);
  hole_put_state(&h, s, k, "put_first", s->init, &s->at.ds0, &s->at.dn0);
  vtb_cuda_temp_out(k, starts, "float", "starts");
  hole_sums(&h, s, k, &sums);
  hole_full_and_rates(&h, s, k, rates);
  share(k, s, &p, p.segment, true);
  vtb_cuda_shared(k, "float", 4, "history", p.segment * keys * p.wide * 32);
  vtb_cuda_shared(k, "float", 4, "rows",
                  (2 + (sums.n_by_value == 2)) * p.segment * p.groups * p.wide * 32);
  vtb_cuda_shared(k, "float", 4, "sums", p.wide * sums.n_by_key * p.segment * keys);
  vtb__holes_fill(&h, k, "linscan_steps_grad.cu");
  vtb_cuda_launch(k, s->n * p.blocks * p.key_tiles);
  for (int i = 0; i < sums.n_by_key; i++) add_parts(s, &sums.keys, i, sums.by_key[i], NULL);
  for (int i = 0; i < sums.n_by_value; i++) add_parts(s, &sums.values, i, sums.by_value[i], NULL);
  if (rates >= 0) add_rates(s, rates);
}
