/* linscan and linscan_grad, classes key and value, as products of matrices: text/linscan_vector.c,
 * text/linscan_vector_grad.c. */
#include "codegen/cpu/scan/linscan.h"

enum { SUB = 16 }; /* of text/direct.h */

static vtb_cpu_text *open_text(const vtb__cpu_scan *s, const char *name, int64_t chunk) {
  vtb_cpu_text *x = vtb__scan_text(s, name);
  vtb_cpu_text_number(x, "CHUNK", chunk);
  vtb_cpu_text_number(x, "ALONG_KEY", s->of.decay->axes == VTB_ALONG_KEY);
  return x;
}

void vtb__linscan_vector(vtb__cpu_scan *s, const vtb_inst *inst) {
  vtb_cpu_text *x = open_text(s, "linscan_vector", s->of.chunk);
  vtb_cpu_text_number(x, "WIDTH", vtb__chunk_width(s));
  vtb_cpu_text_run(x, inst);
}

/* Beyond this length a chunk keeps more states inside than it saves before the others. */
static int64_t longest_chunk(int64_t n_tokens) {
  int64_t n_subs = 1;
  while (n_subs * n_subs * SUB < n_tokens) n_subs++;
  return n_subs * SUB;
}

void vtb__linscan_grad_vector(vtb__cpu_scan *s, const vtb_inst *inst) {
  int64_t longest = longest_chunk(s->of.n_tokens);
  vtb_cpu_text_run(
      open_text(s, "linscan_vector_grad", s->of.chunk < longest ? s->of.chunk : longest), inst);
}
