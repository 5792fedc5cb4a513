/* Where the tensors of a training step that updates itself stand (passes/train/update.c): in one
 * memory that stays from run to run.
 *
 * Each op update has regions of one layout, for values, gradients and each state: element e of a
 * tensor stands at the same offset in all of them, so that a table of pieces drives a kernel over
 * all tensors. Tensors stand there in the order in which the step makes their gradients, so that
 * those of neighbours are whole at about the same time (buckets.c). A tensor's slot starts at a
 * multiple of 256 bytes; what pads it is not relied upon, except that it is zero among gradients.
 * Values that no update changes and the logits have places behind.
 */
#include "codegen/cuda/plan/update.h"
#include "ir/ops.h"

#include "ir/checks.h"

#include <string.h>

enum { SLOT_ALIGN = 64 /* elements */, REGION_ALIGN = 256 /* bytes */ };

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/* By where the entry makes gradients; arguments come first. */
static int *order_of_gradients(vtb_cuda *c, const vtb_inst *update, const vtb_update *u) {
  int *order = VTB_NEW_ARRAY(&c->arena, int, u->tensors + 1), n = 0;
  int *next = vtb_xcalloc((size_t)u->tensors + 1, sizeof *next);
  int *first = vtb_xcalloc((size_t)update->func->n_values + 1, sizeof *first);
  for (int i = u->tensors; i-- > 0;) { /* tensors of one gradient are a list */
    const vtb_value *g = update->operands[vtb_update_operand(u, 1, i)];
    if (!g->def) continue;
    next[i] = first[g->id];
    first[g->id] = i + 1;
  }
  for (int i = 0; i < u->tensors; i++)
    if (!update->operands[vtb_update_operand(u, 1, i)]->def) order[n++] = i;
  for (const vtb_inst *i = update->func->first; i; i = i->next)
    for (int r = 0; r < i->n_results; r++)
      for (int t = first[i->results[r]->id]; t; t = next[t - 1]) order[n++] = t - 1;
  vtb_free(next);
  vtb_free(first);
  vtb_check(n == u->tensors, "%d of %d gradients have a place", n, u->tensors);
  return order;
}

static vtb_cuda_update_group *add_group(vtb_cuda *c, const vtb_inst *inst, int64_t *at) {
  vtb_cuda_update_group *g = VTB_NEW(&c->arena, vtb_cuda_update_group);
  g->inst = inst;
  g->u = vtb_update_of(inst);
  g->slot = VTB_NEW_ARRAY(&c->arena, int64_t, g->u.tensors + 1);
  g->begin = VTB_NEW_ARRAY(&c->arena, int64_t, vtb_update_vectors(&g->u));
  g->order = order_of_gradients(c, inst, &g->u);
  int64_t size = 0;
  for (int k = 0; k < g->u.tensors; k++) {
    int i = g->order[k];
    g->slot[i] = size;
    size += round_up(vtb_type_count(&inst->operands[vtb_update_operand(&g->u, 0, i)]->type),
                     SLOT_ALIGN);
  }
  g->bytes = size * 4;
  for (int k = 0; k < vtb_update_vectors(&g->u); k++) {
    g->begin[k] = *at;
    *at += round_up(g->bytes, REGION_ALIGN);
  }
  return g;
}

/* Slots follow one another in the order of the gradients, each with room for its tensor. */
static vtb_status check_slots(const vtb_cuda_update_group *g, vtb_error *err) {
  int64_t end = 0;
  bool *seen = vtb_xcalloc((size_t)g->u.tensors + 1, sizeof *seen);
  vtb_status status = VTB_OK;
  for (int k = 0; k < g->u.tensors && status == VTB_OK; k++) {
    int i = g->order[k];
    if (i < 0 || i >= g->u.tensors || seen[i]) {
      status =
          vtb_fail(err, VTB_E_INTERNAL, "state: place %d is of tensor %d, as another is", k, i);
      continue;
    }
    const vtb_value *v = g->inst->operands[vtb_update_operand(&g->u, 0, i)];
    seen[i] = true;
    if (g->slot[i] < end || g->slot[i] % SLOT_ALIGN)
      status = vtb_fail(err, VTB_E_INTERNAL, "state: %%%s begins at element %lld, behind %lld",
                        v->name, (long long)g->slot[i], (long long)end);
    end = g->slot[i] + vtb_type_count(&v->type);
  }
  vtb_free(seen);
  if (status == VTB_OK && end * 4 > g->bytes)
    status = vtb_fail(err, VTB_E_INTERNAL, "state: slots end at byte %lld of a region of %lld",
                      (long long)end * 4, (long long)g->bytes);
  return status;
}

