/* Taking linscan instructions apart; their tensors as C expressions: see linscan.h. */
#include <string.h>

#include "codegen/cuda/scan/linscan.h"
#include "ir/ops.h"
#include "codegen/cuda/plan/program.h"

/* A decay of less size is taken for it in adjoints of the matmul forms, so that it divides out:
 * codegen/cpu/scan/linscan_grad.c has the reason. */
#define FLOOR "1e-18f"

int vtb__cuda_scan_tile_threads(int64_t width) {
  enum { NARROW = 128, WIDE = 512 };
  return width > WIDE ? 512 : width > NARROW ? 256 : 128;
}

static vtb_scan_tensors delta_tensors(const vtb_delta_tensors *d) {
  vtb_scan_tensors at;
  memset(&at, 0xff, sizeof at); /* all are -1 */
  at.q = d->b, at.k = d->k, at.v = d->v, at.d = d->d, at.s0 = d->s0, at.y = d->w;
  return at;
}

vtb_scan_tensors vtb__scan_tensors_of(const vtb_inst *inst) {
  if (inst->op != VTB_OP_delta) return vtb_scan_of(inst).at;
  vtb_delta d = vtb_delta_of(inst);
  return delta_tensors(&d.at);
}

static vtb__cuda_scan make_delta(vtb_cuda *c, const vtb_inst *inst) {
  vtb_delta of = vtb_delta_of(inst);
  vtb_scan_tensors at = delta_tensors(&of.at);
  return (vtb__cuda_scan){.c = c,
                          .inst = inst,
                          .decay = of.decay,
                          .init = of.init,
                          .gain = -1,
                          .by_steps = of.recurrent,
                          .rank = of.rank,
                          .B = of.n_batch,
                          .N = of.n_tokens,
                          .heads = of.n_heads,
                          .K = of.K,
                          .V = of.V,
                          .V1 = of.V,
                          .n = of.n_batch * of.n_heads,
                          .at = at,
                          .n_dirs = 1,
                          .dir = {inst},
                          .dir_at = {at}};
}

/* All of its products are on tiles of 16 bits, either way round. */
static bool is_half(const vtb__cuda_scan *s) {
  int64_t bytes, widest = s->K > s->V ? s->K : s->V;
  bool outside = s->n_chunks > 1 || s->init || s->dlast;
  return !s->by_steps &&
         VTB_CUDA_TAKES(s->c, "linscan_tiles.cu", vtb__cuda_tile_type(s->c), &bytes,
                        {"DEPTH", widest}, {"WIDTH", widest}, {"FACTORS", vtb__cuda_factors(s->c)},
                        {"OUTSIDE", outside}, {"STATE_ACROSS", true}, {"HALF", true},
                        {"FORWARD", false}, {"PAIRED", false}, {"GAIN", false}, {"A_MAP", false},
                        {"B_MAP", false}, {"C_MAP", false}, {"SUMMED", false}, {"ROW_GAIN", false},
                        {"WGMMA", false}, {"THREADS", vtb__cuda_scan_tile_threads(widest)});
}

vtb__cuda_scan vtb__cuda_scan_make(vtb_cuda *c, const vtb_inst *inst) {
  if (inst->op == VTB_OP_delta) return make_delta(c, inst);
  vtb_scan of = vtb_scan_of(inst);
  vtb__cuda_scan s = {.c = c,
                      .inst = inst,
                      .decay = of.decay,
                      .grad = of.grad,
                      .normalizer = of.normalizer,
                      .init = of.init,
                      .last = of.last,
                      .dlast = of.dlast,
                      .gain = -1,
                      .by_steps = !vtb_scan_is_product(inst),
                      .B = of.n_batch,
                      .N = of.n_tokens,
                      .heads = of.n_heads,
                      .K = of.K,
                      .V = of.V,
                      .V1 = of.V + of.normalizer,
                      .n = of.n_batch * of.n_heads,
                      .at = of.at,
                      .n_dirs = 1,
                      .dir = {inst},
                      .dir_at = {of.at}};
  s.chunk = of.recurrent && of.chunk > 64 ? 64 : of.chunk;
  s.n_chunks = (s.N + s.chunk - 1) / s.chunk;
  s.half = is_half(&s);
  s.state_pitch = s.half ? (s.V + 7) / 8 * 8 : (s.V1 + 3) / 4 * 4;
  int64_t rest = s.N - (s.n_chunks - 1) * s.chunk;
  s.row_tiles = (s.n_chunks - 1) * ((s.chunk + 63) / 64) + (rest + 63) / 64;
  return s;
}

