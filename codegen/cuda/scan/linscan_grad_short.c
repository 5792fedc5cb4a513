/* linscan_grad of few tokens, classes constant and scalar, of factors that round to 16 bits: one
 * kernel, text/linscan_grad_short.cu, whose blocks keep the scores of a sequence in shared memory.
 * It takes what has no states at its ends, as long as a block finds room for the scores, or for one
 * of their two triangles at a time, and two slabs of rows; else linscan_grad.c does. */
#include "codegen/cuda/emitters.h"
#include "ir/ops.h"
#include "codegen/cuda/scan/linscan.h"
#include "codegen/cuda/plan/program.h"
#include "ir/rewrite.h"

typedef struct shape {
  int64_t tiles, groups, warps, slab, stages;
  int64_t taken, group; /* columns of a slab that matrices end in; of a matrix that these make */
  bool one;             /* triangle, in which dS follows P */
} shape;

static int64_t at_most(int64_t n, int64_t most) { return n < most ? n : most; }

/* Where matrices make rows there is room for their adjoints, too: a group that is asked about may
 * grow to these. */
static bool takes(const vtb__cuda_scan *s, bool decays, const shape *p) {
  int64_t bytes;
  bool folds = s->gain >= 0;
  return VTB_CUDA_TAKES(
      s->c, "linscan_grad_short.cu", vtb__cuda_tile_type(s->c), &bytes, {"N", s->N}, {"K", s->K},
      {"V", s->V}, {"SLAB", p->slab}, {"TAKEN", p->taken}, {"STAGES", p->stages}, {"ONE", p->one},
      {"THREADS", 32 * p->warps}, {"FACTORS", vtb__cuda_factors(s->c)}, {"GAIN", s->gain >= 0},
      {"DECAYS", decays}, {"Q_FOLD", folds && s->map[0]}, {"K_FOLD", folds && s->map[1]},
      {"V_FOLD", folds && s->map[2]}, {"JOINT", s->joint}, {"Q_MAP", s->map[0] != NULL},
      {"K_MAP", s->map[1] != NULL}, {"V_MAP", s->map[2] != NULL}, {"GROUP", p->group},
      {"BLOCK", vtb__cuda_scan_map_size(s)});
}

/* Matrices of a size that is no power of two end where a piece of eight channels does. */
static void take_columns(const vtb__cuda_scan *s, shape *p) {
  int64_t size = vtb__cuda_scan_map_size(s), whole = size;
  p->taken = p->slab, p->group = vtb_blocks_joined(size);
  if (p->group <= 8 || p->group == size || p->slab % p->group == 0) return;
  while (whole % 8 != 0) whole += size;
  p->taken = p->slab / whole * whole;
  if (p->taken < p->slab) p->group = p->slab;
}

/* Columns that slabs make of rows. */
static int64_t padded(int64_t width, int64_t slab) { return (width + slab - 1) / slab * slab; }

static bool fits(const vtb__cuda_scan *s, bool decays, shape *p) {
  static const struct {
    int slab, stages;
  } choices[] = {{64, 2}, {48, 2}, {32, 3}, {32, 2}, {16, 2}};
  enum { MOST_WARPS = 16 };
  int64_t width = s->K > s->V ? s->K : s->V, depth = padded(at_most(width, 64), 16), pieces;
  bool maps = s->map[0] || s->map[1] || s->map[2]; /* which need registers, too */
  *p = (shape){.tiles = (s->N + 15) / 16};
  p->groups = (p->tiles + 1) / 2;
  pieces = vtb_cuda_formula("vtb_triangle_pieces", p->groups);
  p->warps = at_most(pieces > 2 * p->groups ? pieces : 2 * p->groups, MOST_WARPS);
  const size_t n = sizeof choices / sizeof *choices;
  for (size_t i = 0; i < 2 * n; i++) {
    p->slab = at_most(choices[i % n].slab, depth), p->stages = choices[i % n].stages;
    p->one = i >= n;
    if (maps != (p->slab == 48) && p->slab >= 48) continue;
    if (p->slab == 48 && 4 * padded(width, 48) > 5 * padded(width, 32)) continue;
    take_columns(s, p);
    if (!p->taken) continue;
    if (takes(s, decays, p)) return true;
  }
  return false;
}

/* Element by element, or four at a time where rows allow it. */
static void fill_result(vtb__cuda_scan *s, const int *member, const char *name, const char *four) {
  vtb_arena *arena = &s->c->arena;
  const char *put = vtb_arena_printf(arena, "put_%s", name);
  const char *put_four = vtb_arena_printf(arena, "put_%s_four", name);
  bool fours = *member >= 0 && vtb_cuda_rows_of_four(s->c, *member);
  const char *at = *member >= 0 ? vtb__cuda_scan_at(s, *member, "x") : "";
  if (*member >= 0) vtb__scan_out(s, member, name);
  vtb_cuda_fill(s->k, put, *member >= 0 ? "%s[%s] = value;" : "", name, at);
  vtb_cuda_fill(s->k, put_four, fours ? "vtb_store4_whole(%s, %s, four);" : "", name, at);
  VTB_CUDA_NUMBERS(s->k, {four, fours});
}

