/* linscan token by token, for every class: the state [K, V] stays in scratch memory, vectors run
 * along V.
 *
 * Serves mode recurrent, and all modes of the classes key, value and full, whose matrix forms are
 * not generated: they give the same results at the recurrent form's cost. Tiles of V are
 * independent, so few heads still feed all threads. With a normalizer the state is carried in
 * double: see vtb_scan_is_wide.
 */
#include "codegen/cpu/scan/linscan.h"

#define MAX_GROUP 4

static LLVMValueRef k_(vtb_cpu *c, int64_t v) { return vtb_cpu_i64(c, v); }

vtb__steps vtb__steps_begin(vtb__cpu_scan *s, const vtb_inst *inst, int max_vectors) {
  vtb_cpu *c = s->c;
  vtb__steps g = {.s = s};
  int64_t stored = vtb__cols_stored(c, s->of.V, s->of.normalizer),
          bh = s->of.n_batch * s->of.n_heads;
  int64_t want = bh >= 8 ? 1 : (8 + bh - 1) / bh, least = 2 * c->width;
  g.width = vtb__padded(c, (stored + want - 1) / want);
  if (g.width > max_vectors * c->width) g.width = max_vectors * c->width;
  if (g.width < least) g.width = least;
  g.n_tiles = (stored + g.width - 1) / g.width;
  g.ld = g.n_tiles > 1 ? g.width : stored;
  s->t = vtb_cpu_task_begin(c, inst, "steps", bh * g.n_tiles, 1);
  LLVMValueRef tile = vtb_cpu_rem(c, s->t->index, g.n_tiles),
               group = vtb_cpu_div(c, s->t->index, g.n_tiles);
  s->batch = vtb_cpu_div(c, group, s->of.n_heads);
  s->head = vtb_cpu_rem(c, group, s->of.n_heads);
  g.cols = vtb__cols_tile(c, s->of.V, s->of.normalizer, g.width, tile);
  g.v = vtb_cpu_scratch(c, s->t, g.ld * (int64_t)sizeof(float));
  g.d = vtb_cpu_scratch(c, s->t, g.ld * (int64_t)sizeof(float));
  return g;
}

void vtb__steps_rows(const vtb__steps *g, LLVMValueRef pos) {
  vtb__cpu_scan *s = g->s;
  vtb__row_pack(s->c, &g->cols, vtb__scan_row(s, s->of.at.v, pos), vtb_cpu_f32(s->c, 1), NULL,
                g->v);
  if (s->of.decay->axes == VTB_ALONG_VALUE)
    vtb__row_pack(s->c, &g->cols, vtb__scan_row(s, s->of.at.d, pos), NULL, NULL, g->d);
}

void vtb__each_vector(vtb_cpu *c, const vtb__cols *cols, int max_group, vtb__vectors_fn *fn,
                      void *user) {
  LLVMValueRef from = k_(c, 0);
  for (int vectors = max_group; vectors >= 1; vectors /= 2) {
    int64_t step = (int64_t)vectors * c->width;
    vtb_cpu_for l =
        vtb_cpu_for_begin(c, from, vtb_cpu_add(c, cols->whole, k_(c, 1 - step)), k_(c, step));
    fn(user, l.i, vectors, 0);
    vtb_cpu_for_end(c, &l);
    from = l.i;
  }
  int64_t left = cols->n % c->width + cols->extra;
  if (!left) return;
  vtb_cpu_if test;
  if (cols->tail_if) test = vtb_cpu_if_begin(c, cols->tail_if);
  fn(user, cols->whole, 1, left);
  if (cols->tail_if) vtb_cpu_if_end(c, &test);
}

/* One number for all columns, of a token or one of its keys; NULL where columns have their own. */
static LLVMValueRef common_decay(const vtb__steps *g, LLVMValueRef pos, LLVMValueRef k) {
  vtb__cpu_scan *s = g->s;
  vtb_cpu *c = s->c;
  LLVMValueRef index[] = {s->batch, pos, s->head, k};
  const vtb_cpu_tensor *d = &s->t->t[s->of.at.d];
  vtb_decay_axes axes = s->of.decay->axes;
  if (!s->of.decay->by_step) return vtb_cpu_load(c, vtb_cpu_element(c, d, &s->head, 1), 1);
  if (axes == VTB_ALONG_VALUE || axes == VTB_ALONG_BOTH) return NULL;
  return vtb_cpu_load(c, vtb_cpu_element(c, d, index, axes == VTB_ALONG_KEY ? 4 : 3), 1);
}

