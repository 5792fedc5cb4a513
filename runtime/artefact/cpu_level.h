/* Which processors native code in built files is made for: the x86-64 levels (psABI), and AArch64,
 * whose least machine has all that the code uses. */
#ifndef VTB_CPU_LEVEL_H
#define VTB_CPU_LEVEL_H

#include <stdbool.h>

enum { VTB_CPU_LEVELS = 5 };
/* An architecture's together, worst first: "x86-64" to "x86-64-v4", "aarch64". */
extern const char *const vtb_cpu_level_names[VTB_CPU_LEVELS];

/* The number of a name, or -1. */
int vtb_cpu_level_find(const char *name);
/* The best level of this machine; -1: code is made for none of its kind. */
int vtb_cpu_level_here(void);
/* Levels of one architecture, which may share a file. */
bool vtb_cpu_levels_alike(int a, int b);
/* A machine whose best level is `here` runs code for `level`. */
bool vtb_cpu_level_runs(int here, int level);

#endif
