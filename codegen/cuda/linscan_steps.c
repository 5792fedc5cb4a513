/* linscan and linscan_grad token by token: every class in mode recurrent, and classes key, value, full and rates in all
 * modes. States live in registers; lanes run along V. Sums over V that several blocks share (dq, dk, dd of class key)
 * and the sum of dA over the batch are added by a second kernel, in order. */
#include "codegen/cuda/linscan.h"

#define HISTORY_BYTES (100 * 1024) /* of a segment's states in shared memory */

/* How lanes and registers share the state. */
typedef struct steps_shape {
  int64_t kr, groups, wide, blocks, segment; /* blocks: of one batch entry and head */
} steps_shape;

static steps_shape make_shape(const vtb__cuda_scan *s) {
  steps_shape p = {.kr = 1, .segment = 8};
  while (p.kr < s->K && p.kr < 16) p.kr *= 2;
  while (p.kr * 32 < s->K) p.kr *= 2; /* at most 32 warps */
  p.groups = (s->K + p.kr - 1) / p.kr;
  int64_t columns = (s->V1 + 31) / 32;
  p.wide = p.groups > 1 ? 1 : columns < 4 ? columns : 4;
  p.blocks = (columns + p.wide - 1) / p.wide;
  while (p.segment > 1 && (p.segment + 1) * p.kr * p.groups * p.wide * 128 > HISTORY_BYTES) p.segment /= 2;
  return p;
}

static void hole_sizes(vtb__cuda_holes *h, const vtb__cuda_scan *s, const steps_shape *p) {
  vtb__hole_number(h, "N", s->N);
  vtb__hole_number(h, "HEADS", s->heads);
  vtb__hole_number(h, "K", s->K);
  vtb__hole_number(h, "V", s->V);
  vtb__hole_number(h, "V1", s->V1);
  vtb__hole_number(h, "KR", p->kr);
  vtb__hole_number(h, "GROUPS", p->groups);
  vtb__hole_number(h, "WIDE", p->wide);
}

/* ${decay}: of token i of the segment, key j of the lane; and what of the decays is loaded a segment at a time. */
static void hole_decays(vtb__cuda_holes *h, const vtb__cuda_scan *s, vtb_cuda_kernel *k) {
  bool by_key = s->decay == VTB_DECAY_KEY, rates = s->decay == VTB_DECAY_RATES;
  bool by_value = s->decay == VTB_DECAY_VALUE || rates;
  vtb_cuda_in(k, s->at.d, "d");
  vtb__hole_number(h, "BY_KEY", by_key);
  vtb__hole_number(h, "BY_VALUE", by_value);
  vtb__hole_number(h, "RATES", rates);
  vtb__hole_text(h, "decay_row", "%s%s%s", by_key ? "d[" : "", by_key ? vtb__cuda_scan_at(s, s->at.d, "x") : "0.0f",
                 by_key ? "]" : "");
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
    vtb__hole_text(h, "decay", "step[i]");
    break;
  case VTB_DECAY_FULL:
    vtb__hole_text(h, "decay", "(real && key < K ? d[%s] : 1.0f)",
                   vtb_cuda_offset(s->c, s->at.d, (const char *const[]){"b", "pos", "h", "key", "x"}));
    break;
  default:
    vtb__hole_text(h, "decay", "vtb_exp2_fast(step[i] * rate[j])");
  }
  if (rates) {
    vtb_cuda_in(k, s->at.rates, "a");
    vtb__hole_text(h, "rate", "a[%s]", vtb_cuda_offset(s->c, s->at.rates, (const char *const[]){"h", "key", "x"}));
  } else {
    vtb__hole_text(h, "rate", "0.0f");
  }
}

