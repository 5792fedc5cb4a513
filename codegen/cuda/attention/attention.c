/* attention and attention_grad without a matrix of scores in memory: text/attention.cu and
 * attention_grad.cu. Shapes and meaning: ir/attention.h. In texts b is the batch entry, i a query,
 * j a key, head and kv the heads of queries and of keys, x a column. Blocks of 64 queries (keys for
 * dk and dv) meet tiles of 64 of the others on tensor cores. Few keys of usual width (images of 224
 * pixels, windows) fit shared memory whole: text/attention_short.cu; more, or wider heads, in 16
 * bits: text/attention_tiles.cu.
 *
 * Queries and keys that are to be turned (a `fused` of kind "attention") are copied to shared
 * memory as they are, and each thread turns there what it copied, before the barrier that follows
 * anyway: text/turns.cuh. What is turned once a block stays so: in attention.cu the queries keep a
 * place of their own, in attention_short.cu a warp's strip is turned in the warp's place.
 * The adjoint would turn each row again in all its tiles and launches, so there it is done once, by
 * a kernel of its own; dq and dk are turned back in the registers that hold their sums. The adjoint
 * of few keys in 16 bits is one kernel, which meets each row once: text/attention_grad_short.cu;
 * of more keys, or wider heads, in 16 bits two, for dq and for dk and dv:
 * text/attention_grad_tiles.cu. */
#include "ir/attention.h"
#include "ir/ops.h"

#include <math.h>

#include "codegen/cuda/cost.h"
#include "codegen/cuda/emitters.h"
#include "codegen/cuda/plan/program.h"

#define THREADS 128
#define SHORT_KEYS 256      /* 143 KB of shared memory at 64 columns */
#define SHORT_HALF_KEYS 288 /* of 16 bits: 103 KB; a grid of 16 x 16 and tokens beside it */
#define SHORT_WIDE_KEYS 208 /* 148 KB at 128 columns */
#define SHORT_WIDTH 64
#define TILES_MARGIN 0.2 /* two estimates' errors: docs/cuda_cost.md */
#define KEPT_WIDTH 256   /* 70 KB of queries that stay turned */

typedef enum result { DQ, DK, DV, DBIAS } result; /* as in text/attention_grad.cu */

/* How rows are turned; the adjoint reads rows that attention_turn.cu has turned before, from the
 * temporary `rows`, -1: none. */
typedef struct turn {
  vtb_turn by;
  int rows;
} turn;

typedef struct operands {
  vtb_attention a;
  turn turn_q, turn_k;
} operands;

static operands operands_of(const vtb_inst *inst) {
  operands o = {.a = vtb_attention_of(inst)};
  o.turn_q = (turn){o.a.turn[0], -1};
  o.turn_k = (turn){o.a.turn[1], -1};
  return o;
}

static int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }

static const char *element_at(vtb_cuda *c, int tensor, const char *token, const char *head,
                              const char *x) {
  return vtb_cuda_offset(c, tensor, (const char *const[]){"b", token, head, x});
}

/* ${name_from}: the address of a row, for vtb_copy_rows. */
static void fill_row(vtb_cuda *c, vtb_cuda_kernel *k, const char *name, int tensor,
                     const char *token, const char *head) {
  vtb_cuda_in(k, tensor, name);
  vtb_cuda_fill(k, vtb_arena_printf(&c->arena, "%s_from", name), "%s + (%s)", name,
                element_at(c, tensor, token, head, NULL));
}

/* The same of queries or keys, as they are or turned before. True if 16 bytes at a time can be
 * read. */
static bool fill_turned_row(vtb_cuda *c, vtb_cuda_kernel *k, const char *name, int tensor,
                            const turn *t, const char *token, const char *head) {
  const vtb_type *type = vtb_cuda_tensor_of(c, tensor)->type;
  const vtb_dim *d = type->dim;
  if (t->rows < 0) {
    fill_row(c, k, name, tensor, token, head);
    return vtb_cuda_rows_of_four(c, tensor);
  }
  const char *b = vtb_cuda_is_far(c, vtb_type_count(type)) ? "(vtb_i64)b" : "b";
  vtb_cuda_temp_in(k, t->rows, vtb__cuda_tile_type(c), name);
  vtb_cuda_fill(k, vtb_arena_printf(&c->arena, "%s_from", name),
                "%s + ((%s * %lld + %s) * %lld + %s) * %lld", name, b, (long long)d[1].size, token,
                (long long)d[2].size, head, (long long)d[3].size);
  return d[3].size % 4 == 0;
}

