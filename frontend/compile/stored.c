/* See stored.h. */
#include "frontend/compile/stored.h"

#include "ir/int8.h"
#include "ir/ops.h"
#include "runtime/base/half.h"

#include <math.h>
#include <strings.h>

bool vtb_elem_is_float(vtb_elem e) {
  return e == VTB_ELEM_F32 || e == VTB_ELEM_F64 || e == VTB_ELEM_F16 || e == VTB_ELEM_BF16;
}

vtb_status vtb_store_type(const char *name, vtb_elem *out, vtb_error *err) {
  static const vtb_elem types[] = {VTB_ELEM_F32, VTB_ELEM_F16, VTB_ELEM_BF16};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    if (strcasecmp(vtb_elem_name(types[i]), name) != 0) continue;
    *out = types[i];
    return VTB_OK;
  }
  return vtb_fail(err, VTB_E_USAGE, "weights are stored as f32, f16 or bf16, not as '%s'", name);
}

static void put_rounded(const float *from, int64_t n, vtb_elem to, void *out) {
  uint16_t *half = out;
  for (int64_t i = 0; i < n; i++)
    half[i] = to == VTB_ELEM_F16 ? vtb_f32_to_f16(from[i]) : vtb_f32_to_bf16(from[i]);
}

/* Counts the finite numbers that the type has no finite number for. */
static int64_t count_lost(const float *from, int64_t n, vtb_elem to) {
  int64_t lost = 0;
  for (int64_t i = 0; i < n; i++)
    lost += to == VTB_ELEM_F16 && isfinite(from[i]) && fabsf(from[i]) >= 65520;
  return lost;
}

/* For vtb_free(). */
static float *numbers_of(const vtb_weight *t) {
  float *numbers = vtb_xcalloc((size_t)t->count + 1, sizeof *numbers);
  vtb_weight_read_f32(t, numbers);
  return numbers;
}

vtb_status vtb_store_as(vtb_weights *into, const vtb_weight *t, vtb_elem to, vtb_error *err) {
  vtb_weight *made = vtb_weights_add(into, t->name, to, t->rank, t->dim);
  if (!made) return vtb_fail(err, into->error.status, "%s", into->error.text);
  if (to == VTB_ELEM_F32) {
    vtb_weight_read_f32(t, made->data);
    return VTB_OK;
  }
  float *numbers = numbers_of(t);
  int64_t lost = count_lost(numbers, t->count, to);
  put_rounded(numbers, t->count, to, made->data);
  vtb_free(numbers);
  if (!lost) return VTB_OK;
  return vtb_fail(err, VTB_E_NUMBERS,
                  "tensor %s has %lld numbers beyond 65504, the largest of f16: use --dtype bf16",
                  t->name, (long long)lost);
}

vtb_status vtb_store_int8(vtb_weights *into, const vtb_weight *t, vtb_error *err) {
  vtb_strbuf name = {0};
  vtb_strbuf_printf(&name, "%s%s", t->name, VTB_WEIGHTS_SCALES);
  vtb_weight *q = vtb_weights_add(into, t->name, VTB_ELEM_I8, t->rank, t->dim);
  vtb_weight *scales = vtb_weights_add(into, name.at, VTB_ELEM_F32, 1, t->dim);
  vtb_strbuf_free(&name);
  if (!q || !scales) return vtb_fail(err, into->error.status, "%s", into->error.text);
  float *numbers = numbers_of(t);
  int64_t rows = t->dim[0], k = rows ? t->count / rows : 0;
  for (int64_t r = 0; r < rows; r++)
    ((float *)scales->data)[r] = vtb_int8_row(numbers + r * k, k, true, (int8_t *)q->data + r * k);
  vtb_free(numbers);
  return VTB_OK;
}

static bool reads_rows(const vtb_inst *reader, const vtb_value *v, int64_t rows, int *n);

/* Every reader takes it as a matrix of so many rows in 8 bits, alone or in what is called; *n
 * counts them. */
static bool is_of_rows(const vtb_value *v, int64_t rows, int *n) {
  vtb_inst **readers;
  size_t n_readers = vtb_value_readers(v, &readers);
  bool all = true;
  for (size_t i = 0; i < n_readers; i++) all = all && reads_rows(readers[i], v, rows, n);
  vtb_free(readers);
  return all;
}

static bool reads_rows(const vtb_inst *reader, const vtb_value *v, int64_t rows, int *n) {
  if (reader->op == VTB_OP_reshape) return is_of_rows(reader->results[0], rows, n);
  bool all = reader->op == VTB_OP_quantize && v->type.dim[0].size == rows;
  if (all) ++*n;
  for (int o = 0; o < reader->n_operands && reader->op == VTB_OP_call; o++) {
    all = reader->operands[o] != v || is_of_rows(reader->callee->args[o], rows, n);
    if (!all) return false;
  }
  return all;
}

bool vtb_is_read_as_int8(const vtb_value *parameter) {
  int n = 0;
  return parameter->type.rank && is_of_rows(parameter, parameter->type.dim[0].size, &n) && n;
}
