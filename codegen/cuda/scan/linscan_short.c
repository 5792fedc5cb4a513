/* Mixers of few tokens and narrow heads, of factors that round to 16 bits, without states: one
 * kernel, text/linscan_short.cu, whose blocks keep the keys and values of a sequence in shared
 * memory. It takes what leaves a multiprocessor room for two blocks; else linscan_tiles.c does. */
#include "codegen/cuda/scan/linscan.h"
#include "codegen/cuda/plan/program.h"

enum { MOST_TOKENS = 256, WIDEST = 128, ROOM = (228 / 2 - 1) * 1024 };

/* Of arrays as the text declares them, with a little more for the small ones. */
static int64_t bytes_of(const vtb__cuda_scan *s) {
  int64_t depth = (s->K + 15) / 16 * 16, columns = (s->V + 15) / 16 * 16;
  int64_t along = vtb_cuda_formula("vtb_pitch_of_halves", depth),
          across = vtb_cuda_formula("vtb_pitch_across", columns);
  int64_t strips = (s->N + 15) / 16, warps = (strips + 1) / 2, rows = (s->N + 7) / 8 * 8;
  int64_t stage = 32 * (s->at.q != s->at.k && along > across ? along : across);
  if (stage < 32 * 24 * 2) stage = 32 * 24 * 2;
  return 2 * rows * (along + across) + warps * (stage + 64) + 28 * depth + 20 * columns +
         4 * 17 * 4 * strips + 128;
}

bool vtb__cuda_scan_is_short(const vtb__cuda_scan *s) {
  return s->mixer && s->half && s->n_dirs == 1 && s->n_chunks == 1 && !s->init && !s->last &&
         s->N <= MOST_TOKENS && s->K <= WIDEST && s->V <= WIDEST && bytes_of(s) <= ROOM;
}

void vtb__cuda_scan_short(vtb__cuda_scan *s) {
  int64_t strips = (s->N + 15) / 16;
  vtb__scan_begin(s, "linscan", "linscan_short.cu", (int)(32 * ((strips + 1) / 2)));
  vtb__fill_decay(s);
  vtb__fill_source(s, VTB__ROW_Q, "a");
  vtb__fill_source(s, VTB__ROW_K, "b");
  vtb__fill_source(s, VTB__ROW_V, "c");
  vtb__cuda_scan_fill_mixer(s);
  if (s->gain >= 0) vtb_cuda_in(s->k, s->gain, "gain");
  vtb_cuda_fill(s->k, "gain", s->gain >= 0 ? "gain[%s]" : "1.0f",
                s->gain >= 0 ? vtb__cuda_scan_at(s, s->gain, NULL) : "");
  vtb__cuda_scan_fill_maps(s, "abc");
  vtb_cuda_fill(s->k, "T", "%s", vtb__cuda_tile_type(s->c));
  VTB_CUDA_NUMBERS(s->k, {"DEPTH", s->K}, {"WIDTH", s->V}, {"FACTORS", vtb__cuda_factors(s->c)},
                   {"A_EIGHT", vtb__cuda_row_eight(s, VTB__ROW_Q)},
                   {"B_EIGHT", vtb__cuda_row_eight(s, VTB__ROW_K)},
                   {"C_EIGHT", vtb__cuda_row_eight(s, VTB__ROW_V)}, {"SAME", s->at.q == s->at.k});
  vtb__scan_launch(s, s->n);
}