static const char *bias_at(vtb_cuda *c, const vtb_attention *a, int tensor) {
  const char *index[4] = {NULL, NULL, NULL, NULL};
  char head[32];
  int r = vtb_cuda_tensor_of(c, tensor)->type->rank;
  snprintf(head, sizeof head, "head %% %lld", (long long)a->bias_heads);
  index[r - 1] = "j";
  index[r - 2] = "i";
  if (r >= 3) index[r - 3] = head;
  if (r == 4) index[0] = "b";
  return vtb_cuda_offset(c, tensor, index);
}

/* Holes that all texts have. */
static void fill_shapes(vtb_cuda *c, vtb_cuda_kernel *k, const operands *o) {
  const vtb_attention *a = &o->a;
  if (a->bias >= 0) vtb_cuda_in(k, a->bias, "bias");
  vtb_cuda_fill(k, "bias", a->bias >= 0 ? "bias[%s]" : "0.0f",
                a->bias >= 0 ? bias_at(c, a, a->bias) : "");
  vtb_cuda_fill(k, "SCALE", "%.9ef", a->scale);
  VTB_CUDA_NUMBERS(k, {"N", a->n_queries}, {"M", a->n_keys}, {"HEADS", a->n_heads},
                   {"SHARED", a->n_heads / a->kv_heads}, {"K", a->width}, {"V", a->value_width},
                   {"FACTORS", vtb__cuda_factors(c)}, {"CAUSAL", a->causal},
                   {"BIAS", a->bias >= 0});
}

/* And those of long sequences. */
static void fill_common(vtb_cuda *c, vtb_cuda_kernel *k, const operands *o) {
  const vtb_attention *a = &o->a;
  bool four_q = fill_turned_row(c, k, "q", o->a.q, &o->turn_q, "i", "head");
  bool four_k = fill_turned_row(c, k, "k", o->a.k, &o->turn_k, "j", "kv");
  bool four = four_q && four_k && vtb_cuda_rows_of_four(c, o->a.v) &&
              (a->dy < 0 || vtb_cuda_rows_of_four(c, a->dy));
  fill_row(c, k, "v", o->a.v, "j", "kv");
  VTB_CUDA_NUMBERS(k, {"FOUR", four});
  fill_shapes(c, k, o);
}

/* Rows can be read eight elements at a time, 16 bytes each access. */
static bool rows_of_eight(const vtb_cuda *c, int tensor) {
  const vtb_cuda_tensor *t = vtb_cuda_tensor_of(c, tensor);
  int half = vtb_dtype_bytes(t->type->dtype) == 2, last = t->type->rank - 1;
  bool eight = vtb_cuda_rows_of_four(c, tensor) && t->align == (half ? 8 : 4) &&
               t->type->dim[last].size % 8 == 0;
  for (int a = 0; eight && half && a < last; a++)
    eight = t->type->dim[a].size == 1 || t->stride[a] % 8 == 0;
  return eight;
}

/* ${name_from}, ${name_stride}, NAME_EIGHT of rows, as they are or turned before. */
static void fill_rows(vtb_cuda *c, vtb_cuda_kernel *k, const char *name, const char *eight,
                      int tensor, const turn *t, const char *head) {
  const vtb_cuda_tensor *rows = vtb_cuda_tensor_of(c, tensor);
  const vtb_dim *d = rows->type->dim;
  bool turned = t && t->rows >= 0;
  int64_t stride = turned ? d[2].size * d[3].size : rows->stride[1];
  if (turned) {
    vtb_cuda_temp_in(k, t->rows, vtb__cuda_tile_type(c), name);
    vtb_cuda_fill(k, vtb_arena_printf(&c->arena, "%s_from", name),
                  "%s + (vtb_i64)b * %lld + %s * %lld", name, (long long)(d[1].size * stride), head,
                  (long long)d[3].size);
  } else {
    vtb_cuda_in(k, tensor, name);
    vtb_cuda_fill(k, vtb_arena_printf(&c->arena, "%s_from", name), "%s + (%s)", name,
                  element_at(c, tensor, NULL, head, NULL));
  }
  VTB_CUDA_NUMBERS(k, {vtb_arena_printf(&c->arena, "%s_stride", name), stride},
                   {eight, turned ? d[3].size % 8 == 0 : rows_of_eight(c, tensor)});
}