/* ---- through the matrices, too --------------------------------------------------------------- */

static void fill_sums(vtb__cuda_scan *s, int o) {
  static const char *const of[] = {"q", "k", "v"};
  vtb_arena *arena = &s->c->arena;
  const char *name = vtb_arena_printf(arena, "%s_weights", of[o]), *code = "";
  bool pairs = vtb__cuda_scan_map_size(s) % 2 == 0;
  if (s->back[o].weights) {
    const char *at =
        vtb_cuda_offset(s->c, s->weights[o], (const char *const[]){"b", "g", "o", "i", NULL});
    vtb_cuda_out(s->k, s->weights[o], name);
    code = pairs ? vtb_arena_printf(arena, "vtb_store2(%s, %s, first, second);", name, at)
                 : vtb_arena_printf(arena, "%s[%s] = first;", name, at);
  }
  vtb_cuda_fill(s->k, vtb_arena_printf(arena, "put_%s", name), "%s", code);
  name = vtb_arena_printf(arena, "%s_sums", of[o]), code = "";
  if (s->back[o].bias) {
    vtb_cuda_out(s->k, s->bias[o], name);
    code = vtb_arena_printf(
        arena, "%s[%s] = value;", name,
        vtb_cuda_offset(s->c, s->bias[o], (const char *const[]){"b", "g", "o", NULL}));
  }
  vtb_cuda_fill(s->k, vtb_arena_printf(arena, "put_%s_bias", of[o]), "%s", code);
}

static void fill_folds(vtb__cuda_scan *s) {
  const char *from = "q_of"; /* not reached */
  int64_t stride = 0;
  bool addend = s->joint && s->addend >= 0, eight = false, folds[3];
  for (int o = 0; o < 3; o++) {
    folds[o] = s->back[o].rows != NULL;
    fill_sums(s, o);
  }
  if (addend) {
    vtb_cuda_in(s->k, s->addend, "addend");
    from = vtb_arena_printf(&s->c->arena, "addend + (%s)", vtb__cuda_scan_at(s, s->addend, NULL));
    stride = vtb_cuda_tensor_of(s->c, s->addend)->stride[1];
    eight = vtb__cuda_tensor_eight(s, s->addend);
  }
  vtb_cuda_fill(s->k, "add_from", "%s", from);
  VTB_CUDA_NUMBERS(s->k, {"Q_FOLD", folds[0]}, {"K_FOLD", folds[1]}, {"V_FOLD", folds[2]},
                   {"JOINT", s->joint}, {"ADDEND", addend}, {"ADD_EIGHT", eight},
                   {"add_stride", stride});
}

static void fill_rows(vtb__cuda_scan *s) {
  vtb__fill_decay(s);
  vtb__fill_source(s, VTB__ROW_Q, "q");
  vtb__fill_source(s, VTB__ROW_K, "k");
  vtb__fill_source(s, VTB__ROW_V, "v");
  vtb__fill_source(s, VTB__ROW_DY, "dy");
  VTB_CUDA_NUMBERS(s->k, {"Q_EIGHT", vtb__cuda_row_eight(s, VTB__ROW_Q)},
                   {"K_EIGHT", vtb__cuda_row_eight(s, VTB__ROW_K)},
                   {"V_EIGHT", vtb__cuda_row_eight(s, VTB__ROW_V)},
                   {"DY_EIGHT", vtb__cuda_row_eight(s, VTB__ROW_DY)});
}

bool vtb__cuda_scan_is_short_grad(const vtb__cuda_scan *s, bool decays) {
  shape p;
  return s->half && s->n_chunks == 1 && !s->init && !s->dlast && fits(s, decays, &p);
}