/* A state read from a tensor and, for the normalizer, a vector; 0 without one. */
static void hole_state(vtb__cuda_holes *h, const vtb__cuda_scan *s, vtb_cuda_kernel *k, const char *hole, int tensor,
                       int vector) {
  vtb_strbuf name = {0};
  if (tensor >= 0) vtb_cuda_in(k, tensor, hole);
  vtb_strbuf_printf(&name, "%s_n", hole);
  if (vector >= 0) vtb_cuda_in(k, vector, name.at);
  if (vector >= 0)
    vtb__hole_text(h, hole, "(x < V ? %s[%s] : %s[%s])", hole, vtb__cuda_state_at(s, tensor, false), name.at,
                   vtb__cuda_state_at(s, vector, true));
  else if (tensor >= 0)
    vtb__hole_text(h, hole, "%s[%s]", hole, vtb__cuda_state_at(s, tensor, false));
  else
    vtb__hole_text(h, hole, "0.0f");
  vtb_strbuf_free(&name);
}

/* The same for storing s: "put_last" stores to tensors `last` and `last_n`. */
static void hole_put_state(vtb__cuda_holes *h, const vtb__cuda_scan *s, vtb_cuda_kernel *k, const char *hole,
                           int tensor, int vector) {
  if (tensor >= 0) vtb_cuda_out(k, tensor, "out_s");
  if (vector >= 0) vtb_cuda_out(k, vector, "out_n");
  if (vector >= 0)
    vtb__hole_text(h, hole, "if (x < V)\n out_s[%s] = s;\nelse\n out_n[%s] = s;", vtb__cuda_state_at(s, tensor, false),
                   vtb__cuda_state_at(s, vector, true));
  else if (tensor >= 0)
    vtb__hole_text(h, hole, "out_s[%s] = s;", vtb__cuda_state_at(s, tensor, false));
  else
    vtb__hole_text(h, hole, "(void)s;");
}

