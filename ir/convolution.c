/* Attributes of convolutions as three axes each: see convolution.h. */
#include "ir/convolution.h"
#include "ir/interp_internal.h"

/* `n` entries of an attribute behind `rest` in front of them. */
static bool take(const vtb_inst *inst, const char *key, int rank, int64_t rest, int64_t *out) {
  int n;
  const int64_t *list = vtb_attr_ints(inst, key, &n);
  for (int k = 0; k < VTB_GRID_AXES - rank; k++) out[k] = rest;
  if (!list || n != rank) return false;
  for (int k = 0; k < rank; k++) out[VTB_GRID_AXES - rank + k] = list[k];
  return true;
}

static bool take_pads(const vtb_inst *inst, vtb_patches *p) {
  int n, skip = VTB_GRID_AXES - p->rank;
  const int64_t *pad = vtb_attr_ints(inst, "pad", &n);
  if (!pad || n != 2 * p->rank) return false;
  for (int k = 0; k < p->rank; k++) p->low[skip + k] = pad[k], p->high[skip + k] = pad[p->rank + k];
  return true;
}

bool vtb_patches_of(const vtb_inst *inst, const vtb_type *image, vtb_patches *out) {
  vtb_patches p = {.rank = image->rank - 2};
  if (p.rank < 1 || p.rank > VTB_GRID_AXES) return false;
  p.batch = image->dim[0].size, p.channels = image->dim[1].size;
  for (int k = 0; k < VTB_GRID_AXES; k++) {
    int axis = image->rank - VTB_GRID_AXES + k;
    p.size[k] = axis >= 2 ? image->dim[axis].size : 1;
  }
  if (!take(inst, "kernel", p.rank, 1, p.kernel) || !take(inst, "stride", p.rank, 1, p.stride) ||
      !take_pads(inst, &p))
    return false;
  for (int k = 0; k < VTB_GRID_AXES; k++) {
    int64_t room = p.size[k] + p.low[k] + p.high[k] - p.kernel[k];
    p.out[k] = room < 0 || p.stride[k] < 1 ? -1 : room / p.stride[k] + 1;
  }
  *out = p;
  return true;
}

bool vtb_depthwise_of(const vtb_inst *inst, vtb_depthwise *out) {
  const vtb_type *x = &inst->operands[0]->type, *w = &inst->operands[1]->type;
  int n;
  vtb_depthwise d = {.batch = x->dim[0].size, .tokens = x->dim[1].size, .channels = x->dim[2].size};
  if (!vtb_attr_ints(inst, "grid", &n) || n < 1 || n > VTB_GRID_AXES) return false;
  d.rank = n;
  if (!take(inst, "grid", n, 1, d.grid) || !take(inst, "pad", n, 0, d.pad)) return false;
  d.extra = vtb_attr_ints(inst, "extra", &d.n_extra);
  bool of_weight = !vtb_attr_find(inst, "kernel");
  if (of_weight ? w->rank != n + 1 : !take(inst, "kernel", n, 1, d.kernel)) return false;
  for (int k = 0; of_weight && k < VTB_GRID_AXES; k++) d.kernel[k] = 1;
  for (int k = 0; of_weight && k < n; k++) d.kernel[VTB_GRID_AXES - n + k] = w->dim[k + 1].size;
  *out = d;
  return true;
}

void vtb_depthwise_places(const vtb_inst *inst, const vtb_depthwise *d, int64_t *places) {
  int64_t *perm = vtb__path_perm(inst, d->tokens), *cell = places, *extra = places + d->tokens;
  extra -= d->n_extra;
  for (int64_t t = 0, e = 0; t < d->tokens; t++)
    if (e < d->n_extra && d->extra[e] == t)
      extra[e++] = perm[t];
    else
      *cell++ = perm[t];
  vtb_free(perm);
}