void vtb__cuda_scan_short_grad(vtb__cuda_scan *s, bool decays, int part) {
  shape p;
  if (!fits(s, decays, &p)) {
    vtb_cuda_unsupported(s->c, s->c->unit.inst, "an adjoint of %lld tokens has no one kernel",
                         (long long)s->N);
    return;
  }
  vtb__scan_begin(s, "linscan_grad", "linscan_grad_short.cu", (int)(32 * p.warps));
  fill_rows(s);
  fill_result(s, &s->at.dq, "dq", "DQ_FOUR");
  fill_result(s, &s->at.dk, "dk", "DK_FOUR");
  fill_result(s, &s->at.dv, "dv", "DV_FOUR");
  if (part >= 0)
    vtb_cuda_temp_out(s->k, part, "float", "part");
  else if (decays)
    vtb__scan_out(s, &s->at.dd, "dd");
  vtb_cuda_fill(s->k, "put", decays && part < 0 ? "dd[%s] = value;" : "",
                decays && part < 0 ? vtb__cuda_scan_at(s, s->at.dd, NULL) : "");
  vtb_cuda_fill(s->k, "put_part", "%s", part >= 0 ? "part[scan] = total;" : "");
  if (s->gain >= 0) {
    vtb_cuda_in(s->k, s->gain, "gain");
    vtb_cuda_out(s->k, s->dgain, "dgain");
  }
  vtb_cuda_fill(s->k, "gain", s->gain >= 0 ? "gain[%s]" : "1.0f",
                s->gain >= 0 ? vtb__cuda_scan_at(s, s->gain, NULL) : "");
  vtb_cuda_fill(s->k, "put_gain", s->gain >= 0 ? "dgain[%s] = value;" : "",
                s->gain >= 0 ? vtb__cuda_scan_at(s, s->dgain, NULL) : "");
  vtb__cuda_scan_fill_maps(s, "qkv", p.group);
  fill_folds(s);
  vtb_cuda_fill(s->k, "T", "%s", vtb__cuda_tile_type(s->c));
  VTB_CUDA_NUMBERS(s->k, {"FACTORS", vtb__cuda_factors(s->c)}, {"DECAYS", decays},
                   {"PART", part >= 0}, {"GAIN", s->gain >= 0}, {"SLAB", p.slab},
                   {"TAKEN", p.taken}, {"STAGES", p.stages}, {"ONE", p.one});
  vtb__scan_launch(s, s->n);
}

static int result_of(const vtb_inst *fused, const vtb_value *v) {
  int r = v ? vtb_return_of(v) : -1;
  return r < 0 ? -1 : fused->n_operands + r;
}

/* The tensor of a view of v. */
static int view_of(const vtb_inst *fused, const vtb_value *v) {
  for (int r = 0; r < fused->n_results; r++) {
    const vtb_inst *view = fused->callee->returns[r]->def;
    if (view && view->op == VTB_OP_reshape && view->operands[0] == v) return fused->n_operands + r;
  }
  return -1;
}

/* Products of q and k add up where they have the same rows; the first may begin with something. */
static void find_joint(vtb__cuda_scan *s) {
  const vtb_inst *q = s->back[0].rows, *k = s->back[1].rows, *first = NULL;
  if (q && k && q->n_operands == 3 && q->operands[2] == k->results[0]) first = k;
  if (q && k && k->n_operands == 3 && k->operands[2] == q->results[0]) first = q;
  s->joint = first != NULL;
  s->addend = first && first->n_operands == 3 ? first->operands[2]->def->operands[0]->index : -1;
}

static void find_folds(vtb__cuda_scan *s, const vtb_inst *fused) {
  int *const at[] = {&s->at.dq, &s->at.dk, &s->at.dv};
  for (int o = 0; o < 3; o++) {
    vtb_mixer_back back = s->map[o] ? vtb_mixer_back_of(s->inst, o) : (vtb_mixer_back){0};
    s->weights[o] = back.weights ? result_of(fused, back.weights->results[0]) : -1;
    s->bias[o] = back.bias ? result_of(fused, back.bias->results[0]) : -1;
    if (back.rows) *at[o] = view_of(fused, back.rows->results[0]);
    s->back[o] = back;
  }
  find_joint(s);
  if (s->joint && s->at.dq < 0) s->at.dq = s->at.dk, s->at.dk = -1;
}

void vtb__cuda_mixer_grad(vtb_cuda *c, const vtb_inst *fused) {
  const vtb_inst *scan = vtb_mixer_scan(fused);
  vtb__cuda_scan s = vtb__cuda_scan_make(c, scan);
  vtb__cuda_scan_find_rows(&s);
  for (int r = 0; r < fused->n_results; r++) {
    const vtb_inst *made = fused->callee->returns[r]->def;
    if (made->op == VTB_OP_mul) s.at.dk = fused->n_operands + r;
    if (made->op == VTB_OP_reduce_sum && vtb_attr_int(made, "keep", 0))
      s.dgain = fused->n_operands + r;
  }
  find_folds(&s, fused);
  s.dir_at[0] = s.at;
  bool tiles = s.half && s.n_chunks == 1 && !s.init && !s.dlast && s.V > 1;
  for (int o = 0; o < 3; o++) tiles = tiles && !s.map[o];
  if (s.gain >= 0 && (tiles || vtb__cuda_scan_is_short_grad(&s, true)))
    vtb__cuda_scan_grad(&s);
  else if (!c->failed)
    vtb_cuda_unsupported(c, fused,
                         "adjoints of a mixer with %s for %lld tokens and heads of %lld x %lld, "
                         "which have no block for a sequence of %lld bytes of shared memory",
                         s.gain >= 0 ? "a gain" : "no gain", (long long)s.N, (long long)s.K,
                         (long long)s.V, (long long)vtb_cuda_shared_room(c));
}
