/* linscan and linscan_grad token by token: every class in mode recurrent, and classes key, value,
 * full and rates in all modes. States live in registers; lanes run along V, many keys are tiles of
 * blocks of their own. Sums that several blocks share, over V (dq, dk, dd of class key) or over
 * tiles of keys (y, dv, dd of the other classes), and the sum of dA over the batch are added by a
 * second kernel, in order. */
#include "codegen/cuda/scan/linscan.h"
#include "codegen/cuda/plan/program.h"

#define HISTORY_BYTES (100 * 1024) /* of a segment's states in shared memory */
#define KEPT_BYTES (32 * 1024)     /* of what a block has of its first recurrences */

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
  if (!s->grad && p.kr > 4) p.kr = (ceil_div(keys, p.groups) + 3) / 4 * 4; /* read four at a time */
  p.wide = p.groups > 1 ? 1 : columns < 4 ? columns : 4;
  p.blocks = ceil_div(columns, p.wide);
  while (p.segment > 1 && p.segment * p.kr * p.groups * p.wide * 128 > HISTORY_BYTES)
    p.segment /= 2;
  return p;
}

static void fill_shape(vtb__cuda_scan *s, const steps_shape *p) {
  VTB_CUDA_NUMBERS(s->k, {"KR", p->kr}, {"GROUPS", p->groups}, {"WIDE", p->wide},
                   {"KEY_TILES", p->key_tiles});
}

/* ${decay}: of token i of the segment, key j of the lane. */
static void fill_decay(vtb__cuda_scan *s) {
  const char *const head[] = {"h"}, *const all[] = {"b", "pos", "h", "key", "x"};
  const char *form = "d[%s]", *at = "";
  if (s->decay->rates)
    form = "vtb_exp2_fast(step * rate[j])";
  else if (s->decay->axes == VTB_ALONG_KEY)
    form = "decays[at]";
  else if (s->decay->axes == VTB_ALONG_VALUE)
    form = "step";
  else if (s->decay->axes == VTB_ALONG_BOTH)
    form = "(real && key < K ? d[%s] : 1.0f)", at = vtb_cuda_offset(s->c, s->at.d, all);
  else if (s->decay->by_step)
    at = vtb__cuda_scan_at(s, s->at.d, NULL);
  else
    at = vtb_cuda_offset(s->c, s->at.d, head);
  vtb_cuda_fill(s->k, "decay", form, at);
}

/* The part of the decays that is loaded a segment at a time, too. */
static void fill_decays(vtb__cuda_scan *s) {
  bool by_key = s->decay->axes == VTB_ALONG_KEY, rates = s->decay->rates;
  bool by_value = s->decay->axes == VTB_ALONG_VALUE || rates;
  const char *row = vtb__cuda_scan_at(s, s->at.d, "x");
  vtb__scan_in(s, &s->at.d, "d");
  VTB_CUDA_NUMBERS(s->k, {"BY_KEY", by_key}, {"RATES", rates});
  if (vtb_cuda_has(s->k, "BY_VALUE")) VTB_CUDA_NUMBERS(s->k, {"BY_VALUE", by_value});
  const char *element = vtb_arena_printf(&s->c->arena, "d[%s]", row), *rate = "0.0f";
  vtb__fill_number(s, "decay_row", by_key ? element : "0.0f");
  if (vtb_cuda_has(s->k, "decay_value"))
    vtb_cuda_fill(s->k, "decay_value", "%s", by_value ? element : "1.0f");
  fill_decay(s);
  if (rates) {
    vtb__scan_in(s, &s->at.rates, "a");
    rate = vtb_arena_printf(
        &s->c->arena, "a[%s]",
        vtb_cuda_offset(s->c, s->at.rates, (const char *const[]){"h", "key", "x"}));
  }
  vtb__fill_number(s, "rate", rate);
}

/* ---- results, and parts of them -------------------------------------------------------------- */

/* Rows that blocks make together: each stores its part of `n` of them, a second kernel adds them in
 * order. */
typedef struct steps_parts {
  const char *name;
  int64_t n_parts, n, width;
  int temp; /* [n_parts, n, scans, N, width]; -1: one part, the rows themselves are stored */
} steps_parts;