/* ---- turned queries and keys ----------------------------------------------------------------- */

/* ${name}: the address of the row of a table; where nothing turns it is not reached. */
static void fill_table(vtb_cuda *c, vtb_cuda_kernel *k, const char *name, int tensor,
                       const char *token, const char *head) {
  const char *const index[] = {token, head, NULL};
  if (tensor) vtb_cuda_in(k, tensor, name);
  vtb_cuda_fill(k, name, tensor ? "%s + (%s)" : "0", name,
                tensor ? vtb_cuda_offset(c, tensor, index) : "");
}

static void fill_tables(vtb_cuda *c, vtb_cuda_kernel *k, const operands *o) {
  VTB_CUDA_NUMBERS(k, {"Q_TURNED", o->turn_q.by.width}, {"K_TURNED", o->turn_k.by.width});
  fill_table(c, k, "q_cosines", o->turn_q.by.cosines, "i", "head");
  fill_table(c, k, "q_sines", o->turn_q.by.sines, "i", "head");
  fill_table(c, k, "k_cosines", o->turn_k.by.cosines, "j", "kv");
  fill_table(c, k, "k_sines", o->turn_k.by.sines, "j", "kv");
}

/* ---- forward --------------------------------------------------------------------------------- */

static bool rounds_to_half(const vtb_cuda *c) {
  return !vtb_streq(vtb__cuda_tile_type(c), "float");
}

static bool is_wide(const vtb_cuda *c, int tensor) {
  return vtb_cuda_tensor_of(c, tensor)->type->dtype == VTB_F32;
}

/* The element type of tiles: what is turned in its tile must not have been rounded by it before. */
static const char *tile_type(const vtb_cuda *c, const operands *o, bool queries_too) {
  bool wide = (o->turn_k.by.width && is_wide(c, o->a.k)) ||
              (queries_too && o->turn_q.by.width && is_wide(c, o->a.q));
  return wide ? "float" : vtb__cuda_tile_type(c);
}

static void fill_results(vtb_cuda *c, vtb_cuda_kernel *k, const operands *o) {
  vtb_cuda_out(k, o->a.result[0], "y");
  vtb_cuda_out(k, o->a.result[1], "lse");
  vtb_cuda_fill(k, "y_at", "%s", element_at(c, o->a.result[0], "i", "head", "x"));
  vtb_cuda_fill(k, "lse_at", "%s", element_at(c, o->a.result[1], "i", "head", NULL));
}

static bool is_short(const vtb_cuda *c, const operands *o) {
  bool half = !vtb_streq(tile_type(c, o, true), "float");
  const vtb_attention *a = &o->a;
  int64_t widest = a->width > a->value_width ? a->width : a->value_width;
  if (half && widest > SHORT_WIDTH)
    return widest <= 2 * SHORT_WIDTH && a->n_keys <= SHORT_WIDE_KEYS;
  return a->n_keys <= (half ? SHORT_HALF_KEYS : SHORT_KEYS) && widest <= SHORT_WIDTH;
}

/* Warps of a block of so many strips of 16 queries: each has as many strips as the others, if it
 * can be. Fewer where shared memory has no room for their queries, in 32 bits. */
static int64_t short_warps(const vtb_attention *a, int64_t strips, const char *queries) {
  int64_t most = a->n_keys > 96 ? 8 : 4;
  if (a->n_keys > 208 && vtb_streq(queries, "float")) most = 4;
  return ceil_div(strips, ceil_div(strips, most));
}

/* A block's queries, and warps: it takes all queries of a head (256 of many) where that keeps the
 * machine busy, else one strip a warp. */
typedef struct short_shape {
  const char *queries; /* type of them */
  int64_t rows, warps;
} short_shape;

