/* Where pointers point, and the instruction at hand: the ground that emitters stand on. */
#include <stdarg.h>
#include <string.h>

#include "codegen/cuda/plan/program.h"

void vtb_cuda_unsupported(vtb_cuda *c, const vtb_inst *inst, const char *why, ...) {
  vtb_strbuf what = {0}, reason = {0};
  char place[160] = "";
  va_list ap;
  if (c->failed) return;
  va_start(ap, why);
  vtb_strbuf_vprintf(&reason, why, ap);
  va_end(ap);
  if (inst) vtb_inst_print(inst, &what);
  if (inst) vtb_span_text(inst->span, place, sizeof place);
  vtb_fail(c->err, VTB_E_INPUT, "%s (no CUDA kernel for %s%s%s)", reason.at,
           inst ? what.at : c->unit.what, place[0] ? " at " : "", place);
  vtb_strbuf_free(&reason);
  vtb_strbuf_free(&what);
  c->failed = true;
}

/* ---- constants ------------------------------------------------------------------------------- */

int64_t vtb__cuda_constant(vtb_cuda *c, const void *data, size_t n_bytes) {
  static const char digits[] = "0123456789abcdef";
  vtb_strbuf key = {0};
  for (size_t i = 0; i < n_bytes; i++) {
    unsigned char b = ((const unsigned char *)data)[i];
    vtb_strbuf_putc(&key, digits[b >> 4]);
    vtb_strbuf_putc(&key, digits[b & 15]);
  }
  int64_t at = (int64_t)(intptr_t)vtb_map_get(&c->constant_at, key.at ? key.at : "") - 1;
  if (at < 0) {
    while (c->constants.n % 16) vtb_strbuf_putc(&c->constants, 0);
    at = (int64_t)c->constants.n;
    vtb_strbuf_write(&c->constants, data, n_bytes);
    vtb_map_set(&c->constant_at, key.at ? key.at : "", (void *)(intptr_t)(at + 1));
  }
  vtb_strbuf_free(&key);
  return at;
}

static int64_t constant_of(vtb_cuda *c, const vtb_inst *inst) {
  const vtb_attr *data = vtb_attr_find(inst, "data");
  size_t n = data ? (size_t)data->n : 1;
  float *copy = vtb_xcalloc(n + 1, 4);
  for (size_t i = 0; i < n; i++) {
    double x = data ? data->floats[i] : vtb_attr_float(inst, "value", 0);
    int32_t whole = (int32_t)x;
    copy[i] = (float)x;
    if (inst->results[0]->type.dtype == VTB_I32) memcpy(&copy[i], &whole, 4);
  }
  int64_t at = vtb__cuda_constant(c, copy, n * 4);
  vtb_free(copy);
  return at;
}

/* ---- places ---------------------------------------------------------------------------------- */

static vtb_cuda_ref ref_of(vtb_cuda *c, const vtb_spot *spot) {
  static const vtb_cuda_place places[] = {[VTB_AT_ARG] = VTB_CUDA_ARG,
                                          [VTB_AT_FRAME] = VTB_CUDA_FRAME,
                                          [VTB_AT_TAIL] = VTB_CUDA_TAIL,
                                          [VTB_AT_CONSTANT] = VTB_CUDA_CONSTANT};
  vtb_cuda_ref r = {.place = places[spot->at],
                    .index = spot->index,
                    .value = spot->value,
                    .element = vtb_dtype_bytes(spot->type->dtype),
                    .offset = spot->offset};
  if (spot->at == VTB_AT_CONSTANT) {
    r.value = -1;
    r.offset += constant_of(c, spot->constant);
  }
  r.bytes = vtb_cuda_reach(spot->type, spot->stride) * r.element;
  r.touched = r.element;
  for (int a = 0; a < spot->type->rank; a++)
    if (spot->stride[a]) r.touched *= spot->type->dim[a].size;
  if (r.touched > r.bytes) r.touched = r.bytes;
  return r;
}

void vtb__cuda_refs(vtb_cuda *c, const vtb_spot *spots, int n, vtb_cuda_ref *out) {
  for (int i = 0; i < n; i++) out[i] = ref_of(c, &spots[i]);
}

int vtb__cuda_element(const vtb_cuda_ref *r) { return r->element ? r->element : 4; }

int vtb__cuda_align(const vtb_cuda_ref *r) {
  int align = 16 / vtb__cuda_element(r);
  while (r->offset % (align * vtb__cuda_element(r))) align /= 2;
  return align;
}

