/* A compiled program's description of itself: its tensors and its kernels, in memory of the
 * program's own. */
#include "codegen/describe.h"
#include "codegen/cpu/host/host.h"

void vtb__describe_program(vtb_host *h, vtb_func *entry, vtb_program *p, vtb_arena *arena) {
  vtb__describe_tensors(entry, p, arena);
  p->workspace_bytes = h->funcs[vtb_steps_find(&h->steps, entry)].total_bytes;
  p->n_kernels = (int)h->kernel_list.n;
  p->kernels = VTB_NEW_ARRAY(arena, vtb_kernel_info, p->n_kernels + 1);
  for (int i = 0; i < p->n_kernels; i++) {
    const vtb_cpu_kernel *k = h->kernel_list.at[i];
    p->kernels[i] = (vtb_kernel_info){vtb_arena_strdup(arena, k->name),
                                      vtb_arena_strdup(arena, k->label),
                                      vtb_arena_strdup(arena, k->ops),
                                      vtb_arena_strdup(arena, k->origin),
                                      k->flops,
                                      k->bytes,
                                      k->launches};
  }
}