static steps_parts make_parts(const vtb__cuda_scan *s, const char *name, int64_t n_parts, int64_t n,
                              int64_t width) {
  steps_parts p = {.name = name, .n_parts = n_parts, .n = n, .width = width, .temp = -1};
  if (n_parts > 1) p.temp = vtb_cuda_temp(s->c, n_parts * n * s->n * s->N * width * 4);
  return p;
}

/* ${hole} stores `value` in an element of a result, or of the parts: where the text's expression
 * `part` says. */
static void fill_put(vtb__cuda_scan *s, const char *hole, const char *name, const int *tensor,
                     const steps_parts *p, const char *part, const char *value) {
  if (p->temp >= 0) {
    vtb_cuda_temp_out(s->k, p->temp, "float", p->name);
    vtb_cuda_fill(s->k, hole, "%s[%s] = %s;", p->name, part, value);
  } else {
    vtb__scan_out(s, tensor, name);
    vtb_cuda_fill(s->k, hole, "%s[%s] = %s;", name, vtb__cuda_scan_at(s, *tensor, "x"), value);
  }
}

/* ${put_z}, of the normalizer's column, if there is one to store. */
static void fill_put_z(vtb__cuda_scan *s, const int *z, const char *value) {
  bool stores = z && *z >= 0;
  if (stores) vtb__scan_out(s, z, "z");
  vtb_cuda_fill(s->k, "put_z", stores ? "z[%s] = %s;" : "",
                stores ? vtb__cuda_scan_at(s, *z, NULL) : "", value);
}

/* Adds the parts of `n` rows, results of one shape, that are there (`z`: behind the last
 * column). */
static void add_parts(vtb__cuda_scan *s, const steps_parts *p, const int *const *tensors, int n,
                      const int *z) {
  const char *put = "";
  int first = 0, last = n - 1;
  while (first < n && *tensors[first] < 0) first++;
  while (last > first && *tensors[last] < 0) last--;
  if (p->temp < 0 || first == n) return;
  vtb__scan_begin(s, "linscan_add_parts", "linscan_add_parts.cu", 256);
  vtb_cuda_temp_in(s->k, p->temp, "float", "parts");
  for (int i = first; i <= last; i++) {
    const char *name = vtb_arena_printf(&s->c->arena, "result%d", i);
    if (*tensors[i] < 0) continue;
    vtb__scan_out(s, tensors[i], name);
    put = vtb_arena_printf(&s->c->arena, "%sif (which == %d) %s[%s] = sum;\n", put, i, name,
                           vtb__cuda_scan_at(s, *tensors[i], "x"));
  }
  vtb_cuda_fill(s->k, "put", "%s", put);
  fill_put_z(s, z, "sum");
  VTB_CUDA_NUMBERS(s->k, {"WIDTH", p->width}, {"PARTS", p->n_parts}, {"ROWS", p->n},
                   {"FIRST", first}, {"TAKEN", last - first + 1},
                   {"COLUMNS", vtb_cuda_tensor_of(s->c, *tensors[first])->type->dim[3].size});
  vtb__scan_launch(s, s->n);
}

/* ---- forward --------------------------------------------------------------------------------- */

#define FORWARD_KEYS 256 /* of a block */

static void fill_values(vtb__cuda_scan *s) {
  bool by_value = s->decay->axes == VTB_ALONG_VALUE || s->decay->rates;
  const char *step = "";
  if (by_value)
    step = vtb_arena_printf(&s->c->arena, " step = d[%s];", vtb__cuda_scan_at(s, s->at.d, "x"));
  vtb_cuda_fill(s->k, "values", "input = %s;%s", vtb__cuda_scan_row(s, VTB__ROW_V), step);
}

