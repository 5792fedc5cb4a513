/* prefix_sum by its definition. */
#include "ir/interp_internal.h"

#include <math.h>

/* s less the nearest multiple of w. */
static double wrapped(double s, double w) { return w > 0 ? s - w * rint(s / w) : s; }

vtb_status vtb__interp_prefix_sum(vtb__interp_eval *e) {
  const vtb_type *t = &e->out[0]->type;
  int axis = (int)vtb_attr_int(e->inst, "axis", 0);
  int64_t n = t->dim[axis].size, inner = 1, outer = 1;
  for (int a = 0; a < axis; a++) outer *= t->dim[a].size;
  for (int a = axis + 1; a < t->rank; a++) inner *= t->dim[a].size;
  bool reverse = vtb_attr_int(e->inst, "reverse", 0),
       without = vtb_attr_int(e->inst, "exclusive", 0);
  double w = vtb_attr_float(e->inst, "wrap", 0);
  int64_t *perm = vtb__path_perm(e->inst, n);
  for (int64_t o = 0; o < outer; o++)
    for (int64_t i = 0; i < inner; i++) {
      double sum = 0;
      for (int64_t s = 0; s < n; s++) {
        int64_t at = (o * n + perm[reverse ? n - 1 - s : s]) * inner + i;
        double next = wrapped(sum + e->in[0]->data[at], w);
        e->out[0]->data[at] = without ? sum : next;
        sum = next;
      }
    }
  vtb_free(perm);
  return VTB_OK;
}