static short_shape short_shape_of(const vtb_cuda *c, const operands *o) {
  const vtb_attention *a = &o->a;
  short_shape s = {.queries =
                       o->turn_q.by.width && is_wide(c, o->a.q) ? "float" : vtb__cuda_tile_type(c)};
  int64_t heads = a->n_batch * a->n_heads, all = ceil_div(a->n_queries, 16) * 16;
  int64_t most = all < 256 ? all : 256;
  bool busy = heads * ceil_div(a->n_queries, most) >= 2 * vtb_cuda_gpu(c)->processors;
  s.warps = short_warps(a, busy ? most / 16 : 8, s.queries);
  s.rows = busy ? most : 16 * s.warps;
  return s;
}

/* Holes of texts that copy rows sixteen bytes at a time. */
static void fill_whole_rows(vtb_cuda *c, vtb_cuda_kernel *k, const operands *o) {
  fill_rows(c, k, "q", "Q_EIGHT", o->a.q, NULL, "head");
  fill_rows(c, k, "k", "K_EIGHT", o->a.k, NULL, "kv");
  fill_rows(c, k, "v", "V_EIGHT", o->a.v, NULL, "kv");
  fill_shapes(c, k, o);
  fill_tables(c, k, o);
  fill_results(c, k, o);
}

static void attend_short(vtb_cuda *c, const operands *o) {
  const vtb_attention *a = &o->a;
  short_shape s = short_shape_of(c, o);
  vtb_cuda_kernel *k =
      vtb_cuda_begin_text(c, "attention_short", "attention_short.cu", (int)(32 * s.warps));
  fill_whole_rows(c, k, o);
  vtb_cuda_fill(k, "T", "%s", tile_type(c, o, false));
  vtb_cuda_fill(k, "TQ", "%s", s.queries);
  if (rounds_to_half(c) && a->width <= SHORT_WIDTH && a->value_width <= SHORT_WIDTH)
    vtb_cuda_together(k, 2);
  VTB_CUDA_NUMBERS(k, {"ROWS", s.rows}, {"Y_FOUR", vtb_cuda_rows_of_four(c, o->a.result[0])});
  vtb_cuda_launch(k, a->n_batch * a->n_heads * vtb_cuda_value(k, "ROW_BLOCKS"));
}

static int64_t widest_of(const vtb_attention *a) {
  return a->width > a->value_width ? a->width : a->value_width;
}

enum { PART_WIDTH = 128 }; /* of results in a warp's registers */

/* Groups of warps that have a part of the results' columns each. */
static int64_t parts_of(int64_t widest) {
  return widest > 2 * PART_WIDTH ? 4 : widest > PART_WIDTH ? 2 : 1;
}

enum { SHARING = 4 }; /* as many groups make each score once */

/* Seconds of either text, of few keys or by tiles of so many groups (0: few keys); INFINITY if it
 * is not taken. */
static double seconds_of(vtb_cuda *c, const operands *o, int64_t parts) {
  bool few = parts == 0;
  const vtb_attention *a = &o->a;
  short_shape s = short_shape_of(c, o);
  int64_t bytes, threads = few ? 32 * s.warps : THREADS * parts;
  const vtb_cuda_number numbers[] = {
      {"N", a->n_queries},
      {"M", a->n_keys},
      {"K", a->width},
      {"V", a->value_width},
      {"FACTORS", vtb__cuda_factors(c)},
      {"THREADS", threads},
      {"CAUSAL", a->causal},
      {few ? "ROWS" : "PARTS", few ? s.rows : parts},
      {"K_EIGHT", rows_of_eight(c, o->a.k)},
      {"V_EIGHT", rows_of_eight(c, o->a.v)},
      {"BIAS", a->bias >= 0},
      {"K_TURNED", o->turn_k.by.width},
  };
  const char *file = few ? "attention_short.cu" : "attention_tiles.cu",
             *type = few ? tile_type(c, o, false) : vtb__cuda_tile_type(c);
  size_t n = sizeof numbers / sizeof *numbers;
  if (few ? !is_short(c, o) : vtb_streq(tile_type(c, o, true), "float")) return INFINITY;
  if (!vtb_cuda_takes(c, file, type, numbers, n, &bytes)) return INFINITY;
  double heads = (double)(a->n_batch * a->n_heads);
  vtb_work w = {.blocks = heads,
                .bytes =
                    2 * heads * (double)((a->n_queries + a->n_keys) * (a->width + a->value_width))};
  return vtb_cuda_text_seconds(c, file, type, numbers, n, few ? "ROW_BLOCKS" : "ROW_TILES", w);
}