/* Where the start of a segment is stored, by pass: results of the recurrences' own. */
static void fill_starts(vtb__cuda_scan *s) {
  const char *code = "";
  bool any = false;
  int n = s->n_passes > 0 ? s->n_passes : 1;
  for (int p = 0; p < n; p++) {
    int starts = vtb_scan_of(s->n_passes > 0 ? s->dir[p] : s->inst).at.starts;
    const char *name = vtb_arena_printf(&s->c->arena, "starts%d", p);
    if (starts < 0) continue;
    any = true;
    if (s->n_passes > 0)
      vtb_cuda_out(s->k, starts, name);
    else
      vtb__scan_out(s, &s->at.starts, name);
    code = vtb_arena_printf(&s->c->arena, "%sif (pass == %d) vtb_store4(%s, at, four);\n", code, p,
                            name);
  }
  VTB_CUDA_NUMBERS(s->k, {"STARTS", any});
  vtb_cuda_fill(s->k, "put_start", "%s", code);
}

static void fill_state_type(vtb__cuda_scan *s) {
  vtb_scan of = vtb_scan_of(s->inst);
  vtb_cuda_fill(s->k, "STATE", vtb_scan_is_wide(&of) ? "double" : "float");
}

void vtb__cuda_scan_steps(vtb__cuda_scan *s) {
  steps_shape p = make_shape(s, FORWARD_KEYS);
  steps_parts y = make_parts(s, "part_y", p.key_tiles, 1, s->V1);
  bool whole = y.temp < 0;
  vtb__scan_begin(s, "linscan_steps", "linscan_steps.cu", (int)(32 * p.groups * p.wide));
  fill_shape(s, &p);
  vtb__fill_row(s, VTB__ROW_Q, "q");
  vtb__fill_row(s, VTB__ROW_K, "k");
  fill_decays(s);
  fill_values(s);
  vtb__fill_state(s, "first", &s->at.s0, &s->at.n0);
  vtb__fill_put_state(s, "put_last", s->last, &s->at.s, &s->at.n);
  fill_starts(s);
  VTB_CUDA_NUMBERS(s->k, {"PASSES", 1}, {"MORE", 1});
  vtb_cuda_fill(s->k, "KEPT", "float");
  fill_state_type(s);
  fill_put(s, "put_y", "y_out", &s->at.y, &y, "part_at(t0 + i)", "value");
  fill_put_z(s, whole ? &s->at.z : NULL, "value");
  VTB_CUDA_NUMBERS(s->k, {"FIRST", s->init}, {"LAST", s->last}, {"Y_WIDTH", whole ? s->V : s->V1});
  vtb__scan_launch(s, s->n);
  add_parts(s, &y, (const int *const[]){&s->at.y}, 1, &s->at.z);
}

/* Everything that is read or stored is code of the body. */
void vtb__cuda_scan_steps_body(vtb__cuda_scan *s, const vtb_inst *fused) {
  steps_shape p = make_shape(s, FORWARD_KEYS);
  bool rates = s->decay->rates, by_key = s->decay->axes == VTB_ALONG_KEY;
  if (p.key_tiles > 1) { /* whose sums others add */
    vtb_cuda_unsupported(s->c, fused, "a body with a recurrence of %lld keys, and %d are the most",
                         (long long)s->K, FORWARD_KEYS);
    return;
  }
  vtb__scan_codes codes;
  vtb_dtype kept = vtb__scan_kept_type(fused);
  int64_t waits = (s->n_passes - 1) * s->N * 32 * vtb_dtype_bytes(kept);
  while (p.wide > 1 && waits * p.wide > KEPT_BYTES) p.wide /= 2;
  p.blocks = ceil_div(ceil_div(s->V, 32), p.wide);
  vtb__scan_begin(s, "linscan_steps", "linscan_steps.cu", (int)(32 * p.groups * p.wide));
  codes = vtb__scan_codes_make(s, fused);
  fill_shape(s, &p);
  vtb_cuda_fill(s->k, "q", "%s", codes.q);
  vtb_cuda_fill(s->k, "k", "%s", codes.k);
  vtb_cuda_fill(s->k, "decay_row", "%s", codes.decay_row);
  vtb_cuda_fill(s->k, "values", "%s", codes.values);
  vtb_cuda_fill(s->k, "rate", "%s", codes.rate);
  vtb_cuda_fill(s->k, "first", "%s", codes.first);
  vtb_cuda_fill(s->k, "put_y", "%s", codes.put);
  vtb_cuda_fill(s->k, "put_z", "%s", "");
  vtb_cuda_fill(s->k, "decay", "%s",
                rates    ? "vtb_exp2_fast(step * rate[j])"
                : by_key ? "decays[at]"
                         : "step");
  vtb__fill_put_state(s, "put_last", s->last && s->at.s >= 0, &s->at.s, &s->at.n);
  fill_starts(s);
  vtb_cuda_fill(s->k, "KEPT", "%s", vtb__cuda_type_name(kept));
  fill_state_type(s);
  VTB_CUDA_NUMBERS(s->k, {"BY_KEY", by_key}, {"RATES", rates}, {"PASSES", s->n_passes},
                   {"MORE", codes.more > 0 ? codes.more : 1}, {"FIRST", s->init},
                   {"LAST", s->last && s->at.s >= 0}, {"Y_WIDTH", s->V});
  vtb__scan_launch(s, s->n);
}

