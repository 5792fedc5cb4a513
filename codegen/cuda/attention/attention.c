/* attention and attention_grad without a matrix of scores in memory: text/attention.cu and
 * attention_grad.cu. Shapes and meaning: ir/attention.h. In texts b is the batch entry, i a query,
 * j a key, head and kv the heads of queries and of keys, x a column. Blocks of 64 queries (keys for
 * dk and dv) meet tiles of 64 of the others on tensor cores. Few keys of usual width (images of 224
 * pixels, windows) fit shared memory whole: text/attention_short.cu.
 *
 * Queries and keys that are to be turned (a `fused` of kind "attention") are copied to shared
 * memory as they are, and each thread turns there what it copied, before the barrier that follows
 * anyway: text/turns.cuh. What is turned once a block stays so: in attention.cu the queries keep a
 * place of their own, in attention_short.cu a lane turns its queries on the way to its registers.
 * The adjoint would turn each row again in all its tiles and launches, so there it is done once, by
 * a kernel of its own; dq and dk are turned back in the registers that hold their sums. */
#include "ir/attention.h"
#include "codegen/cuda/emitters.h"
#include "codegen/cuda/compile/holes.h"

#define THREADS 128
#define SHORT_KEYS 256 /* 143 KB of shared memory at 64 columns */
#define SHORT_WIDTH 64
#define BUSY_BLOCKS 264 /* two for each of 132 multiprocessors */
#define KEPT_WIDTH 256  /* 70 KB of queries that stay turned */

typedef enum result { DQ, DK, DV, DBIAS } result; /* as in text/attention_grad.cu */

/* Tables [N, 1 or heads, width/2] of rows whose first `width` channels turn; 0: none. The adjoint
 * reads rows that attention_turn.cu has turned before, from the temporary `rows`. */
typedef struct turn {
  int cosines, sines, rows;
  int64_t width;
} turn;

/* An attention and the numbers of its tensors. */
typedef struct operands {
  vtb_attention a;
  int q, k, v, y; /* y: the first result */
  turn turn_q, turn_k;
} operands;

static operands operands_of(const vtb_inst *inst) {
  operands o = {.a = vtb_attention_of(inst), .q = 0, .k = 1, .v = 2, .y = inst->n_operands};
  o.turn_q.rows = o.turn_k.rows = -1;
  return o;
}

/* Number of the next operand; its tables follow it. */
static int take_turned(const vtb_inst *fused, bool is_turned, int *next, turn *t) {
  int at = (*next)++;
  if (!is_turned) return at;
  t->cosines = (*next)++;
  t->sines = (*next)++;
  t->width = 2 * fused->operands[t->cosines]->type.dim[2].size;
  return at;
}

static operands turned_operands_of(const vtb_inst *fused) {
  int64_t turned = vtb_attr_int(fused, "turned", 0);
  operands o = operands_of(vtb_turned_attention(fused));
  int next = 0, *others[] = {&o.a.bias, &o.a.y, &o.a.lse, &o.a.dy, &o.a.dlse};
  o.q = take_turned(fused, turned & 1, &next, &o.turn_q);
  o.k = take_turned(fused, turned & 2, &next, &o.turn_k);
  for (int i = 0; i < 5; i++)
    if (*others[i] >= 0) *others[i] += next - o.v;
  o.v = next;
  o.y = fused->n_operands;
  return o;
}

static int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }
static int64_t along(int64_t n) { return (n + 7) / 8 * 8 + 4; }         /* vtb_pitch_along */
static int64_t across(int64_t n) { return (n + 15) / 16 * 16 + 8; }     /* vtb_pitch_across */
static int64_t along_half(int64_t n) { return (n + 15) / 16 * 16 + 8; } /* vtb_pitch_half */
static int64_t larger(int64_t x, int64_t y) { return x > y ? x : y; }

/* Columns of a result that a block takes: all, or parts of about equal width where they exceed the
 * registers. */
static int64_t tile_width(int64_t width) {
  int64_t n = ceil_div(width, 128);
  return ceil_div(ceil_div(width, n), 8) * 8;
}
static int64_t slab_width(int64_t depth) { return depth >= 64 ? 64 : ceil_div(depth, 16) * 16; }

static void hole_element(vtb_cuda *c, vtb__cuda_holes *h, const char *hole, const char *name,
                         int tensor, const char *token, const char *head, const char *x) {
  vtb__hole_text(h, hole, "%s[%s]", name,
                 vtb_cuda_offset(c, tensor, (const char *const[]){"b", token, head, x}));
}