static void attend_tiles(vtb_cuda *c, const operands *o, int64_t parts) {
  const vtb_attention *a = &o->a;
  vtb_cuda_kernel *k =
      vtb_cuda_begin_text(c, "attention", "attention_tiles.cu", (int)(THREADS * parts));
  fill_whole_rows(c, k, o);
  vtb_cuda_fill(k, "T", "%s", vtb__cuda_tile_type(c));
  VTB_CUDA_NUMBERS(k, {"PARTS", parts}, {"Y_FOUR", vtb_cuda_rows_of_four(c, o->a.result[0])});
  vtb_cuda_launch(k, a->n_batch * a->n_heads * vtb_cuda_value(k, "ROW_TILES"));
}

static void attend(vtb_cuda *c, const operands *o) {
  const vtb_attention *a = &o->a;
  int64_t parts = parts_of(a->value_width);
  double few = seconds_of(c, o, 0), tiles = seconds_of(c, o, parts);
  double sharing = a->width > PART_WIDTH ? seconds_of(c, o, SHARING) : INFINITY;
  if (sharing < tiles) tiles = sharing, parts = SHARING;
  if (few < INFINITY && few < (1 + TILES_MARGIN) * tiles) {
    attend_short(c, o);
    return;
  }
  if (tiles < INFINITY) {
    attend_tiles(c, o, parts);
    return;
  }
  vtb_cuda_kernel *k = vtb_cuda_begin_text(c, "attention", "attention.cu", THREADS);
  fill_common(c, k, o);
  fill_tables(c, k, o);
  fill_results(c, k, o);
  vtb_cuda_fill(k, "T", "%s", tile_type(c, o, true));
  VTB_CUDA_NUMBERS(k, {"KEPT", o->turn_q.by.width && a->width <= KEPT_WIDTH});
  vtb_cuda_launch(k, a->n_batch * a->n_heads * vtb_cuda_value(k, "ROW_TILES * OUT_TILES"));
}

void vtb__cuda_attention(vtb_cuda *c, const vtb_inst *inst) {
  operands o = operands_of(inst);
  attend(c, &o);
}

/* ---- adjoint --------------------------------------------------------------------------------- */

/* Rows [.., heads, K] turned, as a temporary: three kernels read them, many times each, as factors
 * alone, so that they are stored as factors round. */
static void make_turned(vtb_cuda *c, int tensor, turn *t) {
  const vtb_type *type = vtb_cuda_tensor_of(c, tensor)->type;
  int64_t width = type->dim[3].size, four = vtb_cuda_rows_of_four(c, tensor),
          items = vtb_type_count(type) / width * ceil_div(width, four ? 4 : 2);
  const char *element = vtb__cuda_tile_type(c);
  t->rows = vtb_cuda_temp(c, vtb_type_count(type) * (vtb_streq(element, "float") ? 4 : 2));
  vtb_cuda_kernel *k = vtb_cuda_begin_text(c, "attention_turn", "attention_turn.cu", 256);
  fill_row(c, k, "rows", tensor, "i", "head");
  fill_table(c, k, "cosines", t->by.cosines, "i", "head");
  fill_table(c, k, "sines", t->by.sines, "i", "head");
  vtb_cuda_temp_out(k, t->rows, element, "turned");
  VTB_CUDA_NUMBERS(k, {"N", type->dim[1].size}, {"HEADS", type->dim[2].size}, {"K", width},
                   {"TURNED", t->by.width}, {"FOUR", four}, {"ITEMS", items});
  vtb_cuda_launch(k, ceil_div(items, 256));
}