/* ---- adjoint --------------------------------------------------------------------------------- */

#define ADJOINT_KEYS 128 /* of a block, whose states of a segment share its memory */

static void add_rates(vtb__cuda_scan *s, int rates) {
  vtb__scan_begin(s, "linscan_add_rates", "linscan_add_rates.cu", 256);
  vtb_cuda_temp_in(s->k, rates, "float", "rates");
  vtb__scan_out(s, &s->at.drates, "da");
  vtb_cuda_fill(s->k, "da_at", "%s",
                vtb_cuda_offset(s->c, s->at.drates, (const char *const[]){"h", "key", "x"}));
  vtb__scan_launch(s, s->heads * s->n_dirs);
}

/* Results of width K: dq, dk and, class key, dd; of width V: dv and, classes of V, dd. */
typedef struct steps_sums {
  const int *by_key[3], *by_value[2];
  int n_by_key, n_by_value;
  steps_parts keys, values;
} steps_sums;

static steps_sums make_sums(const vtb__cuda_scan *s, const steps_shape *p) {
  bool by_key = s->decay->axes == VTB_ALONG_KEY,
       by_value = s->decay->axes == VTB_ALONG_VALUE || s->decay->rates;
  steps_sums r = {.by_key = {&s->at.dq, &s->at.dk, &s->at.dd}, .by_value = {&s->at.dv, &s->at.dd}};
  r.n_by_key = by_key ? 3 : 2;
  r.n_by_value = by_value ? 2 : 1;
  r.keys = make_parts(s, "part_k", p->blocks, r.n_by_key, s->K);
  r.values = make_parts(s, "part_v", p->key_tiles, r.n_by_value, s->V);
  return r;
}

static void fill_sums(vtb__cuda_scan *s, const steps_sums *r) {
  static const struct {
    const char *hole, *name, *part, *value;
  } keys[] = {{"put_dq", "dq", "key_part(0, t0 + token, x)", "value"},
              {"put_dk", "dk", "key_part(1, t0 + token, x)", "value"},
              {"put_dd", "dd", "key_part(2, t0 + token, x)", "value"}},
    values[] = {{"put_dv", "dv_out", "value_part(0, t0 + i)", "value"},
                {"put_dstep", "dd", "value_part(1, t0 + i)", "value_d"}};
  for (int i = 0; i < r->n_by_key; i++)
    fill_put(s, keys[i].hole, keys[i].name, r->by_key[i], &r->keys, keys[i].part, keys[i].value);
  for (int i = 0; i < r->n_by_value; i++)
    fill_put(s, values[i].hole, values[i].name, r->by_value[i], &r->values, values[i].part,
             values[i].value);
  for (int i = r->n_by_key; i < 3; i++) vtb_cuda_fill(s->k, keys[i].hole, "%s", "");
  for (int i = r->n_by_value; i < 2; i++) vtb_cuda_fill(s->k, values[i].hole, "%s", "");
}

static void fill_full_and_rates(vtb__cuda_scan *s, int rates) {
  const char *const index[] = {"b", "pos", "h", "key", "x"};
  bool full = s->decay->form == VTB_FORM_STEPS;
  if (full) vtb__scan_out(s, &s->at.dd, "dd");
  VTB_CUDA_NUMBERS(s->k, {"FULL", full});
  vtb_cuda_fill(s->k, "put_full", full ? "dd[%s] = value;" : "",
                full ? vtb_cuda_offset(s->c, s->at.dd, index) : "");
  if (rates >= 0) vtb_cuda_temp_out(s->k, rates, "float", "rates");
  vtb_cuda_fill(s->k, "put_rate",
                rates >= 0 ? "rates[((vtb_i64)scan * K + key) * V + x] = s;" : "");
}