/* The address of a row, for vtb_copy_rows. */
static void hole_row(vtb_cuda *c, vtb__cuda_holes *h, vtb_cuda_kernel *k, const char *name,
                     int tensor, const char *token, const char *head) {
  vtb_cuda_in(k, tensor, name);
  vtb__hole_text(h, vtb_arena_printf(&h->texts, "%s_from", name), "%s + (%s)", name,
                 vtb_cuda_offset(c, tensor, (const char *const[]){"b", token, head, NULL}));
}

/* The same of queries or keys, as they are or turned before. True if 16 bytes at a time can be
 * read. */
static bool hole_turned_row(vtb_cuda *c, vtb__cuda_holes *h, vtb_cuda_kernel *k, const char *name,
                            int tensor, const turn *t, const char *token, const char *head) {
  const vtb_type *type = vtb_cuda_tensor_of(c, tensor)->type;
  const vtb_dim *d = type->dim;
  if (t->rows < 0) {
    hole_row(c, h, k, name, tensor, token, head);
    return vtb_cuda_rows_of_four(c, tensor);
  }
  const char *b = vtb_type_count(type) > INT32_MAX ? "(vtb_i64)b" : "b";
  vtb_cuda_temp_in(k, t->rows, "float", name);
  vtb__hole_text(h, vtb_arena_printf(&h->texts, "%s_from", name),
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

static void hole_common(vtb_cuda *c, vtb__cuda_holes *h, vtb_cuda_kernel *k, const operands *o,
                        int64_t tile, int64_t slab) {
  const vtb_attention *a = &o->a;
  bool four_q = hole_turned_row(c, h, k, "q", o->q, &o->turn_q, "i", "head");
  bool four_k = hole_turned_row(c, h, k, "k", o->k, &o->turn_k, "j", "kv");
  bool four = four_q && four_k && vtb_cuda_rows_of_four(c, o->v);
  hole_row(c, h, k, "v", o->v, "j", "kv");
  vtb__hole_number(h, "FOUR", four && (a->dy < 0 || vtb_cuda_rows_of_four(c, a->dy)));
  if (a->bias >= 0) vtb_cuda_in(k, a->bias, "bias");
  if (a->bias >= 0)
    vtb__hole_text(h, "bias", "bias[%s]", bias_at(c, a, a->bias));
  else
    vtb__hole_text(h, "bias", "0.0f");
  vtb__hole_text(h, "scale", "%.9ef", a->scale);
  vtb__hole_number(h, "N", a->n_queries);
  vtb__hole_number(h, "M", a->n_keys);
  vtb__hole_number(h, "HEADS", a->n_heads);
  vtb__hole_number(h, "SHARED", a->n_heads / a->kv_heads);
  vtb__hole_number(h, "K", a->width);
  vtb__hole_number(h, "V", a->value_width);
  vtb__hole_number(h, "TILE", tile);
  vtb__hole_number(h, "SLAB", slab);
  vtb__hole_exact(h, c);
  vtb__hole_number(h, "CAUSAL", a->causal);
  vtb__hole_number(h, "BIAS", a->bias >= 0);
}

static void hole_results(vtb_cuda *c, vtb__cuda_holes *h, vtb_cuda_kernel *k, const operands *o) {
  int lse = o->y + 1;
  vtb_cuda_out(k, o->y, "y");
  vtb_cuda_out(k, lse, "lse");
  hole_element(c, h, "y", "y", o->y, "i", "head", "x");
  hole_element(c, h, "lse", "lse", lse, "i", "head", NULL);
}

/* ---- tiles ----------------------------------------------------------------------------------- */

static bool is_wide(const vtb_cuda *c, int tensor) {
  return vtb_cuda_tensor_of(c, tensor)->type->dtype == VTB_F32;
}

/* The element type of tiles of 16 bits, or NULL: what is turned in its tile must not have been
 * rounded by it before. */
static const char *half_tiles(const vtb_cuda *c, const operands *o, bool queries_too) {
  if (o->turn_k.width && is_wide(c, o->k)) return NULL;
  if (queries_too && o->turn_q.width && is_wide(c, o->q)) return NULL;
  return vtb__cuda_half_tiles(c);
}

/* The second factors of both products: keys along the depth, values across it. */
static void hole_tiles(vtb__cuda_holes *h, vtb_cuda_kernel *k, const char *half, const char *keys,
                       const char *half_keys, const char *values, const char *half_values) {
  vtb__hole_text(h, "pitch_along", "%s", half ? "vtb_pitch_half" : "vtb_pitch_along");
  vtb__hole_text(h, "keys", "%s", half ? half_keys : keys);
  vtb__hole_text(h, "values", "%s", half ? half_values : values);
  if (!half) return;
  vtb_cuda_include(k, "products.cuh");
  vtb_cuda_include(k, "halves.cuh");
}

static int64_t pitch_of(const char *half, int64_t n) { return half ? along_half(n) : along(n); }

static void share_tiles(vtb_cuda_kernel *k, const char *half, const char *name, int64_t elements) {
  vtb_cuda_shared(k, half ? half : "float", half ? 2 : 4, name, elements);
}

/* The adjoint's: tiles of 64 rows of two factors along the depth, then one across it. */
static void share(vtb_cuda_kernel *k, int64_t tile, int64_t slab) {
  vtb_cuda_shared(k, "float", 4, "tiles", larger(2 * 64 * along(slab), 64 * across(tile)));
  vtb_cuda_shared(k, "float", 4, "scores", 64 * along(64));
}

/* ---- turned queries and keys ----------------------------------------------------------------- */

static void put_table(vtb_cuda *c, vtb_cuda_kernel *k, vtb_strbuf *s, const char *name, int tensor,
                      const char *token, const char *head) {
  const char *at = vtb_cuda_offset(c, tensor, (const char *const[]){token, head, NULL});
  vtb_cuda_in(k, tensor, name);
  vtb_strbuf_printf(s, "auto %s_of = [&](int %s) { return %s + (%s); };\n", name, token, name, at);
}

/* ${turns}: where the tables lie. In texts X_turned is the number of channels of X (q or k) that
 * turn. */
static void hole_tables(vtb_cuda *c, vtb__cuda_holes *h, vtb_cuda_kernel *k, const operands *o) {
  vtb_strbuf s = {0};
  if (o->turn_q.width || o->turn_k.width) vtb_cuda_include(k, "turns.cuh");
  if (o->turn_q.width) {
    vtb_strbuf_printf(&s, "constexpr int q_turned = %lld;\n", (long long)o->turn_q.width);
    put_table(c, k, &s, "q_cosines", o->turn_q.cosines, "i", "head");
    put_table(c, k, &s, "q_sines", o->turn_q.sines, "i", "head");
  }
  if (o->turn_k.width) {
    vtb_strbuf_printf(&s, "constexpr int k_turned = %lld;\n", (long long)o->turn_k.width);
    put_table(c, k, &s, "k_cosines", o->turn_k.cosines, "j", "kv");
    put_table(c, k, &s, "k_sines", o->turn_k.sines, "j", "kv");
  }
  vtb__hole_text(h, "turns", "%s", s.at ? s.at : "");
  vtb_strbuf_free(&s);
}

/* Turns a slab of a tile of attention.cu whose first row is `first`. */
static void put_turn(vtb_strbuf *s, const char *when, const char *tile, const char *rows,
                     const char *x, const char *first) {
  vtb_strbuf_printf(
      s,
      "    %svtb_turn_rows<FOUR, 64, SLAB, PA, 128>(\n"
      "        %s, %s, %s_turned - x0, [&](int r) { return %s_cosines_of(%s + r) + x0 / 2; },\n"
      "        [&](int r) { return %s_sines_of(%s + r) + x0 / 2; });\n",
      when, tile, rows, x, x, first, x, first);
}

/* attention.cu. Queries that are turned once lie beside the tiles, slab by slab. */
static void hole_turns(vtb__cuda_holes *h, const operands *o, bool kept) {
  const char *a = kept ? "(a_tile + x0 * PA)" : "a_tile", *once = kept ? "if (j0 == 0) " : "";
  vtb_strbuf s = {0};
  if (o->turn_q.width || o->turn_k.width) vtb_strbuf_puts(&s, "vtb_landed<FOUR>();\n");
  if (o->turn_q.width) put_turn(&s, once, a, "n_rows", "q", "i0");
  if (o->turn_k.width) put_turn(&s, "", "b_tile", "n_keys", "k", "j0");
  vtb__hole_text(h, "turn", "%s%s", s.at ? s.at : "", s.n ? "    " : "");
  vtb__hole_text(h, "once", "%s", once);
  vtb__hole_text(h, "a", "%s", a);
  vtb__hole_text(h, "a_tile", kept ? "queries" : "tiles");
  vtb__hole_text(h, "b_tile", kept ? "tiles" : "tiles + 64 * PA");
  vtb_strbuf_free(&s);
}

/* attention_short.cu. The values may still be on their way while keys are turned. */
static void hole_turns_short(vtb__cuda_holes *h, const operands *o) {
  vtb__hole_text(
      h, "turn", "%s",
      !o->turn_k.width
          ? ""
          : "vtb_landed<FOUR, 1>();\n"
            "vtb_turn_rows<FOUR, KEYS, DEPTH, PK, 32 * WARPS>(keys, M, k_turned, k_cosines_of, "
            "k_sines_of);\n");
  vtb__hole_text(
      h, "q_at", "%s",
      o->turn_q.width
          ? "vtb_turned(q_from(i0 + r), x, q_turned, q_cosines_of(i0 + r), q_sines_of(i0 + r))"
          : "q_from(i0 + r)[x]");
}

/* ---- forward --------------------------------------------------------------------------------- */

static bool is_short(const vtb_attention *a) {
  return a->n_keys <= SHORT_KEYS && a->width <= SHORT_WIDTH && a->value_width <= SHORT_WIDTH;
}

/* A block takes all queries of a head (256 of many) where that keeps the machine busy, else one
 * strip a warp. Of a busy machine no warp is taken that would only copy: a window of up to 48
 * tokens has fewer strips than warps. */
static void attend_short(vtb_cuda *c, const operands *o) {
  const vtb_attention *a = &o->a;
  vtb__cuda_holes h;
  int64_t tile = ceil_div(a->value_width, 8) * 8, slab = ceil_div(a->width, 16) * 16,
          warps = a->n_keys > 96 ? 8 : 4;
  int64_t keys = ceil_div(a->n_keys, 16) * 16, heads = a->n_batch * a->n_heads;
  int64_t rows = ceil_div(a->n_queries, 16) * 16, most = rows < 256 ? rows : 256;
  bool busy = heads * ceil_div(a->n_queries, most) >= BUSY_BLOCKS;
  if (busy && keys <= 64 && rows < 16 * warps) warps = rows / 16;
  rows = busy ? most : 16 * warps;
  vtb_cuda_kernel *k = vtb_cuda_begin(c, "attention_short", (int)(32 * warps));
  vtb__holes_init(&h);
  hole_common(c, &h, k, o, tile, slab);
  hole_tables(c, &h, k, o);
  hole_turns_short(&h, o);
  hole_results(c, &h, k, o);
  vtb__hole_number(&h, "ROWS", rows);
  vtb__hole_number(&h, "WARPS", warps);
  const char *half = half_tiles(c, o, false);
  hole_tiles(&h, k, half, "[&](int x, int j) -> float { return keys[j * PK + x]; }",
             "vtb_tile<true, PK>(keys)",
             "[&](int k, int o) -> float {\n"
             "          return values[(k0 + (STEP == 16 ? k : 2 * (k % 4) + k / 4)) * PV + o];\n"
             "        }",
             "vtb_tile<false, PV>(values + k0 * PV)");
  share_tiles(k, half, "keys", keys * pitch_of(half, slab));
  share_tiles(k, half, "values", keys * across(tile));
  vtb__holes_fill(&h, k, "attention_short.cu");
  vtb_cuda_launch(k, heads * ceil_div(a->n_queries, rows));
}

static void attend(vtb_cuda *c, const operands *o) {
  const vtb_attention *a = &o->a;
  if (is_short(a)) {
    attend_short(c, o);
    return;
  }
  vtb__cuda_holes h;
  int64_t tile = tile_width(a->value_width), slab = slab_width(a->width);
  bool kept = o->turn_q.width && a->width <= KEPT_WIDTH;
  vtb_cuda_kernel *k = vtb_cuda_begin(c, "attention", THREADS);
  vtb__holes_init(&h);
  hole_common(c, &h, k, o, tile, slab);
  hole_tables(c, &h, k, o);
  hole_turns(&h, o, kept);
  hole_results(c, &h, k, o);
  const char *half = half_tiles(c, o, true);
  hole_tiles(&h, k, half, "[&](int x, int j) -> float { return b_tile[j * PA + x]; }",
             "vtb_tile<true, PA>(b_tile)",
             "[&](int j, int o) -> float { return c_tile[j * PC + o]; }",
             "vtb_tile<false, PC>(c_tile)");
  vtb__hole_text(&h, "tile", "%s", half ? half : "float");
  int64_t pitch = pitch_of(half, slab);
  share_tiles(k, half, "tiles", larger((kept ? 1 : 2) * 64 * pitch, 64 * across(tile)));
  vtb_cuda_shared(k, "float", 4, "scores", 64 * along(64));
  if (kept) share_tiles(k, half, "queries", ceil_div(a->width, slab) * 64 * pitch);
  vtb__holes_fill(&h, k, "attention.cu");
  vtb_cuda_launch(k, a->n_batch * a->n_heads * ceil_div(a->n_queries, 64) *
                         ceil_div(a->value_width, tile));
}

void vtb__cuda_attention(vtb_cuda *c, const vtb_inst *inst) {
  operands o = operands_of(inst);
  attend(c, &o);
}

/* ---- adjoint --------------------------------------------------------------------------------- */

/* Rows [.., heads, K] turned, as a temporary: three kernels read them, many times each. */
static void make_turned(vtb_cuda *c, int tensor, turn *t) {
  vtb__cuda_holes h;
  const vtb_type *type = vtb_cuda_tensor_of(c, tensor)->type;
  const char *const table[] = {"i", "head", NULL};
  bool four = vtb_cuda_rows_of_four(c, tensor);
  int64_t width = type->dim[3].size,
          items = vtb_type_count(type) / width * ceil_div(width, four ? 4 : 2);
  t->rows = vtb_cuda_temp(c, vtb_type_count(type) * 4);
  vtb_cuda_kernel *k = vtb_cuda_begin(c, "attention_turn", 256);
  vtb__holes_init(&h);
  vtb_cuda_include(k, "turns.cuh");
  hole_row(c, &h, k, "rows", tensor, "i", "head");
  vtb_cuda_in(k, t->cosines, "cosines");
  vtb_cuda_in(k, t->sines, "sines");
  vtb_cuda_temp_out(k, t->rows, "float", "turned");
  vtb__hole_text(&h, "cosines_from", "cosines + (%s)", vtb_cuda_offset(c, t->cosines, table));
  vtb__hole_text(&h, "sines_from", "sines + (%s)", vtb_cuda_offset(c, t->sines, table));
  vtb__hole_number(&h, "N", type->dim[1].size);
  vtb__hole_number(&h, "HEADS", type->dim[2].size);
  vtb__hole_number(&h, "K", width);
  vtb__hole_number(&h, "TURNED", t->width);
  vtb__hole_number(&h, "FOUR", four);
  vtb__hole_number(&h, "ITEMS", items);
  vtb__holes_fill(&h, k, "attention_turn.cu");
  vtb_cuda_launch(k, ceil_div(items, 256));
}

/* ${turn_back}: the lines that turn dq or dk back in the registers where their sums are. */
static void hole_turn_back(vtb_cuda *c, vtb__cuda_holes *h, vtb_cuda_kernel *k, const operands *o,
                           result r) {
  const turn *t = r == DQ ? &o->turn_q : &o->turn_k;
  vtb_strbuf s = {0};
  if ((r == DQ || r == DK) && t->width) {
    vtb_cuda_include(k, "turns.cuh");
    put_table(c, k, &s, "cosines", t->cosines, r == DQ ? "i" : "j", r == DQ ? "head" : "kv");
    put_table(c, k, &s, "sines", t->sines, r == DQ ? "i" : "j", r == DQ ? "head" : "kv");
    vtb_strbuf_printf(
        &s,
        "vtb_turn_back(\n"
        "    out, n_rows - row, o0, %lld, [&](int r) { return cosines_of(i0 + row + r); },\n"
        "    [&](int r) { return sines_of(i0 + row + r); });\n",
        (long long)t->width);
  }
  vtb__hole_text(h, "turn_back", "%s", s.at ? s.at : "");
  vtb_strbuf_free(&s);
}

static int make_delta(vtb_cuda *c, const vtb_attention *a) {
  vtb__cuda_holes h;
  int64_t items = a->n_batch * a->n_queries * a->n_heads;
  int delta = vtb_cuda_temp(c, items * 4);
  vtb_cuda_kernel *k = vtb_cuda_begin(c, "attention_delta", THREADS);
  vtb__holes_init(&h);
  vtb_cuda_in(k, a->y, "y");
  vtb_cuda_in(k, a->dy, "dy");
  vtb_cuda_temp_out(k, delta, "float", "delta");
  hole_element(c, &h, "y", "y", a->y, "i", "head", "x");
  hole_element(c, &h, "dy", "dy", a->dy, "i", "head", "x");
  if (a->dlse >= 0) vtb_cuda_in(k, a->dlse, "dlse");
  if (a->dlse >= 0)
    hole_element(c, &h, "dlse", "dlse", a->dlse, "i", "head", NULL);
  else
    vtb__hole_text(&h, "dlse", "0.0f");
  vtb__hole_number(&h, "N", a->n_queries);
  vtb__hole_number(&h, "HEADS", a->n_heads);
  vtb__hole_number(&h, "V", a->value_width);
  vtb__hole_number(&h, "ITEMS", items);
  vtb__holes_fill(&h, k, "attention_delta.cu");
  vtb_cuda_launch(k, ceil_div(items, THREADS / 32));
  return delta;
}

static void make_result(vtb_cuda *c, const operands *o, int delta, result r) {
  static const char *const kinds[] = {"attention_dq", "attention_dk", "attention_dv",
                                      "attention_dbias"};
  const vtb_attention *a = &o->a;
  vtb__cuda_holes h;
  bool keys = r == DK || r == DV, by_batch = a->bias_batch > 1;
  int64_t width = r == DBIAS ? a->n_keys : r == DV ? a->value_width : a->width;
  int64_t tile = r == DBIAS ? 64 : tile_width(width),
          slab = slab_width(larger(a->width, a->value_width));
  int64_t outer =
      r == DBIAS ? a->bias_batch * a->bias_heads : a->n_batch * (keys ? a->kv_heads : a->n_heads);
  int tensor = o->y + (int)r;
  vtb_cuda_kernel *k = vtb_cuda_begin(c, kinds[r], THREADS);
  vtb__holes_init(&h);
  hole_common(c, &h, k, o, tile, slab);
  hole_row(c, &h, k, "dy", a->dy, "i", "head");
  vtb_cuda_in(k, a->lse, "lse");
  vtb_cuda_temp_in(k, delta, "float", "delta");
  vtb_cuda_out(k, tensor, "to");
  hole_element(c, &h, "lse", "lse", a->lse, "i", "head", NULL);
  if (r == DBIAS)
    vtb__hole_text(&h, "put", "to[%s]", bias_at(c, a, tensor));
  else
    hole_element(c, &h, "put", "to", tensor, keys ? "j" : "i", keys ? "kv" : "head", "x");
  hole_turn_back(c, &h, k, o, r);
  vtb__hole_number(&h, "RESULT", r);
  vtb__hole_number(&h, "BIAS_HEADS", a->bias_heads);
  vtb__hole_number(&h, "BATCH", a->n_batch);
  vtb__hole_number(&h, "BY_BATCH", by_batch);
  share(k, tile, slab);
  vtb_cuda_shared(k, "float", 4, "sums", 64);
  vtb_cuda_shared(k, "float", 4, "deltas", 64);
  vtb__holes_fill(&h, k, "attention_grad.cu");
  vtb_cuda_launch(k, outer * ceil_div(keys ? a->n_keys : a->n_queries, 64) * ceil_div(width, tile));
}

static void attend_grad(vtb_cuda *c, operands *o) {
  if (o->turn_q.width) make_turned(c, o->q, &o->turn_q);
  if (o->turn_k.width) make_turned(c, o->k, &o->turn_k);
  int delta = make_delta(c, &o->a);
  make_result(c, o, delta, DQ);
  make_result(c, o, delta, DK);
  make_result(c, o, delta, DV);
  if (o->a.wants_dbias) make_result(c, o, delta, DBIAS);
}

void vtb__cuda_attention_grad(vtb_cuda *c, const vtb_inst *inst) {
  operands o = operands_of(inst);
  attend_grad(c, &o);
}

void vtb__cuda_turned_attention(vtb_cuda *c, const vtb_inst *fused) {
  operands o = turned_operands_of(fused);
  if (o.a.dy >= 0)
    attend_grad(c, &o);
  else
    attend(c, &o);
}
