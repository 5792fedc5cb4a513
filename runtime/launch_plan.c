/* Life of a launch plan: see launch_plan.h. */
#include "runtime/launch_plan.h"

void vtb_launch_plan_free(vtb_launch_plan *p) {
  if (!p) return;
  vtb_arena_free(&p->arena);
  free(p);
}
