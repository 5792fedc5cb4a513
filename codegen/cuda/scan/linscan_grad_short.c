/* linscan_grad of few tokens, classes constant and scalar, of factors that round to 16 bits: one
 * kernel, text/linscan_grad_short.cu, whose blocks keep the scores of a sequence in shared memory.
 * It takes what has no states at its ends, as long as a block finds room for the scores and two
 * slabs of rows; else linscan_grad.c does. */
#include "codegen/cuda/emitters.h"
#include "codegen/cuda/scan/linscan.h"
#include "codegen/cuda/plan/program.h"

enum { MOST_TOKENS = 256, MOST_WARPS = 16, ROOM = 163 * 1024, HOPPER_ROOM = 227 * 1024 };

typedef struct shape {
  int64_t tiles, groups, warps, slab, stages;
  bool hopper; /* no other architecture has the room */
} shape;

/* Of arrays as the text declares them, with a little more for the small ones. */
static int64_t bytes_of(const shape *p, int64_t passes) {
  int64_t rows = 16 * p->tiles, triangle = p->tiles * (p->tiles + 1) / 2;
  int64_t sums = 4 * (triangle * 17 + (p->tiles + 3) / 4 * rows + p->tiles * 272 + 2 * rows);
  int64_t stage = 4 * rows * vtb_cuda_formula("vtb_pitch_of_halves", p->slab);
  if (passes == 1 && stage < sums) stage = sums;
  return 1024 * triangle + p->stages * stage + 24 * rows + 4 * p->tiles * p->tiles + 512 +
         (passes > 1 ? sums : 0);
}

static int64_t at_most(int64_t n, int64_t most) { return n < most ? n : most; }

static bool fits(const vtb__cuda_scan *s, shape *p) {
  static const struct {
    int slab, stages;
  } choices[] = {{64, 2}, {48, 2}, {32, 3}, {32, 2}, {16, 2}};
  int64_t depth = (at_most(s->K > s->V ? s->K : s->V, 64) + 15) / 16 * 16, pieces;
  bool maps = s->map[0] || s->map[1] || s->map[2]; /* which need registers, too */
  *p = (shape){.tiles = (s->N + 15) / 16};
  p->groups = (p->tiles + 1) / 2;
  pieces = vtb_cuda_formula("vtb_triangle_pieces", p->groups);
  p->warps = at_most(pieces > 2 * p->groups ? pieces : 2 * p->groups, MOST_WARPS);
  for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
    p->slab = at_most(choices[i].slab, depth), p->stages = choices[i].stages;
    int64_t bytes = bytes_of(p, (pieces + p->warps - 1) / p->warps);
    p->hopper = bytes > ROOM;
    if (maps != (p->slab == 48) && p->slab >= 48) continue;
    if (bytes <= (vtb_cuda_is_hopper(s->c) ? HOPPER_ROOM : ROOM)) return true;
  }
  return false;
}

static void fill_result(vtb__cuda_scan *s, const int *member, const char *name, const char *four) {
  vtb__scan_out(s, member, name);
  vtb_cuda_fill(s->k, vtb_arena_printf(&s->c->arena, "%s_at", name), "%s",
                vtb__cuda_scan_at(s, *member, "x"));
  VTB_CUDA_NUMBERS(s->k, {four, vtb_cuda_rows_of_four(s->c, *member)});
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

bool vtb__cuda_scan_is_short_grad(const vtb__cuda_scan *s) {
  shape p;
  return s->half && s->N <= MOST_TOKENS && s->n_chunks == 1 && !s->init && !s->dlast && fits(s, &p);
}

void vtb__cuda_scan_short_grad(vtb__cuda_scan *s, bool decays, int part) {
  shape p;
  vtb_check(fits(s, &p), "adjoint of %lld tokens in one kernel", (long long)s->N);
  vtb__scan_begin(s, "linscan_grad", "linscan_grad_short.cu", (int)(32 * p.warps));
  if (p.hopper) s->k->arch = 90;
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
  vtb__cuda_scan_fill_maps(s, "qkv");
  vtb_cuda_fill(s->k, "T", "%s", vtb__cuda_tile_type(s->c));
  VTB_CUDA_NUMBERS(s->k, {"FACTORS", vtb__cuda_factors(s->c)}, {"DECAYS", decays},
                   {"PART", part >= 0}, {"GAIN", s->gain >= 0}, {"SLAB", p.slab},
                   {"STAGES", p.stages});
  vtb__scan_launch(s, s->n);
}

void vtb__cuda_mixer_grad(vtb_cuda *c, const vtb_inst *fused) {
  const vtb_inst *scan = vtb_mixer_scan(fused);
  vtb__cuda_scan s = vtb__cuda_scan_make(c, scan);
  vtb__cuda_scan_find_rows(&s);
  vtb_check(s.gain >= 0 && vtb__cuda_scan_is_short_grad(&s), "an adjoint for one kernel");
  for (int r = 0; r < fused->n_results; r++) {
    const vtb_value *v = fused->callee->returns[r];
    if (v->def != scan) *(v->type.dim[3].size == 1 ? &s.dgain : &s.at.dk) = fused->n_operands + r;
  }
  s.dir_at[0] = s.at;
  vtb__cuda_scan_grad(&s);
}
