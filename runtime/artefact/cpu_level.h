/* Which of the x86-64 levels (psABI) this machine has: what native code in built files is made
 * for. */
#ifndef VTB_CPU_LEVEL_H
#define VTB_CPU_LEVEL_H

enum { VTB_CPU_LEVELS = 4 };
extern const char
    *const vtb_cpu_level_names[VTB_CPU_LEVELS]; /* worst first: "x86-64" to "x86-64-v4" */

/* The number of a name, or -1. */
int vtb_cpu_level_find(const char *name);
/* The best level of this machine; -1: not an x86-64. */
int vtb_cpu_level_here(void);

#endif