static int make_delta(vtb_cuda *c, const vtb_attention *a) {
  int64_t items = a->n_batch * a->n_queries * a->n_heads;
  int delta = vtb_cuda_temp(c, items * 4);
  bool adds = a->dlse >= 0;
  vtb_cuda_kernel *k = vtb_cuda_begin_text(c, "attention_delta", "attention_delta.cu", THREADS);
  vtb_cuda_in(k, a->y, "y");
  vtb_cuda_in(k, a->dy, "dy");
  vtb_cuda_temp_out(k, delta, "float", "delta");
  vtb_cuda_fill(k, "y_at", "%s", element_at(c, a->y, "i", "head", "x"));
  vtb_cuda_fill(k, "dy_at", "%s", element_at(c, a->dy, "i", "head", "x"));
  if (adds) vtb_cuda_in(k, a->dlse, "dlse");
  vtb_cuda_fill(k, "dlse", adds ? "dlse[%s]" : "0.0f",
                adds ? element_at(c, a->dlse, "i", "head", NULL) : "");
  VTB_CUDA_NUMBERS(k, {"N", a->n_queries}, {"HEADS", a->n_heads}, {"V", a->value_width},
                   {"ITEMS", items});
  vtb_cuda_launch(k, ceil_div(items, THREADS / 32));
  return delta;
}

/* dq or dk is turned back in the registers where its sums are. */
static void fill_turned_back(vtb_cuda *c, vtb_cuda_kernel *k, const operands *o, result r) {
  static const turn none;
  const turn *t = r == DQ ? &o->turn_q : r == DK ? &o->turn_k : &none;
  const char *token = r == DQ ? "i" : "j", *head = r == DQ ? "head" : "kv";
  fill_table(c, k, "cosines", t->by.cosines, token, head);
  fill_table(c, k, "sines", t->by.sines, token, head);
  VTB_CUDA_NUMBERS(k, {"TURNED", t->by.width});
}

static void make_result(vtb_cuda *c, const operands *o, int delta, result r) {
  static const char *const kinds[] = {"attention_dq", "attention_dk", "attention_dv",
                                      "attention_dbias"};
  const vtb_attention *a = &o->a;
  bool keys = r == DK || r == DV;
  int64_t outer =
      r == DBIAS ? a->bias_batch * a->bias_heads : a->n_batch * (keys ? a->kv_heads : a->n_heads);
  int tensor = a->result[r];
  vtb_cuda_kernel *k = vtb_cuda_begin_text(c, kinds[r], "attention_grad.cu", THREADS);
  fill_common(c, k, o);
  fill_row(c, k, "dy", a->dy, "i", "head");
  vtb_cuda_in(k, a->lse, "lse");
  vtb_cuda_temp_in(k, delta, "float", "delta");
  vtb_cuda_out(k, tensor, "to");
  vtb_cuda_fill(k, "lse_at", "%s", element_at(c, a->lse, "i", "head", NULL));
  vtb_cuda_fill(k, "to_at", "%s",
                r == DBIAS ? bias_at(c, a, tensor)
                           : element_at(c, tensor, keys ? "j" : "i", keys ? "kv" : "head", "x"));
  fill_turned_back(c, k, o, r);
  vtb_cuda_fill(k, "T", "%s", vtb__cuda_tile_type(c));
  VTB_CUDA_NUMBERS(k, {"RESULT", r}, {"BIAS_HEADS", a->bias_heads}, {"BATCH", a->n_batch},
                   {"BY_BATCH", a->bias_batch > 1});
  vtb_cuda_launch(k, outer * vtb_cuda_value(k, "ROW_TILES * OUT_TILES"));
}

/* ---- adjoint of few keys --------------------------------------------------------------------- */

/* A kernel of its own where factors round to 16 bits and a head's rows fit shared memory so. */
static bool is_short_grad(vtb_cuda *c, const vtb_attention *a) {
  int64_t bytes;
  return rounds_to_half(c) &&
         VTB_CUDA_TAKES(c, "attention_grad_short.cu", vtb__cuda_tile_type(c), &bytes,
                        {"N", a->n_queries}, {"M", a->n_keys}, {"K", a->width},
                        {"V", a->value_width}, {"FACTORS", vtb__cuda_factors(c)},
                        {"THREADS", 2 * ceil_div(a->n_keys, 16) * 16});
}