/* ---- order of tokens ------------------------------------------------------------------------- */

void vtb__scan_order(const vtb__cuda_scan *s, int dir, int32_t *table) {
  const char *text = vtb_attr_str(s->dir[dir], "path", NULL);
  vtb_path path = {0};
  vtb_error err = {0};
  int64_t *steps = vtb_xcalloc((size_t)s->N, sizeof *steps);
  if (text) {
    vtb_check(vtb_path_parse(text, &path, &err) == VTB_OK && path.n == s->N, "path '%s': %s", text,
              err.text);
    vtb_path_indices(&path, steps);
    vtb_path_free(&path);
  }
  for (int64_t t = 0; t < s->N; t++) table[t] = (int32_t)(text ? steps[t] : t);
  vtb_free(steps);
}

/* ---- kernels --------------------------------------------------------------------------------- */

static const char *place(const vtb__cuda_scan *s, vtb_cuda_kernel *k);

void vtb__scan_begin(vtb__cuda_scan *s, const char *kind, const char *file, int threads) {
  const vtb_cuda_number numbers[] = {
      {"N", s->N},           {"K", s->K},         {"V", s->V},
      {"V1", s->V1},         {"CHUNK", s->chunk}, {"ROW_TILES", s->row_tiles},
      {"BATCH", s->B},       {"SCANS", s->n},     {"STATE_PITCH", s->state_pitch},
      {"PAIRED", s->paired}, {"DIRS", s->n_dirs}, {"HEADS", s->heads},
      {"RANK", s->rank}};
  s->k = vtb_cuda_begin_text(s->c, kind, file, threads);
  s->declared = 0;
  s->pointers = "";
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (vtb_cuda_has(s->k, numbers[i].name)) vtb_cuda_numbers(s->k, &numbers[i], 1);
  if (vtb_cuda_has(s->k, "place")) vtb_cuda_fill(s->k, "place", "%s", place(s, s->k));
}

void vtb__scan_launch(vtb__cuda_scan *s, int64_t scans) {
  vtb_cuda_fill(s->k, "directions", "%s", s->pointers);
  vtb_cuda_launch(s->k, scans * vtb_cuda_value(s->k, "BLOCKS"));
}

static const int *members(const vtb_scan_tensors *t) { return (const int *)t; }

static bool is_shared(const vtb__cuda_scan *s, int m) {
  for (int d = 1; d < s->n_dirs; d++)
    if (members(&s->dir_at[d])[m] != members(&s->at)[m]) return false;
  return true;
}

static void declare(vtb__cuda_scan *s, const int *member, const char *name, bool out) {
  int m = (int)(member - members(&s->at));
  vtb_arena *arena = &s->c->arena;
  const char *choice = "";
  if (s->declared >> m & 1) return;
  s->declared |= 1u << m;
  for (int d = 0, n = is_shared(s, m) ? 1 : s->n_dirs; d < n; d++) {
    const char *own = n == 1 ? name : vtb_arena_printf(arena, "%s_%d", name, d);
    (out ? vtb_cuda_out : vtb_cuda_in)(s->k, members(&s->dir_at[d])[m], own);
    if (d + 1 < n)
      choice = vtb_arena_printf(arena, "%sdir == %d ? %s : ", choice, d, own);
    else if (n > 1)
      s->pointers =
          vtb_arena_printf(arena, "%s  const auto %s = %s%s;\n", s->pointers, name, choice, own);
  }
}

void vtb__scan_in(vtb__cuda_scan *s, const int *member, const char *name) {
  declare(s, member, name, false);
}
void vtb__scan_out(vtb__cuda_scan *s, const int *member, const char *name) {
  declare(s, member, name, true);
}

void vtb__scan_temp(vtb__cuda_scan *s, int temp, const char *name, const char *other) {
  if (temp >= 0) vtb_cuda_temp_in(s->k, temp, "float", name);
  vtb_cuda_fill(s->k, name, "%s", temp >= 0 ? name : other);
}

/* ---- rows ------------------------------------------------------------------------------------ */

void vtb__fill_number(vtb__cuda_scan *s, const char *hole, const char *value) {
  for (size_t i = 0; i < s->k->of.all.n; i++)
    if (vtb_streq(s->k->of.all.at[i].name, hole) && s->k->of.all.at[i].kind == VTB__TEXT_CODE)
      value = vtb_arena_printf(&s->c->arena, "return %s;", value);
  vtb_cuda_fill(s->k, hole, "%s", value);
}

