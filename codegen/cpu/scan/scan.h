/* Shared by the emitters of linscan, its adjoint and delta, which fill texts: the instruction taken
 * apart, the holes that texts of scans have in common. Shapes and meaning: ir/recurrence.h. */
#ifndef VTB_CODEGEN_CPU_SCAN_H
#define VTB_CODEGEN_CPU_SCAN_H

#include "codegen/cpu/text.h"
#include "ir/recurrence.h"

typedef struct vtb__cpu_scan {
  vtb_cpu *c;
  vtb_scan of;
  vtb__loop_order order;
} vtb__cpu_scan;

/* A text with the holes of text/scan.h filled; `s` must live until it has run. And one that
 * includes text/chunks.h; one that includes text/steps.h, in tiles of at most max_vectors of V. */
vtb_cpu_text *vtb__scan_text(const vtb__cpu_scan *s, const char *name);
vtb_cpu_text *vtb__chunks_text(const vtb__cpu_scan *s, const char *name);
vtb_cpu_text *vtb__steps_text(const vtb__cpu_scan *s, const char *name, int max_vectors);

#endif