static void fill_grad_rows(vtb_cuda *c, vtb_cuda_kernel *k, const operands *o) {
  fill_rows(c, k, "q", "Q_EIGHT", o->a.q, &o->turn_q, "head");
  fill_rows(c, k, "k", "K_EIGHT", o->a.k, &o->turn_k, "kv");
  fill_rows(c, k, "v", "V_EIGHT", o->a.v, NULL, "kv");
  fill_rows(c, k, "dy", "DY_EIGHT", o->a.dy, NULL, "head");
}

static void fill_short_rows(vtb_cuda *c, vtb_cuda_kernel *k, const operands *o) {
  const vtb_attention *a = &o->a;
  fill_grad_rows(c, k, o);
  vtb_cuda_in(k, a->y, "y");
  vtb_cuda_in(k, a->lse, "lse");
  if (a->dlse >= 0) vtb_cuda_in(k, a->dlse, "dlse");
  vtb_cuda_fill(k, "y_at", "%s", element_at(c, a->y, "i", "head", "x"));
  vtb_cuda_fill(k, "dy_at", "%s", element_at(c, a->dy, "i", "head", "x"));
  vtb_cuda_fill(k, "lse_at", "%s", element_at(c, a->lse, "i", "head", NULL));
  vtb_cuda_fill(k, "dlse", a->dlse >= 0 ? "dlse[%s]" : "0.0f",
                a->dlse >= 0 ? element_at(c, a->dlse, "i", "head", NULL) : "");
}

/* dq, dk and dv in one launch. */
static void make_short(vtb_cuda *c, const operands *o) {
  const vtb_attention *a = &o->a;
  int dq = a->result[DQ], dk = a->result[DK], dv = a->result[DV];
  vtb_cuda_kernel *k = vtb_cuda_begin_text(c, "attention_grad", "attention_grad_short.cu",
                                           (int)(2 * ceil_div(a->n_keys, 16) * 16));
  fill_short_rows(c, k, o);
  fill_tables(c, k, o);
  vtb_cuda_out(k, dq, "dq");
  vtb_cuda_out(k, dk, "dk");
  vtb_cuda_out(k, dv, "dv");
  vtb_cuda_fill(k, "dq_at", "%s", element_at(c, dq, "i", "head", "x"));
  vtb_cuda_fill(k, "dk_at", "%s", element_at(c, dk, "j", "kv", "x"));
  vtb_cuda_fill(k, "dv_at", "%s", element_at(c, dv, "j", "kv", "x"));
  fill_shapes(c, k, o);
  vtb_cuda_fill(k, "T", "%s", vtb__cuda_tile_type(c));
  VTB_CUDA_NUMBERS(k, {"Q_ROWS", o->turn_q.rows >= 0}, {"K_ROWS", o->turn_k.rows >= 0},
                   {"Y_FOUR", vtb_cuda_rows_of_four(c, a->y) && vtb_cuda_rows_of_four(c, a->dy)},
                   {"DQ_FOUR", vtb_cuda_rows_of_four(c, dq)},
                   {"DK_FOUR", vtb_cuda_rows_of_four(c, dk)},
                   {"DV_FOUR", vtb_cuda_rows_of_four(c, dv)});
  vtb_cuda_launch(k, a->n_batch * a->kv_heads);
}

/* ---- adjoint of more, by tiles --------------------------------------------------------------- */

/* Seconds of dk and dv; INFINITY if they are not taken. */
static double grad_tiles_seconds(vtb_cuda *c, const vtb_attention *a, int64_t parts) {
  static const char file[] = "attention_grad_tiles.cu";
  const char *type = vtb__cuda_tile_type(c);
  const vtb_cuda_number numbers[] = {{"N", a->n_queries},
                                     {"M", a->n_keys},
                                     {"K", a->width},
                                     {"V", a->value_width},
                                     {"SHARED", a->n_heads / a->kv_heads},
                                     {"FACTORS", vtb__cuda_factors(c)},
                                     {"KEYS", true},
                                     {"CAUSAL", a->causal},
                                     {"PARTS", parts},
                                     {"THREADS", THREADS * parts}};
  const size_t n = sizeof numbers / sizeof *numbers;
  int64_t bytes;
  double heads = (double)(a->n_batch * a->kv_heads),
         tokens = (double)(a->n_queries + 2 * a->n_keys) * (double)(a->width + a->value_width);
  if (!rounds_to_half(c) || !vtb_cuda_takes(c, file, type, numbers, n, &bytes)) return INFINITY;
  return vtb_cuda_text_seconds(c, file, type, numbers, n, "ROW_TILES",
                               (vtb_work){.blocks = heads, .bytes = 2 * heads * tokens});
}