const char *vtb__cuda_scan_at(const vtb__cuda_scan *s, int tensor, const char *x) {
  return vtb_cuda_offset(s->c, tensor, (const char *const[]){"b", "pos", "h", x, NULL});
}

static const char *state_at(const vtb__cuda_scan *s, int tensor, bool vector) {
  return vtb_cuda_offset(s->c, tensor, (const char *const[]){"b", "h", "key", vector ? NULL : "x"});
}

static const int *row_member(const vtb__cuda_scan *s, vtb__cuda_row row) {
  const int *const all[] = {&s->at.q, &s->at.k, &s->at.v, &s->at.dy};
  return all[row];
}

static const char *declare_row(vtb__cuda_scan *s, vtb__cuda_row row) {
  static const char *const names[] = {"q", "k", "v", "dy"};
  vtb__scan_in(s, row_member(s, row), names[row]);
  return names[row];
}

/* Texts have parameters q, k, v and dy. */
const char *vtb__cuda_scan_row(vtb__cuda_scan *s, vtb__cuda_row row) {
  const char *at = vtb__cuda_scan_at(s, *row_member(s, row), "x"), *name = declare_row(s, row);
  vtb_arena *arena = &s->c->arena;
  if (!s->normalizer || row == VTB__ROW_Q || row == VTB__ROW_K)
    return vtb_arena_printf(arena, "%s[%s]", name, at);
  if (row == VTB__ROW_V) return vtb_arena_printf(arena, "(x < V ? v[%s] : 1.0f)", at);
  vtb__scan_in(s, &s->at.dz, "dz");
  return vtb_arena_printf(arena, "(x < V ? dy[%s] : dz[%s])", at,
                          vtb__cuda_scan_at(s, s->at.dz, NULL));
}

/* Holes have the names of the parameters. */
void vtb__fill_row(vtb__cuda_scan *s, vtb__cuda_row row, const char *hole) {
  vtb__fill_number(s, hole, vtb__cuda_scan_row(s, row));
}

void vtb__fill_source(vtb__cuda_scan *s, vtb__cuda_row row, const char *hole) {
  const char *from = vtb_arena_printf(&s->c->arena, "%s_from", hole);
  const char *extra = vtb_arena_printf(&s->c->arena, "%s_extra", hole);
  vtb_cuda_fill(s->k, from, "%s + (%s)", declare_row(s, row),
                vtb__cuda_scan_at(s, *row_member(s, row), NULL));
  const char *stride = vtb_arena_printf(&s->c->arena, "%s_stride", hole);
  if (vtb_cuda_has(s->k, stride))
    VTB_CUDA_NUMBERS(s->k, {stride, vtb_cuda_tensor_of(s->c, *row_member(s, row))->stride[1]});
  if (!vtb_cuda_has(s->k, extra)) return;
  bool values = row == VTB__ROW_V || row == VTB__ROW_DY;
  if (s->normalizer && row == VTB__ROW_DY) {
    vtb__scan_in(s, &s->at.dz, "dz");
    vtb_cuda_fill(s->k, extra, "dz[%s]", vtb__cuda_scan_at(s, s->at.dz, NULL));
  } else {
    vtb_cuda_fill(s->k, extra, s->normalizer && values ? "1.0f" : "0.0f");
  }
}

bool vtb__cuda_rows_four(const vtb__cuda_scan *s, const vtb__cuda_row *rows, int n) {
  bool four = true;
  for (int i = 0; i < n; i++) four = four && vtb_cuda_rows_of_four(s->c, *row_member(s, rows[i]));
  return four;
}

bool vtb__cuda_tensor_eight(const vtb__cuda_scan *s, int tensor) {
  const vtb_cuda_tensor *t = vtb_cuda_tensor_of(s->c, tensor);
  int axes = t->type->rank, half = vtb_dtype_bytes(t->type->dtype) == 2;
  bool eight = vtb_cuda_rows_of_four(s->c, tensor) && t->align == (half ? 8 : 4) &&
               t->type->dim[axes - 1].size % 8 == 0;
  for (int a = 0; eight && half && a < axes - 1; a++) eight = t->stride[a] % 8 == 0;
  return eight;
}

