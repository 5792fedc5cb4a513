/* The GPU that code is chosen for, by name. */
#include "frontend/compile/driver.h"

#include <stdlib.h>

static void list_gpus(vtb_strbuf *out) {
  size_t n;
  const vtb_gpu *table = vtb_gpus(&n);
  for (size_t i = 0; i < n; i++)
    vtb_strbuf_printf(out, "%s%s", !i ? "" : i + 1 == n ? " and " : ", ", table[i].name);
}

vtb_status vtb_compile_gpu(const char *machine, vtb_gpu *out, vtb_error *err) {
  const char *set = getenv("VTB_MACHINE"), *wanted = machine ? machine : set && *set ? set : NULL;
  const vtb_gpu *known = wanted ? vtb_gpu_find(wanted) : vtb_gpu_default();
  if (known) {
    *out = *known;
    return VTB_OK;
  }
  vtb_strbuf names = {0};
  list_gpus(&names);
  vtb_fail(err, VTB_E_USAGE, "no GPU is named '%s'%s: there are %s", wanted,
           machine ? "" : " (VTB_MACHINE)", names.at);
  vtb_strbuf_free(&names);
  return VTB_E_USAGE;
}
