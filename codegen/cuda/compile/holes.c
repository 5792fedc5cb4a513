/* Holes of a kernel's text: see holes.h. */
#include "codegen/cuda/compile/holes.h"

#include "codegen/cuda/plan/program.h"

#include <stdarg.h>

void vtb__holes_init(vtb__cuda_holes *h) {
  *h = (vtb__cuda_holes){.n = 0};
  vtb_arena_init(&h->texts);
}

static vtb_cuda_hole *add(vtb__cuda_holes *h, const char *name) {
  vtb_check(h->n < (int)(sizeof h->at / sizeof *h->at), "too many holes at %s", name);
  h->at[h->n] = (vtb_cuda_hole){.name = name};
  return &h->at[h->n++];
}

void vtb__hole_number(vtb__cuda_holes *h, const char *name, int64_t number) {
  add(h, name)->number = number;
}

void vtb__hole_text(vtb__cuda_holes *h, const char *name, const char *fmt, ...) {
  vtb_strbuf s = {0};
  va_list ap;
  va_start(ap, fmt);
  vtb_strbuf_vprintf(&s, fmt, ap);
  va_end(ap);
  add(h, name)->text = vtb_arena_strdup(&h->texts, s.at ? s.at : "");
  vtb_strbuf_free(&s);
}

/* The instruction that is emitted, or what rounds inside its kernel. */
static vtb_factors factors_of(const vtb_cuda *c) {
  const vtb_inst *whole = c->unit.inst;
  if (!whole->callee) return vtb_factors_of(whole);
  for (const vtb_inst *i = whole->callee->first; i; i = i->next)
    if (vtb_attr_find(i, "precision")) return vtb_factors_of(i);
  return VTB_FACTORS_FP32;
}

void vtb__hole_exact(vtb__cuda_holes *h, const vtb_cuda *c) {
  static const int exact[] = {[VTB_FACTORS_FP32] = 1,
                              [VTB_FACTORS_TF32] = 0,
                              [VTB_FACTORS_BF16] = 2,
                              [VTB_FACTORS_FP16] = 4,
                              [VTB_FACTORS_SPLIT] = 3};
  vtb__hole_number(h, "EXACT", exact[factors_of(c)]);
}

const char *vtb__cuda_half_tiles(const vtb_cuda *c) {
  vtb_factors factors = factors_of(c);
  return factors == VTB_FACTORS_BF16 ? "vtb_bf16" : factors == VTB_FACTORS_FP16 ? "vtb_f16" : NULL;
}

void vtb__holes_fill(vtb__cuda_holes *h, vtb_cuda_kernel *k, const char *file) {
  vtb_cuda_include(k, "products.cuh");
  vtb_cuda_text(k, file, h->at, h->n);
  vtb_arena_free(&h->texts);
  h->n = 0;
}
