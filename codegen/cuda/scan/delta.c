/* delta: what the rows of a recurrence that reads its own state add to it (ir/recurrence.h). One
 * kernel, whatever the length: a block owns a batch entry, a head and a tile of V and walks the
 * tokens with the state in shared memory, 16 rows at a time as products (text/delta.cu), or row by
 * row where that is asked for or does not fit (text/delta_steps.cu). Chunks of the mode are one
 * order of summation among others, of which this is the best here.
 *
 * Products are fp32 in all precisions: a correction's error comes back with the state. */
#include "codegen/cuda/plan/program.h"
#include "codegen/cuda/scan/linscan.h"

enum { MOST_KEYS = 256, MOST_ROWS = 16, HELD_BYTES = 96 * 1024 };

static void fill_rows(vtb__cuda_scan *s, const int *tensor, const char *name, bool address) {
  const char *index[] = {"b", "pos", "h", "r", address ? NULL : "x"};
  const char *at = vtb_cuda_offset(s->c, *tensor, index);
  vtb__scan_in(s, tensor, name);
  if (address)
    vtb_cuda_fill(s->k, vtb_arena_printf(&s->c->arena, "%s_from", name), "%s + (%s)", name, at);
  else
    vtb_cuda_fill(s->k, name, "%s[%s]", name, at);
}

/* Holes that both texts have. */
static void fill_common(vtb__cuda_scan *s, bool address) {
  static const int none = -1;
  fill_rows(s, &s->at.k, "k", address);
  fill_rows(s, &s->at.v, "v", address);
  fill_rows(s, &s->at.q, "by", address);
  vtb__scan_in(s, &s->at.d, "d");
  vtb__fill_state(s, "first", &s->at.s0, &none);
  vtb__scan_out(s, &s->at.y, "result");
  vtb_cuda_fill(s->k, "w_at", "%s",
                vtb_cuda_offset(s->c, s->at.y, (const char *const[]){"b", "pos", "h", "r", "x"}));
  VTB_CUDA_NUMBERS(s->k, {"FIRST", s->init});
}

static const char *decay_at(const vtb__cuda_scan *s, const char *key) {
  if (!s->decay->by_step) return vtb_cuda_offset(s->c, s->at.d, (const char *const[]){"h"});
  if (s->decay->axes != VTB_ALONG_KEY) key = NULL;
  return vtb__cuda_scan_at(s, s->at.d, key);
}

static void by_products(vtb__cuda_scan *s) {
  bool by_key = s->decay->axes == VTB_ALONG_KEY, four = true;
  const int all[] = {s->at.k, s->at.v, s->at.q, by_key ? s->at.d : s->at.k};
  for (int i = 0; i < 4; i++) four = four && vtb_cuda_rows_of_four(s->c, all[i]);
  vtb__scan_begin(s, "delta", "delta.cu", 128);
  fill_common(s, true);
  vtb_cuda_fill(s->k, "decay", by_key ? "1.0f" : "d[%s]", decay_at(s, NULL));
  vtb_cuda_fill(s->k, "decay_from", "d + (%s)", decay_at(s, NULL));
  VTB_CUDA_NUMBERS(s->k, {"FACTORS", VTB_FACTORS_FP32}, {"FOUR", four}, {"BY_KEY", by_key});
  vtb__scan_launch(s, s->n);
}

static void by_steps(vtb__cuda_scan *s) {
  bool held = s->K * 32 * 4 <= HELD_BYTES;
  vtb__scan_begin(s, "delta_steps", "delta_steps.cu", 256);
  fill_common(s, false);
  vtb_cuda_fill(s->k, "decay", "d[%s]", decay_at(s, "key"));
  VTB_CUDA_NUMBERS(s->k, {"HELD", held});
  int64_t blocks = s->n * vtb_cuda_value(s->k, "BLOCKS");
  if (!held)
    vtb_cuda_temp_out(s->k, vtb_cuda_temp(s->c, blocks * s->K * 32 * 4), "float", "states");
  vtb_cuda_fill(s->k, "memory", held ? "held" : "states + (vtb_i64)vtb_block() * (K * 32)");
  vtb__scan_launch(s, s->n);
}

void vtb__cuda_scan_delta(vtb__cuda_scan *s) {
  if (s->by_steps || s->K > MOST_KEYS || s->rank > MOST_ROWS)
    by_steps(s);
  else
    by_products(s);
}