void vtb__cuda_scan_steps_grad(vtb__cuda_scan *s) {
  steps_shape p = make_shape(s, ADJOINT_KEYS);
  steps_sums sums = make_sums(s, &p);
  int starts = vtb_cuda_temp(s->c, s->n * ceil_div(s->N, p.segment) * s->K * s->V1 * 4);
  int rates = s->decay->rates ? vtb_cuda_temp(s->c, s->n * s->K * s->V * 4) : -1;
  vtb__scan_begin(s, "linscan_steps_grad", "linscan_steps_grad.cu", (int)(32 * p.groups * p.wide));
  fill_shape(s, &p);
  vtb__fill_row(s, VTB__ROW_Q, "q");
  vtb__fill_row(s, VTB__ROW_K, "k");
  vtb__fill_row(s, VTB__ROW_V, "v");
  vtb__fill_row(s, VTB__ROW_DY, "dy");
  fill_decays(s);
  VTB_CUDA_NUMBERS(s->k, {"SEGMENT", p.segment}, {"FIRST", s->init}, {"LATER", s->dlast},
                   {"DFIRST", s->init});
  vtb__fill_state(s, "first", &s->at.s0, &s->at.n0);
  vtb__fill_state(s, "later", &s->at.ds, &s->at.dn);
  vtb__fill_put_state(s, "put_first", s->init, &s->at.ds0, &s->at.dn0);
  vtb_cuda_temp_out(s->k, starts, "float", "starts");
  fill_sums(s, &sums);
  fill_full_and_rates(s, rates);
  vtb__scan_launch(s, s->n);
  add_parts(s, &sums.keys, sums.by_key, sums.n_by_key, NULL);
  add_parts(s, &sums.values, sums.by_value, sums.n_by_value, NULL);
  if (rates >= 0) add_rates(s, rates);
}

/* ---- adjoint of class rates in a body -------------------------------------------------------- */

/* A column's sum over tokens is a part of each sample, for add_total(). */
static const char *fill_totals(vtb__cuda_scan *s, const vtb__scan_codes *codes, int *temps) {
  const char *text = "";
  for (int i = 0; i < codes->n_sums; i++) {
    const char *name = vtb_arena_printf(&s->c->arena, "total_%d", i);
    temps[i] = vtb_cuda_temp(s->c, s->n * s->V * 4);
    vtb_cuda_temp_out(s->k, temps[i], "float", name);
    text =
        vtb_arena_printf(&s->c->arena, "%s%s[(vtb_i64)scan * V + x] = total[%d]; ", text, name, i);
  }
  return text;
}

/* Result `tensor` [h, V] is the sum over samples of temporary `temp`. */
static void add_total(vtb__cuda_scan *s, int temp, int tensor) {
  int64_t K = s->K;
  s->K = 1;
  vtb__scan_begin(s, "linscan_add_rates", "linscan_add_rates.cu", 256);
  vtb_cuda_temp_in(s->k, temp, "float", "rates");
  vtb_cuda_out(s->k, tensor, "da");
  vtb_cuda_fill(s->k, "da_at", "h * V + x");
  vtb__scan_launch(s, s->heads * s->n_dirs);
  s->K = K;
}

/* dq or dk: of one block, or of parts that add_parts() adds. */
static void fill_keys(vtb__cuda_scan *s, const char *hole, const char *name, const int *tensor,
                      const steps_parts *p, const char *part) {
  if (*tensor < 0 && p->temp < 0)
    vtb_cuda_fill(s->k, hole, "%s", "");
  else
    fill_put(s, hole, name, tensor, p, part, "value");
}

