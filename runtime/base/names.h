/* Names of a table, as sentences list them. */
#ifndef VTB_NAMES_H
#define VTB_NAMES_H

#include "runtime/base/base.h"

/* Appends "cpu, cuda and interp": `between` two of them, but `last` before the last one. */
static inline void vtb_strbuf_names(vtb_strbuf *out, const char *const *names, size_t n,
                                    const char *between, const char *last) {
  for (size_t i = 0; i < n; i++)
    vtb_strbuf_printf(out, "%s%s", !i ? "" : i + 1 == n ? last : between, names[i]);
}

#endif
