/* See cpu_level.h. */
#include "runtime/artefact/cpu_level.h"

#include "runtime/base/base.h"

enum { AARCH64 = 4 }; /* behind the levels of x86-64 */
const char *const vtb_cpu_level_names[VTB_CPU_LEVELS] = {"x86-64", "x86-64-v2", "x86-64-v3",
                                                         "x86-64-v4", [AARCH64] = "aarch64"};

int vtb_cpu_level_find(const char *name) {
  for (int i = 0; i < VTB_CPU_LEVELS; i++)
    if (vtb_streq(name, vtb_cpu_level_names[i])) return i;
  return -1;
}

bool vtb_cpu_levels_alike(int a, int b) { return (a < AARCH64) == (b < AARCH64); }

bool vtb_cpu_level_runs(int here, int level) {
  return here >= 0 && level <= here && vtb_cpu_levels_alike(here, level);
}

#if defined(__x86_64__)
/* Feature by feature: not every compiler knows the levels' names here. The operating system's part
 * (saved registers) is in the compiler's answer. */
int vtb_cpu_level_here(void) {
  __builtin_cpu_init();
  bool v2 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
  bool v3 = v2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
            __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512vl");
  return v4 ? 3 : v3 ? 2 : v2 ? 1 : 0;
}
#elif defined(__aarch64__)
int vtb_cpu_level_here(void) { return AARCH64; }
#else
int vtb_cpu_level_here(void) { return -1; }
#endif
