/* Memory made of a model's parameters alone, by native programs, once for all of its sessions. */
#include "runtime/model.h"

#include "runtime/launch/threads.h"

#include <stdlib.h>

/* Sessions that find what another prepares wait for it. In a child of a process that was at it,
 * it is done again. */
static vtb_status prepare(vtb__kept_list *all, const vtb_program *p, void *const *args,
                          void *workspace, const vtb_services *s, void **out, vtb_error *err) {
  vtb__kept *k = all->first;
  while (k && k->key != p->kept_key) k = k->next;
  if (!k) {
    k = calloc(1, sizeof *k);
    void *memory = k ? vtb_aligned_alloc((size_t)p->kept_bytes) : NULL;
    if (!memory) {
      free(k);
      return vtb_fail(err, VTB_E_MEMORY, "out of memory for %lld bytes made of the parameters",
                      (long long)p->kept_bytes);
    }
    *k = (vtb__kept){.next = all->first, .key = p->kept_key, .memory = memory};
    all->first = k;
  }
  if (!k->is_ready)
    VTB_TRY(vtb_program_execute_part(p, args, workspace, k->memory, VTB_PREPARED_STEPS, s, err));
  k->is_ready = true;
  *out = k->memory;
  return VTB_OK;
}

vtb_status vtb__model_prepare(vtb_model *m, const vtb_program *p, void *const *args,
                              void *workspace, const vtb_services *s, void **kept, vtb_error *err) {
  (void)vtb_lock_take(&m->kept.lock);
  vtb_status status = prepare(&m->kept, p, args, workspace, s, kept, err);
  vtb_lock_give(&m->kept.lock);
  return status;
}

void vtb__model_forget_kept(vtb_model *m) {
  for (vtb__kept *k = m->kept.first, *next; k; k = next) {
    next = k->next;
    free(k->memory);
    free(k);
  }
}
