/* Numbers of 8 bits, and the interpreter of quantize and product8, in single precision where that
 * decides which integer is nearest (ir/int8.h). */
#include <math.h>
#include <string.h>

#include "ir/int8.h"
#include "ir/interp_internal.h"

/* The largest magnitude; 0: less than 2^-100, NaN: there is one that is no number. */
static float largest(const float *x, int64_t n) {
  float most = 0;
  for (int64_t i = 0; i < n; i++) {
    if (!(fabsf(x[i]) < INFINITY)) return NAN;
    if (fabsf(x[i]) > most) most = fabsf(x[i]);
  }
  return most < 0x1p-100f ? 0 : most;
}

/* To 17 bits, up. */
static float shortened(float scale) {
  uint32_t bits;
  memcpy(&bits, &scale, sizeof bits);
  bits = (bits + 127) & ~UINT32_C(127);
  memcpy(&scale, &bits, sizeof bits);
  return scale;
}

float vtb_int8_row(const float *x, int64_t n, bool of_matrix, int8_t *q) {
  float scale = largest(x, n) / 127;
  if (of_matrix) scale = shortened(scale);
  float inverse = scale > 0 ? 1 / scale : 0;
  for (int64_t i = 0; i < n; i++) q[i] = scale > 0 ? (int8_t)nearbyintf(x[i] * inverse) : 0;
  return scale;
}

/* A row's numbers in single precision; for vtb_free(). */
static float *narrowed(const double *x, int64_t n) {
  float *row = vtb_xcalloc((size_t)n + 1, sizeof *row);
  for (int64_t i = 0; i < n; i++) row[i] = (float)x[i];
  return row;
}

static float quantize(const double *x, int64_t n, bool of_matrix, int8_t *q) {
  float *row = narrowed(x, n), scale = vtb_int8_row(row, n, of_matrix, q);
  vtb_free(row);
  return scale;
}

vtb_status vtb__interp_quantize(vtb__interp_eval *e) {
  int64_t rows = e->in[0]->type.dim[0].size, k = e->in[0]->type.dim[1].size,
          panels = vtb_int8_panels(rows), groups = vtb_int8_groups(k);
  int8_t *q = vtb_xcalloc((size_t)k, 1);
  double *numbers = e->out[0]->data;
  memset(numbers, 0, (size_t)(panels * groups * VTB_INT8_PANEL) * sizeof *numbers);
  memset(e->out[1]->data, 0, (size_t)(panels * VTB_INT8_PANEL) * sizeof(double));
  memset(e->out[2]->data, 0, (size_t)(panels * VTB_INT8_PANEL) * sizeof(double));
  for (int64_t row = 0; row < rows; row++) {
    const double *x = e->in[0]->data + row * k;
    e->out[1]->data[row] = (double)quantize(x, k, true, q);
    for (int64_t g = 0; g < groups; g++) {
      int64_t most =
          k - g * VTB_INT8_GROUP < VTB_INT8_GROUP ? k - g * VTB_INT8_GROUP : VTB_INT8_GROUP;
      int32_t packed = 0;
      memcpy(&packed, q + g * VTB_INT8_GROUP, (size_t)most);
      numbers[(row / VTB_INT8_PANEL * groups + g) * VTB_INT8_PANEL + row % VTB_INT8_PANEL] = packed;
    }
    for (int64_t i = 0; i < k; i++) e->out[2]->data[row] += q[i];
  }
  vtb_free(q);
  return VTB_OK;
}

/* Number k of a row of the packed matrix. */
static double number_at(const double *numbers, int64_t groups, int64_t row, int64_t k) {
  int64_t at =
      (row / VTB_INT8_PANEL * groups + k / VTB_INT8_GROUP) * VTB_INT8_PANEL + row % VTB_INT8_PANEL;
  int32_t packed = (int32_t)numbers[at];
  int8_t bytes[VTB_INT8_GROUP];
  memcpy(bytes, &packed, sizeof bytes);
  return bytes[k % VTB_INT8_GROUP];
}

vtb_status vtb__interp_product8(vtb__interp_eval *e) {
  const vtb_type *x = &e->in[0]->type, *y = &e->out[0]->type;
  int64_t k = x->dim[x->rank - 1].size, n = y->dim[y->rank - 1].size, groups = vtb_int8_groups(k);
  int64_t rows = vtb_type_count(y) / n;
  int8_t *q = vtb_xcalloc((size_t)k, 1);
  for (int64_t r = 0; r < rows; r++) {
    const double *row = e->in[0]->data + r * k;
    float scale = quantize(row, k, false, q);
    for (int64_t c = 0; c < n; c++) {
      double sum = 0;
      for (int64_t i = 0; i < k; i++) sum += q[i] * number_at(e->in[1]->data, groups, c, i);
      e->out[0]->data[r * n + c] = sum * ((double)scale * e->in[2]->data[c]);
    }
  }
  vtb_free(q);
  if (e->inst->n_operands == 5) vtb__add_broadcast(e->out[0], e->in[4]);
  return VTB_OK;
}