LLVMValueRef vtb__steps_decay(const vtb__steps *g, LLVMValueRef pos, LLVMValueRef k, LLVMValueRef j,
                              int64_t left) {
  vtb__cpu_scan *s = g->s;
  vtb_cpu *c = s->c;
  LLVMValueRef common = common_decay(g, pos, k);
  if (common) return vtb_cpu_splat(c, common, c->width);
  if (s->of.decay->axes == VTB_ALONG_VALUE)
    return vtb_cpu_load(c, vtb_cpu_at(c, g->d, j), c->width);
  LLVMValueRef index[] = {s->batch, pos, s->head, k, vtb_cpu_add(c, g->cols.from, j)};
  const vtb_cpu_tensor *d = &s->t->t[s->of.at.d];
  LLVMValueRef at = vtb_cpu_element(c, d, index, 5);
  if (!left) return vtb_cpu_load(c, at, c->width);
  return vtb_cpu_load_masked(c, at, vtb_cpu_mask(c, k_(c, left), c->width), c->width);
}

typedef struct advance {
  const vtb__steps *g;
  LLVMValueRef pos, prev, next, y;
  LLVMTypeRef number; /* vectors of the states and of what is read */
} advance;

static LLVMTypeRef doubles(vtb_cpu *c) {
  return LLVMVectorType(LLVMDoubleTypeInContext(c->ctx), (unsigned)c->width);
}

static bool is_wide(const advance *a) { return a->number != a->g->s->c->vf32; }

static LLVMValueRef widened(const advance *a, LLVMValueRef x) {
  return is_wide(a) ? LLVMBuildFPExt(a->g->s->c->b, x, a->number, "") : x;
}

/* A number in all lanes; NULL stays NULL. */
static LLVMValueRef splat(const advance *a, LLVMValueRef x) {
  vtb_cpu *c = a->g->s->c;
  if (x && is_wide(a)) x = LLVMBuildFPExt(c->b, x, LLVMGetElementType(a->number), "");
  return x ? vtb_cpu_splat(c, x, c->width) : NULL;
}

/* The address of a state's element; offset in elements. */
static LLVMValueRef state_at(const advance *a, LLVMValueRef state, LLVMValueRef offset) {
  vtb_cpu *c = a->g->s->c;
  return vtb_cpu_at(c, state, is_wide(a) ? vtb_cpu_mul(c, offset, 2) : offset);
}

static LLVMValueRef load_state(const advance *a, LLVMValueRef state, LLVMValueRef offset) {
  LLVMValueRef v = LLVMBuildLoad2(a->g->s->c->b, a->number, state_at(a, state, offset), "");
  LLVMSetAlignment(v, 4);
  return v;
}

static void advance_vectors(void *user, LLVMValueRef j, int vectors, int64_t left) {
  const advance *a = user;
  const vtb__steps *g = a->g;
  vtb_cpu *c = g->s->c;
  int w = c->width;
  LLVMValueRef at[MAX_GROUP], v[MAX_GROUP];
  for (int i = 0; i < vectors; i++) {
    at[i] = vtb_cpu_add(c, j, k_(c, i * w));
    v[i] = widened(a, vtb_cpu_load(c, vtb_cpu_at(c, g->v, at[i]), w));
  }
  LLVMValueRef keys = vtb__scan_row(g->s, g->s->of.at.k, a->pos),
               queries = vtb__scan_row(g->s, g->s->of.at.q, a->pos);
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), k_(c, g->s->of.K), k_(c, 1));
  for (int i = 0; i < vectors; i++) vtb_cpu_carry(c, &l, LLVMConstNull(a->number));
  LLVMValueRef key = splat(a, vtb_cpu_load(c, vtb_cpu_at(c, keys, l.i), 1)),
               common = splat(a, common_decay(g, a->pos, l.i)), query = NULL;
  if (a->y) query = splat(a, vtb_cpu_load(c, vtb_cpu_at(c, queries, l.i), 1));
  for (int i = 0; i < vectors; i++) {
    LLVMValueRef offset = vtb_cpu_add(c, vtb_cpu_mul(c, l.i, g->ld), at[i]);
    LLVMValueRef decay = common;
    if (!decay) decay = widened(a, vtb__steps_decay(g, a->pos, l.i, at[i], left));
    LLVMValueRef kept = LLVMBuildFMul(c->b, decay, load_state(a, a->prev, offset), "");
    LLVMValueRef state = vtb_cpu_fma(c, key, v[i], kept);
    vtb_cpu_store(c, state, state_at(a, a->next, offset));
    if (a->y) vtb_cpu_carry_next(&l, i, vtb_cpu_fma(c, query, state, vtb_cpu_carried(&l, i)));
  }
  vtb_cpu_for_end(c, &l);
  if (!a->y) return;
  for (int i = 0; i < vectors; i++) {
    LLVMValueRef y = vtb_cpu_carried(&l, i);
    if (is_wide(a)) y = LLVMBuildFPTrunc(c->b, y, c->vf32, "");
    vtb_cpu_store(c, y, vtb_cpu_at(c, a->y, at[i]));
  }
}