/* The states at the segments' starts: given, or kept by the kernel itself. */
static void fill_pair_starts(vtb__cuda_scan *s, int starts) {
  bool given = starts < 0;
  if (given)
    vtb_cuda_in(s->k, s->at.given, "starts");
  else
    vtb_cuda_temp_out(s->k, starts, "float", "starts");
  VTB_CUDA_NUMBERS(s->k, {"GIVEN", given});
  vtb_cuda_fill(s->k, "put_start", "%s",
                given ? "" : "put_pairs(starts, start_of(segment + 1), pairs);");
  vtb_cuda_fill(s->k, "get_start", "%s",
                given ? "get_given(starts, segment); pack_state(now);"
                      : "get_pairs(starts, start_of(segment), now); unpack_state(now);");
}

void vtb__cuda_scan_rates_grad(vtb__cuda_scan *s, const vtb_inst *fused) {
  enum { SEGMENT = 8, WIDEST = 4, WARPS = 8, KEYS = 16 /* of a warp */ };
  vtb_dtype state = vtb__scan_state_type(fused);
  int64_t columns = ceil_div(s->V, 32), parts = ceil_div(s->K, KEYS), segment = SEGMENT;
  int64_t wide = columns < WIDEST ? columns : WIDEST;
  bool pairs = vtb_is_half(state); /* which lie in floats */
  while (wide > 1 && wide * parts > WARPS) wide--;
  while (!pairs && segment * wide * parts * 32 * KEYS * 4 > HISTORY_BYTES) segment /= 2;
  int64_t blocks = ceil_div(columns, wide), n_starts = ceil_div(s->N, segment) - 1;
  if (n_starts < 1) n_starts = 1; /* a place that is not used */
  steps_parts keys = make_parts(s, "part_k", blocks, 2, s->K);
  int64_t bytes =
      s->n * n_starts * blocks * wide * parts * 32 * KEYS * (int64_t)vtb_dtype_bytes(state);
  int starts = pairs && s->at.given >= 0 ? -1 : vtb_cuda_temp(s->c, bytes);
  int rates = s->at.drates < 0 ? -1 : vtb_cuda_temp(s->c, s->n * s->K * s->V * 4);
  int totals[VTB_MAX_SCAN_SUMS];
  vtb__scan_begin(s, "linscan_rates_grad",
                  pairs ? "linscan_rates_pairs.cu" : "linscan_rates_grad.cu",
                  (int)(32 * wide * parts));
  vtb__scan_codes codes = vtb__scan_grad_codes_make(s, fused);
  VTB_CUDA_NUMBERS(s->k, {"WIDE", wide}, {"PARTS", parts}, {"SEGMENT", segment},
                   {"SUMS", codes.n_sums > 0 ? codes.n_sums : 1});
  if (pairs) {
    VTB_CUDA_NUMBERS(s->k, {"OWN", ceil_div(ceil_div(s->K, parts), 4) * 4});
    fill_pair_starts(s, starts);
  } else
    vtb_cuda_temp_out(s->k, starts, "float", "starts");
  vtb_cuda_fill(s->k, "q", "%s", codes.q);
  vtb_cuda_fill(s->k, "k", "%s", codes.k);
  vtb_cuda_fill(s->k, "rate", "%s", codes.rate);
  vtb_cuda_fill(s->k, "values", "%s", codes.values);
  vtb_cuda_fill(s->k, "given", "%s", codes.given);
  vtb_cuda_fill(s->k, "put", "%s", codes.put);
  fill_keys(s, "put_dq", "dq", &s->at.dq, &keys, "part_at(0, t0 + token, x)");
  fill_keys(s, "put_dk", "dk", &s->at.dk, &keys, "part_at(1, t0 + token, x)");
  if (rates >= 0) vtb_cuda_temp_out(s->k, rates, "float", "rates");
  vtb_cuda_fill(s->k, "put_rate", "%s",
                rates >= 0 ? "rates[((vtb_i64)scan * K + key) * V + x] = s;" : "");
  vtb_cuda_fill(s->k, "put_totals", "%s", fill_totals(s, &codes, totals));
  vtb__scan_launch(s, s->n);
  add_parts(s, &keys, (const int *const[]){&s->at.dq, &s->at.dk}, 2, NULL);
  if (rates >= 0) add_rates(s, rates);
  for (int i = 0; i < codes.n_sums; i++) add_total(s, totals[i], codes.sums[i]);
}