/* Groups of warps; 0: no tiles. */
static int64_t grad_tiles_parts(vtb_cuda *c, const vtb_attention *a) {
  int64_t parts = parts_of(widest_of(a));
  double alone = grad_tiles_seconds(c, a, parts);
  double sharing = parts > 1 ? grad_tiles_seconds(c, a, SHARING) : INFINITY;
  return sharing < alone ? SHARING : alone < INFINITY ? parts : 0;
}

/* dq, or dk and dv. */
static void make_tiles(vtb_cuda *c, const operands *o, int delta, int64_t parts, result r) {
  const vtb_attention *a = &o->a;
  bool keys = r == DK;
  int64_t heads = keys ? a->kv_heads : a->n_heads;
  const char *token = keys ? "j" : "i", *head = keys ? "kv" : "head";
  int to = a->result[r], dv = a->result[DV];
  vtb_cuda_kernel *k = vtb_cuda_begin_text(c, keys ? "attention_dk_dv" : "attention_dq",
                                           "attention_grad_tiles.cu", (int)(THREADS * parts));
  fill_grad_rows(c, k, o);
  fill_shapes(c, k, o);
  vtb_cuda_in(k, a->lse, "lse");
  vtb_cuda_temp_in(k, delta, "float", "delta");
  vtb_cuda_out(k, to, "to");
  if (keys) vtb_cuda_out(k, dv, "dv");
  vtb_cuda_fill(k, "lse_at", "%s", element_at(c, a->lse, "i", "head", NULL));
  vtb_cuda_fill(k, "to_at", "%s", element_at(c, to, token, head, "x"));
  vtb_cuda_fill(k, "second", keys ? "dv" : "to"); /* of dq not reached */
  vtb_cuda_fill(k, "second_at", "%s", keys ? element_at(c, dv, token, head, "x") : "0");
  fill_turned_back(c, k, o, r);
  vtb_cuda_fill(k, "T", "%s", vtb__cuda_tile_type(c));
  VTB_CUDA_NUMBERS(k, {"KEYS", keys}, {"PARTS", parts}, {"FOUR", vtb_cuda_rows_of_four(c, to)},
                   {"SECOND_FOUR", keys && vtb_cuda_rows_of_four(c, dv)});
  vtb_cuda_launch(k, a->n_batch * heads * vtb_cuda_value(k, "ROW_TILES"));
}

static void attend_grad(vtb_cuda *c, operands *o) {
  bool one = is_short_grad(c, &o->a), apart = !one || o->a.wants_dbias;
  if (o->turn_q.by.width && (apart || is_wide(c, o->a.q))) make_turned(c, o->a.q, &o->turn_q);
  if (o->turn_k.by.width && (apart || is_wide(c, o->a.k))) make_turned(c, o->a.k, &o->turn_k);
  int delta = apart ? make_delta(c, &o->a) : -1;
  int64_t parts = one ? 0 : grad_tiles_parts(c, &o->a);
  if (one) {
    make_short(c, o);
  } else if (parts) {
    make_tiles(c, o, delta, parts, DQ);
    make_tiles(c, o, delta, parts, DK);
  } else {
    make_result(c, o, delta, DQ);
    make_result(c, o, delta, DK);
    make_result(c, o, delta, DV);
  }
  if (o->a.wants_dbias) make_result(c, o, delta, DBIAS);
}

void vtb__cuda_attention_grad(vtb_cuda *c, const vtb_inst *inst) {
  operands o = operands_of(inst);
  attend_grad(c, &o);
}

void vtb__cuda_turned_attention(vtb_cuda *c, const vtb_inst *fused) {
  if (vtb_turned_attention(fused)->op == VTB_OP_attention)
    vtb__cuda_attention(c, fused);
  else
    vtb__cuda_attention_grad(c, fused);
}