/* ---- units: one instruction or copy ---------------------------------------------------------- */

const vtb_cuda_tensor *vtb_cuda_tensor_of(const vtb_cuda *c, int i) {
  vtb_check(i >= 0 && i < c->unit.n_operands + c->unit.n_results, "tensor %d of an instruction", i);
  return &c->unit.t[i];
}

enum { TURN_BYTES = 256 << 20 };

static void begin_unit(vtb_cuda *c, const vtb_inst *inst, int n_operands, int n_results) {
  vtb_cuda_unit *u = &c->unit;
  int n = n_operands + n_results;
  u->inst = inst;
  u->copies = false;
  u->what = u->label = "copy";
  u->n_operands = n_operands;
  u->n_results = n_results;
  u->t = VTB_NEW_ARRAY(&c->arena, vtb_cuda_tensor, n + 1);
  u->ref = VTB_NEW_ARRAY(&c->arena, vtb_cuda_ref, n + 1);
  u->temps.n = 0;
  u->tail_bytes = 0;
}

static void set_tensor(vtb_cuda *c, int i, const vtb_spot *spot) {
  vtb_cuda_tensor *t = &c->unit.t[i];
  t->type = spot->type;
  memcpy(t->stride, spot->stride, sizeof t->stride);
  for (int a = 0; a < t->type->rank; a++)
    if (t->type->dim[a].size == 1) t->stride[a] = 0;
  c->unit.ref[i] = ref_of(c, spot);
  t->align = vtb__cuda_align(&c->unit.ref[i]);
}

void vtb__cuda_begin_step(vtb_cuda *c, const vtb_step *step) {
  int n = step->n_operands + step->n_results;
  begin_unit(c, step->inst, step->n_operands, step->n_results);
  if (step->label) c->unit.label = step->label;
  c->unit.tail_bytes = step->tail;
  for (int i = 0; i < n; i++) set_tensor(c, i, &step->at[i]);
}

void vtb__cuda_begin_unit(vtb_cuda *c, const char *what) {
  begin_unit(c, NULL, 0, 0);
  c->unit.what = c->unit.label = what;
}

/* Temporaries of one instruction of a training step lie behind those of another, for as long as
 * that is not much, so that the last of its kernels may run later (jobs.c). */
void vtb__cuda_end_unit(vtb_cuda *c) {
  int64_t used = c->unit.tail_bytes;
  vtb__cuda_take_tail(c, used);
  if (c->groups && c->unit.temps.n) c->func->turn = used < TURN_BYTES ? used : 0;
}

void vtb__cuda_take_tail(vtb_cuda *c, int64_t bytes) {
  if (bytes > c->func->tail_bytes) c->func->tail_bytes = bytes;
}

/* ---- products by the library ----------------------------------------------------------------- */

static int find_gemm(vtb_cuda *c, const vtb_launch_gemm *g) {
  for (size_t i = 0; i < c->gemms.n; i++)
    if (memcmp(&c->gemms.at[i], g, offsetof(vtb_launch_gemm, info)) == 0) return (int)i;
  vtb_launch_gemm described = *g;
  const vtb_inst *inst = c->unit.inst;
  char origin[160] = "";
  if (inst) vtb_span_text(inst->span, origin, sizeof origin);
  described.info =
      (vtb_kernel_info){.name = vtb_arena_printf(&c->arena, "cublaslt_%d", (int)c->gemms.n),
                        .what = c->unit.label ? c->unit.label : "",
                        .ops = inst ? vtb_op_get(inst->op)->name : "",
                        .origin = vtb_arena_strdup(&c->arena, origin),
                        .flops = 2 * (double)g->batch * (double)g->m * (double)g->n * (double)g->k};
  vtb_vec_push(&c->gemms, described);
  return (int)c->gemms.n - 1;
}

void vtb__cuda_gemm(vtb_cuda *c, const vtb_launch_gemm *g, const int tensors[4]) {
  vtb_cuda_step s = {.gemm = find_gemm(c, g),
                     .n_refs = 3 + g->has_bias,
                     .refs = VTB_NEW_ARRAY(&c->arena, vtb_cuda_ref, 4)};
  for (int i = 0; i < s.n_refs; i++) {
    s.refs[i] = c->unit.ref[tensors[i]];
    s.refs[i].access = i == 2 ? VTB_LAUNCH_WRITE : VTB_LAUNCH_READ;
  }
  vtb_vec_push(&c->func->steps, s);
}