bool vtb__cuda_row_eight(const vtb__cuda_scan *s, vtb__cuda_row row) {
  return vtb__cuda_tensor_eight(s, *row_member(s, row));
}

static bool is_scan(const vtb_inst *i) {
  return i->op == VTB_OP_linscan || i->op == VTB_OP_linscan_grad || i->op == VTB_OP_delta;
}

static bool has_paths(const vtb_module *m) {
  for (const vtb_func *f = m->first; f; f = f->next)
    for (const vtb_inst *i = f->first; i; i = i->next)
      if (is_scan(i) && vtb_attr_find(i, "path")) return true;
  return false;
}

/* A table even where the path has a formula: then all scans of a model share one kernel and its
 * compilation. */
static const char *place(const vtb__cuda_scan *s, vtb_cuda_kernel *k) {
  if (!has_paths(s->inst->func->module)) return "t";
  int n = s->n_passes > 1 ? s->n_passes : s->n_dirs;
  int32_t *table = vtb_xcalloc((size_t)(n * s->N), sizeof *table);
  for (int d = 0; d < n; d++) vtb__scan_order(s, s->paired ? d / 2 * 2 : d, table + d * s->N);
  vtb_cuda_table_i32(k, table, (size_t)(n * s->N), "order");
  vtb_free(table);
  return n == 1 ? "order[t]"
                : vtb_arena_printf(&s->c->arena, "order[%s * %lld + t]",
                                   s->n_passes > 1 ? "pass" : "dir", (long long)s->N);
}

void vtb__fill_decay(vtb__cuda_scan *s) {
  bool constant = !s->decay->by_step;
  const char *at = constant ? vtb_cuda_offset(s->c, s->at.d, (const char *const[]){"h"})
                            : vtb__cuda_scan_at(s, s->at.d, NULL);
  vtb__scan_in(s, &s->at.d, "d");
  vtb_cuda_fill(s->k, "decay", s->grad ? "vtb_scan_floor(d[%s], " FLOOR ")" : "d[%s]", at);
}

/* ---- states ---------------------------------------------------------------------------------- */

vtb__scan_borders vtb__scan_borders_of(const vtb__cuda_scan *s, bool backward) {
  vtb__scan_borders b = {.keys = backward ? VTB__ROW_Q : VTB__ROW_K,
                         .values = backward ? VTB__ROW_DY : VTB__ROW_V,
                         .from = backward ? &s->at.ds : &s->at.s0,
                         .from_n = backward ? &s->at.dn : &s->at.n0,
                         .to = backward ? &s->at.ds0 : &s->at.s,
                         .to_n = backward ? &s->at.dn0 : &s->at.n};
  b.kept = s->n_chunks > 1 || (backward ? s->dlast : s->init);
  b.asked = backward ? s->init : !s->grad && s->last;
  return b;
}

void vtb__fill_state(vtb__cuda_scan *s, const char *hole, const int *tensor, const int *vector) {
  const char *name = vtb_arena_printf(&s->c->arena, "%s_in", hole);
  const char *name_n = vtb_arena_printf(&s->c->arena, "%s_n", hole);
  if (*tensor >= 0) vtb__scan_in(s, tensor, name);
  if (*vector >= 0) vtb__scan_in(s, vector, name_n);
  const char *value = "0.0f";
  if (*vector >= 0)
    value = vtb_arena_printf(&s->c->arena, "(x < V ? %s[%s] : %s[%s])", name,
                             state_at(s, *tensor, false), name_n, state_at(s, *vector, true));
  else if (*tensor >= 0)
    value = vtb_arena_printf(&s->c->arena, "%s[%s]", name, state_at(s, *tensor, false));
  vtb__fill_number(s, hole, value);
}

static void fill_put(vtb__cuda_scan *s, const char *hole, const char *name, const int *tensor,
                     bool vector) {
  if (*tensor >= 0) vtb__scan_out(s, tensor, name);
  vtb_cuda_fill(s->k, hole, *tensor >= 0 ? "%s[%s] = s;" : "", name,
                *tensor >= 0 ? state_at(s, *tensor, vector) : "");
}

void vtb__fill_put_state(vtb__cuda_scan *s, const char *hole, bool asked, const int *tensor,
                         const int *vector) {
  static const int none = -1;
  fill_put(s, hole, "out_s", asked ? tensor : &none, false);
  fill_put(s, vtb_arena_printf(&s->c->arena, "%s_n", hole), "out_n", asked ? vector : &none, true);
}