vtb_status vtb__cuda_layout_check(const vtb_cuda *c, vtb_error *err) {
  int64_t end = 0;
  for (const vtb_cuda_update_group *g = c->groups; g; g = g->next) {
    VTB_TRY(check_slots(g, err));
    for (int k = 0; k < vtb_update_vectors(&g->u); k++) {
      if (g->begin[k] < end || g->begin[k] % REGION_ALIGN)
        return vtb_fail(err, VTB_E_INTERNAL, "state: region %d begins at byte %lld, behind %lld", k,
                        (long long)g->begin[k], (long long)end);
      end = g->begin[k] + g->bytes;
    }
  }
  if (end <= c->state_bytes) return VTB_OK;
  return vtb_fail(err, VTB_E_INTERNAL, "state: regions end at byte %lld of %lld", (long long)end,
                  (long long)c->state_bytes);
}

void vtb__cuda_update_layout(vtb_cuda *c, const vtb_func *entry) {
  vtb_cuda_update_group **end = &c->groups;
  for (const vtb_inst *i = entry->first; i; i = i->next) {
    if (i->op != VTB_OP_update) continue;
    *end = add_group(c, i, &c->state_bytes);
    end = &(*end)->next;
  }
  vtb_error err = {0};
  if (vtb_checks()) vtb_check(vtb__cuda_layout_check(c, &err) == VTB_OK, "%s", err.text);
}

const vtb_cuda_update_group *vtb__cuda_group_of(const vtb_cuda *c, const vtb_inst *update) {
  for (const vtb_cuda_update_group *g = c->groups; g; g = g->next)
    if (g->inst == update) return g;
  vtb_bug("an update of @%s has no place", update->func->name);
}

/* ---- tensors --------------------------------------------------------------------------------- */

static int find_tensor(const vtb_launch_plan *p, const char *prefix, const char *name) {
  size_t n = strlen(prefix);
  for (int i = 0; i < p->n_tensors; i++)
    if (strncmp(p->tensors[i].name, prefix, n) == 0 && strcmp(p->tensors[i].name + n, name) == 0)
      return i;
  vtb_bug("the plan has no tensor %s%s", prefix, name);
}

/* Values, gradients ("d:") and states of a group; what they become ("updated.") has the same place.
 * */
static void place_group(const vtb_cuda_update_group *g, vtb_launch_plan *p) {
  int changes = g->u.changes ? vtb_update_vectors(&g->u) - 1 : -1;
  for (int k = 0; k < vtb_update_vectors(&g->u); k++)
    for (int i = 0; i < g->u.tensors; i++) {
      int64_t at = g->begin[k] + g->slot[i] * 4;
      const vtb_value *value = g->inst->operands[vtb_update_operand(&g->u, 0, i)];
      const vtb_value *arg = g->inst->operands[vtb_update_operand(&g->u, k, i)];
      if (k == 1 || k == changes) {
        const char *prefix = k == 1 ? "d:" : VTB_UPDATE_CHANGE;
        p->place[find_tensor(p, prefix, p->tensors[value->index].name)] = at;
        continue;
      }
      p->place[arg->index] = at;
      p->place[find_tensor(p, "updated.", p->tensors[arg->index].name)] = at;
    }
}

/* Fixed values stay, too, and the logits, which nobody asks for. */
static bool stays(const vtb_launch_plan *p, int i) {
  const vtb_tensor_info *t = &p->tensors[i];
  return t->io == VTB_IO_PARAM || t->io == VTB_IO_BUFFER ||
         (t->io == VTB_IO_OUTPUT && t->rank == 2 && t->dim[0] == p->batch);
}

void vtb__cuda_place_tensors(const vtb_cuda *c, vtb_launch_plan *p) {
  p->place = VTB_NEW_ARRAY(&p->arena, int64_t, p->n_tensors + 1);
  p->state_bytes = c->state_bytes;
  for (int i = 0; i < p->n_tensors; i++) p->place[i] = -1;
  for (const vtb_cuda_update_group *g = c->groups; g; g = g->next) place_group(g, p);
  for (int i = 0; i < p->n_tensors; i++) {
    if (p->place[i] >= 0 || !stays(p, i)) continue;
    p->place[i] = p->state_bytes;
    p->state_bytes += round_up(vtb_tensor_info_count(&p->tensors[i]) * 4, REGION_ALIGN);
  }
}
