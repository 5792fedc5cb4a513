/* See choice.h. */
#include "passes/fuse/choice.h"

#include <string.h>

static const char *const names[] = {
    "split_thin",
    "fuse_norms",
#define VTB_FUSION(name, ...) name,
#include "ir/kernels.def"
#undef VTB_FUSION
};
enum { N = sizeof names / sizeof *names };
_Static_assert(N <= 32, "a set of fusions is 32 bits");

const char *vtb_fusion_name(int number) { return number < N ? names[number] : NULL; }

int vtb_fusion_find(const char *name) {
  for (int i = 0; i < N; i++)
    if (strcmp(names[i], name) == 0) return i;
  return -1;
}

void vtb_decisions_free(vtb_decisions *d) { vtb_vec_free(&d->at); }