void vtb__steps_advance(const vtb__steps *g, LLVMValueRef pos, LLVMValueRef prev, LLVMValueRef next,
                        LLVMValueRef y) {
  vtb_cpu *c = g->s->c;
  advance a = {g, pos, prev, next, y, c->vf32};
  vtb__each_vector(c, &g->cols, MAX_GROUP, advance_vectors, &a);
}

/* The state's floats `narrow` from or to its doubles `wide`. */
static void convert(const vtb__steps *g, LLVMValueRef narrow, LLVMValueRef wide, bool to_wide) {
  vtb_cpu *c = g->s->c;
  const advance a = {.g = g, .number = doubles(c)};
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), k_(c, g->s->of.K * g->ld), k_(c, c->width));
  LLVMValueRef at = vtb_cpu_at(c, narrow, l.i);
  if (to_wide)
    vtb_cpu_store(c, widened(&a, vtb_cpu_load(c, at, c->width)), state_at(&a, wide, l.i));
  else
    vtb_cpu_store(c, LLVMBuildFPTrunc(c->b, load_state(&a, wide, l.i), c->vf32, ""), at);
  vtb_cpu_for_end(c, &l);
}

void vtb__linscan_steps(vtb__cpu_scan *s, const vtb_inst *inst) {
  vtb_cpu *c = s->c;
  bool wide = vtb_scan_is_wide(&s->of);
  vtb__steps g = vtb__steps_begin(s, inst, 64);
  int64_t n = s->of.K * g.ld;
  LLVMValueRef packed = vtb_cpu_scratch(c, s->t, n * (int64_t)sizeof(float));
  LLVMValueRef state = wide ? vtb_cpu_scratch(c, s->t, n * (int64_t)sizeof(double)) : packed;
  LLVMValueRef y = vtb_cpu_scratch(c, s->t, g.ld * (int64_t)sizeof(float));
  if (s->of.init)
    vtb__scan_pack_state(s, &g.cols, s->of.at.s0, s->of.at.n0, packed, g.ld);
  else
    vtb__fill(c, packed, k_(c, n), 0);
  if (wide) convert(&g, packed, state, true);
  vtb_cpu_for t = vtb_cpu_for_begin(c, k_(c, 0), k_(c, s->of.n_tokens), k_(c, 1));
  LLVMValueRef pos = vtb__order_at(c, &s->order, t.i);
  vtb__steps_rows(&g, pos);
  advance a = {&g, pos, state, state, y, wide ? doubles(c) : c->vf32};
  bool few = wide && c->width < 16; /* registers */
  vtb__each_vector(c, &g.cols, few ? MAX_GROUP / 2 : MAX_GROUP, advance_vectors, &a);
  vtb__row_unpack(c, &g.cols, y, s->of.normalizer ? vtb__scan_row(s, s->of.at.z, pos) : NULL,
                  vtb__scan_row(s, s->of.at.y, pos));
  vtb_cpu_for_end(c, &t);
  if (wide && s->of.last) convert(&g, packed, state, false);
  if (s->of.last) vtb__scan_unpack_state(s, &g.cols, s->of.at.s, s->of.at.n, packed, g.ld);
  vtb_cpu_task_end(c, s->t);
}