static void share(vtb_cuda_kernel *k, const vtb__cuda_scan *s, const steps_shape *p, int64_t segment, bool grad) {
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

void vtb__cuda_scan_steps(const vtb__cuda_scan *s) {
  vtb__cuda_holes h;
  steps_shape p = make_shape(s);
  vtb_cuda_kernel *k = vtb_cuda_begin(s->c, "linscan_steps", (int)(32 * p.groups * p.wide));
  vtb__holes_init(&h);
  vtb__hole_place(&h, s, k);
  vtb__hole_row(&h, s, k, VTB__ROW_Q, "q");
  vtb__hole_row(&h, s, k, VTB__ROW_K, "k");
  vtb__hole_row(&h, s, k, VTB__ROW_V, "v");
  hole_decays(&h, s, k);
  hole_sizes(&h, s, &p);
  vtb__hole_number(&h, "FIRST", s->init);
  vtb__hole_number(&h, "LAST", s->last);
  hole_state(&h, s, k, "first", s->at.s0, s->at.n0);
  hole_put_state(&h, s, k, "put_last", s->last ? s->at.s : -1, s->last ? s->at.n : -1);
  vtb_cuda_out(k, s->at.y, "y_out");
  if (s->normalizer) {
    vtb_cuda_out(k, s->at.z, "z");
    vtb__hole_text(&h, "put", "if (x < V)\n y_out[%s] = value;\nelse\n z[%s] = value;",
                   vtb__cuda_scan_at(s, s->at.y, "x"), vtb__cuda_scan_at(s, s->at.z, NULL));
  } else {
    vtb__hole_text(&h, "put", "y_out[%s] = value;", vtb__cuda_scan_at(s, s->at.y, "x"));
  }
  share(k, s, &p, 8, false);
  vtb__holes_fill(&h, k, "linscan_steps.cu");
  vtb_cuda_launch(k, s->B * s->heads * p.blocks);
}

/* ---- adjoint -------------------------------------------------------------------------------------------------- */

typedef struct steps_sums { /* dq, dk and, class key, dd */
  int n, result[3];
  int partial; /* temporary [blocks, n, B h, N, K], -1: the results themselves */
} steps_sums;

static void hole_sums(vtb__cuda_holes *h, const vtb__cuda_scan *s, vtb_cuda_kernel *k, const steps_sums *sums) {
  if (sums->partial >= 0) {
    vtb_cuda_temp_out(k, sums->partial, "float", "partial");
    vtb__hole_text(h, "put_sum",
                   "(void)pos;\npartial[((((vtb_i64)block * N_SUMS + which) * %lld + bh) * N + t0 + token) * K + x] = "
                   "value;",
                   (long long)(s->B * s->heads));
    return;
  }
  static const char *const names[] = {"dq", "dk", "dd"};
  vtb_strbuf text = {0};
  for (int i = 0; i < sums->n; i++) {
    vtb_cuda_out(k, sums->result[i], names[i]);
    vtb_strbuf_printf(&text, "if (which == %d) %s[%s] = value;\n", i, names[i],
                      vtb__cuda_scan_at(s, sums->result[i], "x"));
  }
  vtb__hole_text(h, "put_sum", "%s", text.at);
  vtb_strbuf_free(&text);
}

/* The blocks' parts of result i of the sums, added in order. */
static void add_partials(const vtb__cuda_scan *s, const steps_shape *p, const steps_sums *sums, int i) {
  int64_t bh = s->B * s->heads, n = bh * s->N * s->K;
  vtb_cuda_kernel *k = vtb_cuda_begin(s->c, "linscan_add_blocks", 256);
  vtb_cuda_temp_in(k, sums->partial, "float", "partial");
  vtb_cuda_out(k, sums->result[i], "result");
  vtb_cuda_order order = vtb_cuda_order_make(k, s->path, s->N, "order");
  vtb_cuda_line(k, "const vtb_i64 i = (vtb_i64)vtb_block() * 256 + vtb_tid();");
  vtb_cuda_open(k, "if (i < %lldll)", (long long)n);
  vtb_cuda_line(k, "const int x = (int)(i %% %lld), t = (int)(i / %lld %% %lld), bh = (int)(i / %lld);",
                (long long)s->K, (long long)s->K, (long long)s->N, (long long)(s->K * s->N));
  vtb_cuda_line(k, "const int b = bh / %lld, h = bh %% %lld, pos = %s;", (long long)s->heads, (long long)s->heads,
                vtb_cuda_order_at(s->c, &order, "t"));
  vtb_cuda_line(k, "float sum = 0.0f;");
  vtb_cuda_line(k,
                "for (int block = 0; block < %lld; block++) sum += partial[((vtb_i64)block * %d + %d) * %lldll + i];",
                (long long)p->blocks, sums->n, i, (long long)n);
  vtb_cuda_line(k, "result[%s] = sum;", vtb__cuda_scan_at(s, sums->result[i], "x"));
  vtb_cuda_close(k);
  vtb_cuda_launch(k, (n + 255) / 256);
}

/* dA [h, K, V]: the batch entries' parts [B, h, K, V] in order. */
static void add_rates(const vtb__cuda_scan *s, int rates) {
  int64_t n = s->heads * s->K * s->V;
  vtb_cuda_kernel *k = vtb_cuda_begin(s->c, "linscan_add_rates", 256);
  vtb_cuda_temp_in(k, rates, "float", "rates");
  vtb_cuda_out(k, s->at.drates, "da");
  vtb_cuda_line(k, "const int i = vtb_block() * 256 + vtb_tid();");
  vtb_cuda_open(k, "if (i < %lld)", (long long)n);
  vtb_cuda_line(k, "const int x = i %% %lld, key = i / %lld %% %lld, h = i / %lld;", (long long)s->V, (long long)s->V,
                (long long)s->K, (long long)(s->K * s->V));
  vtb_cuda_line(k, "float sum = 0.0f;");
  vtb_cuda_line(k, "for (int b = 0; b < %lld; b++) sum += rates[(vtb_i64)b * %lld + i];", (long long)s->B,
                (long long)n);
  vtb_cuda_line(k, "da[%s] = sum;", vtb_cuda_offset(s->c, s->at.drates, (const char *const[]){"h", "key", "x"}));
  vtb_cuda_close(k);
  vtb_cuda_launch(k, (n + 255) / 256);
}

static void hole_results(vtb__cuda_holes *h, const vtb__cuda_scan *s, vtb_cuda_kernel *k, int rates) {
  bool by_value = s->decay == VTB_DECAY_VALUE || s->decay == VTB_DECAY_RATES, full = s->decay == VTB_DECAY_FULL;
  vtb_cuda_out(k, s->at.dv, "dv_out");
  if (by_value || full) vtb_cuda_out(k, s->at.dd, "dd");
  if (by_value)
    vtb__hole_text(h, "put", "dv_out[%s] = value;\ndd[%s] = value_d;", vtb__cuda_scan_at(s, s->at.dv, "x"),
                   vtb__cuda_scan_at(s, s->at.dd, "x"));
  else
    vtb__hole_text(h, "put", "(void)value_d;\nif (x < V) dv_out[%s] = value;", vtb__cuda_scan_at(s, s->at.dv, "x"));
  if (full)
    vtb__hole_text(h, "put_full", "dd[%s] = value;",
                   vtb_cuda_offset(s->c, s->at.dd, (const char *const[]){"b", "pos", "h", "key", "x"}));
  else
    vtb__hole_text(h, "put_full", "(void)value;");
  if (rates >= 0) {
    vtb_cuda_temp_out(k, rates, "float", "rates");
    vtb__hole_text(h, "put_rate", "rates[((vtb_i64)bh * K + key) * V + x] = s;");
  } else {
    vtb__hole_text(h, "put_rate", "(void)s;");
  }
}

void vtb__cuda_scan_steps_grad(const vtb__cuda_scan *s) {
  vtb__cuda_holes h;
  steps_shape p = make_shape(s);
  int64_t keys = p.kr * p.groups, bh = s->B * s->heads, history = (p.segment + 1) * keys * p.wide * 32;
  if (history * 4 > 160 * 1024) {
    vtb_cuda_unsupported(s->c, s->inst, "its keys do not fit shared memory");
    return;
  }
  steps_sums sums = {.n = s->decay == VTB_DECAY_KEY ? 3 : 2, .result = {s->at.dq, s->at.dk, s->at.dd}, .partial = -1};
  int starts = vtb_cuda_temp(s->c, bh * ((s->N + p.segment - 1) / p.segment) * s->K * s->V1 * 4);
  int rates = s->decay == VTB_DECAY_RATES ? vtb_cuda_temp(s->c, bh * s->K * s->V * 4) : -1;
  if (p.blocks > 1) sums.partial = vtb_cuda_temp(s->c, p.blocks * sums.n * bh * s->N * s->K * 4);
  vtb_cuda_kernel *k = vtb_cuda_begin(s->c, "linscan_steps_grad", (int)(32 * p.groups * p.wide));
  vtb__holes_init(&h);
  vtb__hole_place(&h, s, k);
  vtb__hole_row(&h, s, k, VTB__ROW_Q, "q");
  vtb__hole_row(&h, s, k, VTB__ROW_K, "k");
  vtb__hole_row(&h, s, k, VTB__ROW_V, "v");
  vtb__hole_row(&h, s, k, VTB__ROW_DY, "dy");
  hole_decays(&h, s, k);
  hole_sizes(&h, s, &p);
  vtb__hole_number(&h, "SEGMENT", p.segment);
  vtb__hole_number(&h, "FULL", s->decay == VTB_DECAY_FULL);
  vtb__hole_number(&h, "FIRST", s->init);
  vtb__hole_number(&h, "LATER", s->dlast);
  vtb__hole_number(&h, "DFIRST", s->init);
  hole_state(&h, s, k, "first", s->at.s0, s->at.n0);
  hole_state(&h, s, k, "later", s->at.ds, s->at.dn);
  hole_put_state(&h, s, k, "put_first", s->at.ds0, s->at.dn0);
  vtb_cuda_temp_out(k, starts, "float", "starts");
  hole_sums(&h, s, k, &sums);
  hole_results(&h, s, k, rates);
  share(k, s, &p, p.segment, true);
  vtb_cuda_shared(k, "float", 4, "history", history);
  vtb_cuda_shared(k, "float", 4, "sums", p.wide * sums.n * p.segment * keys);
  vtb__holes_fill(&h, k, "linscan_steps_grad.cu");
  vtb_cuda_launch(k, bh * p.blocks);
  if (sums.partial >= 0)
    for (int i = 0; i < sums.n; i++) add_partials(s, &p, &sums, i);
  if (rates >= 0) add_rates(s, rates);
}
