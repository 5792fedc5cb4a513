/* Mixers of few tokens and narrow heads, of factors that round to 16 bits, without states: one
 * kernel, text/linscan_short.cu, whose blocks keep the keys and values of a sequence in shared
 * memory. It takes what leaves a multiprocessor room for two blocks, and all gates; else
 * linscan_tiles.c does. */
#include "codegen/cuda/emitters.h"
#include "codegen/cuda/scan/linscan.h"
#include "codegen/cuda/plan/program.h"
#include "codegen/cuda/cost.h"

static int threads_of(const vtb__cuda_scan *s) {
  int64_t strips = (s->N + 15) / 16;
  return (int)(32 * ((strips + 1) / 2));
}

bool vtb__cuda_scan_is_short(const vtb__cuda_scan *s) {
  int64_t bytes;
  bool whole = s->n_dirs == 1 && s->n_chunks == 1 && !s->grad && !s->init && !s->last;
  return s->mixer && s->half && whole && s->N <= INT32_MAX / 2 &&
         VTB_CUDA_TAKES(s->c, "linscan_short.cu", vtb__cuda_tile_type(s->c), &bytes, {"N", s->N},
                        {"DEPTH", s->K}, {"WIDTH", s->V}, {"FACTORS", vtb__cuda_factors(s->c)},
                        {"THREADS", threads_of(s)}, {"SAME", s->at.q == s->at.k},
                        {"A_MAP", s->map[0] != NULL}, {"B_MAP", s->map[1] != NULL},
                        {"C_MAP", s->map[2] != NULL}, VTB__SCAN_MAP_NUMBERS(s),
                        {"GATED", s->gates != NULL}) &&
         (s->gates || (double)bytes <= vtb_gpu_block_shared(vtb_cuda_gpu(s->c), 2));
}

/* Decays and gains: as they are, or of gates. */
static void fill_weights(vtb__cuda_scan *s) {
  VTB_CUDA_NUMBERS(s->k, {"GATED", s->gates != NULL});
  if (s->gates) {
    vtb__cuda_fill_gates(s->k, s->mixer, s->gates, s->inst->operands[3], s->gain_value);
    vtb_cuda_fill(s->k, "decay", "1.0f"); /* not reached */
    vtb_cuda_fill(s->k, "gain", "1.0f");
    return;
  }
  vtb__fill_decay(s);
  vtb_cuda_fill(s->k, "gate", " return 0.0f; ");
  vtb_cuda_fill(s->k, "entry", " return 0.0f; ");
  vtb_cuda_fill(s->k, "weigh", "(void)m;");
  if (s->gain >= 0) vtb_cuda_in(s->k, s->gain, "gain");
  vtb_cuda_fill(s->k, "gain", s->gain >= 0 ? "gain[%s]" : "1.0f",
                s->gain >= 0 ? vtb__cuda_scan_at(s, s->gain, NULL) : "");
}

void vtb__cuda_scan_short(vtb__cuda_scan *s) {
  vtb__scan_begin(s, "linscan", "linscan_short.cu", threads_of(s));
  fill_weights(s);
  vtb__fill_source(s, VTB__ROW_Q, "a");
  vtb__fill_source(s, VTB__ROW_K, "b");
  vtb__fill_source(s, VTB__ROW_V, "c");
  vtb__cuda_scan_fill_mixer(s);
  int64_t size = vtb__cuda_scan_map_size(s);
  vtb__cuda_scan_fill_maps(s, "abc", vtb_blocks_joined(size));
  if (vtb_blocks_joined(size) > 8 && vtb_blocks_joined(size) != size) vtb_cuda_together(s->k, 2);
  vtb_cuda_fill(s->k, "T", "%s", vtb__cuda_tile_type(s->c));
  VTB_CUDA_NUMBERS(s->k, {"DEPTH", s->K}, {"WIDTH", s->V}, {"FACTORS", vtb__cuda_factors(s->c)},
                   {"A_EIGHT", vtb__cuda_row_eight(s, VTB__ROW_Q)},
                   {"B_EIGHT", vtb__cuda_row_eight(s, VTB__ROW_K)},
                   {"C_EIGHT", vtb__cuda_row_eight(s, VTB__ROW_V)}, {"SAME", s->at.q == s->at.k});
  vtb__scan_launch(s, s->n);
}
