/* gather and scatter_sum: text/gather.c. */
#include "codegen/cpu/text.h"

/* As in the text. */
enum { PICKED, INDICES, WHOLE, TENSORS };
enum { LEAD, PICK, REST, GROUPS };

typedef struct rows {
  const vtb_type *type[TENSORS];
  const int64_t *stride[TENSORS];
  int axis; /* that is picked from */
  int64_t axes[GROUPS], size[GROUPS][VTB_MAX_RANK], at[TENSORS][GROUPS][VTB_MAX_RANK];
} rows;

/* Where the axes of a group begin in a tensor that has them. */
static int first_of(const rows *r, int tensor, int group) {
  if (group == LEAD) return 0;
  if (group == PICK) return r->axis;
  return tensor == WHOLE ? r->axis + 1 : r->type[INDICES]->rank;
}

static bool has_group(int tensor, int group) {
  return !(tensor == INDICES && group == REST) && !(tensor == WHOLE && group == PICK);
}

/* Last axes of the rest that are neighbours without gaps in both: how many elements. */
static int64_t run_of(const rows *r, int *n_axes) {
  int64_t run = 1;
  for (; *n_axes > 0; --*n_axes) {
    int picked = first_of(r, PICKED, REST) + *n_axes - 1,
        whole = first_of(r, WHOLE, REST) + *n_axes - 1;
    int64_t size = r->type[PICKED]->dim[picked].size;
    if (size > 1 && (r->stride[PICKED][picked] != run || r->stride[WHOLE][whole] != run)) break;
    run *= size;
  }
  return run;
}

/* The first n axes of a group; how many elements they have. */
static int64_t put_group(rows *r, int group, int n) {
  int64_t count = 1;
  r->axes[group] = n;
  for (int k = 0; k < n; k++) {
    int a = n - 1 - k;
    r->size[group][k] = r->type[PICKED]->dim[first_of(r, PICKED, group) + a].size;
    count *= r->size[group][k];
    for (int t = 0; t < TENSORS; t++)
      if (has_group(t, group)) r->at[t][group][k] = r->stride[t][first_of(r, t, group) + a];
  }
  return count;
}

static void emit(vtb_cpu *c, const vtb_inst *inst, bool adds) {
  enum { BYTES = 1 << 16, TASKS = 32, LEAST = 64 };
  int picked = adds ? 0 : 2, whole = 2 - picked, axis = (int)vtb_attr_int(inst, "axis", 0);
  const vtb_type *operand = &inst->operands[0]->type, *result = &inst->results[0]->type;
  rows r = {
      .type = {adds ? operand : result, &inst->operands[1]->type, adds ? result : operand},
      .stride = {vtb_cpu_strides(c, picked), vtb_cpu_strides(c, 1), vtb_cpu_strides(c, whole)},
      .axis = axis};
  int picks_end = r.type[INDICES]->rank, n_rest = r.type[PICKED]->rank - picks_end;
  int64_t run = run_of(&r, &n_rest), leads = put_group(&r, LEAD, axis),
          picks = put_group(&r, PICK, picks_end - axis), parts = put_group(&r, REST, n_rest);
  /* So that the adjoint has some tasks; sums are the same in any number. */
  int64_t slices = (TASKS + leads * parts - 1) / (leads * parts),
          columns = ((run + slices - 1) / slices + LEAST - 1) / LEAST * LEAST;
  vtb_cpu_text *x = vtb_cpu_text_open(c, "gather", c->width);
  vtb_cpu_text_fill(x, {"ADDS", adds}, {"LEADS", leads}, {"PICKS", picks}, {"PARTS", parts},
                    {"RUN", run}, {"PLACES", r.type[WHOLE]->dim[axis].size},
                    {"PLACE", r.stride[WHOLE][axis]}, {"GRAIN", 1 + BYTES / (8 * run * parts)},
                    {"COLUMNS", columns});
  vtb_cpu_text_numbers(x, "AXES", r.axes, GROUPS);
  vtb_cpu_text_numbers(x, "SIZE", r.size[0], GROUPS * VTB_MAX_RANK);
  vtb_cpu_text_numbers(x, "AT", r.at[0][0], TENSORS * GROUPS * VTB_MAX_RANK);
  vtb_cpu_text_run(x, inst);
}

void vtb__cpu_gather(vtb_cpu *c, const vtb_inst *inst) { emit(c, inst, false); }
void vtb__cpu_scatter_sum(vtb_cpu *c, const vtb_inst *inst) { emit(c, inst, true); }
