/* Queries on compiled programs. */
#include "runtime/launch/program.h"

#include <stdlib.h>

void vtb_program_free(vtb_program *p) {
  /* Whoever made the program allocated it; its own free releases tables and code. */
  if (p && p->free) p->free(p->owner);
}

void vtb_program_keep(const vtb_program *p, unsigned roles) {
  if (p->keep) p->keep(p->owner, roles);
}

vtb_status vtb_program_exchange(const vtb_program *p, void *const *args, bool in, vtb_error *err) {
  return p->exchange ? p->exchange(p->owner, args, in, err) : VTB_OK;
}

bool vtb_program_is_resident(const vtb_program *p, int tensor) {
  return p->resident && p->resident[tensor];
}

int vtb_program_find(const vtb_program *p, const char *name) {
  for (int i = 0; i < p->n_tensors; i++)
    if (vtb_streq(p->tensors[i].name, name)) return i;
  return -1;
}

int64_t vtb_tensor_info_count(const vtb_tensor_info *t) {
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++) n *= t->dim[i];
  return n;
}

const vtb_tensor_info *vtb_tensors_image(const vtb_tensor_info *t, int n) {
  for (int i = 0; i < n; i++)
    if (t[i].io == VTB_IO_INPUT && t[i].rank == 4 && !t[i].is_int) return &t[i];
  return NULL;
}

int64_t vtb_tensors_scores(const vtb_tensor_info *t, int n) {
  for (int i = 0; i < n; i++)
    if (t[i].io == VTB_IO_OUTPUT) return t[i].rank == 2 ? t[i].dim[1] : 0;
  return 0;
}
