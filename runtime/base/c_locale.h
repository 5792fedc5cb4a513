/* Numbers in files and texts have a point and no marks between their thousands, whatever locale the
 * host has set: what reads and writes them for a host lies between begin and end, where the calling
 * thread's locale is "C". The process's is left alone. */
#ifndef VTB_C_LOCALE_H
#define VTB_C_LOCALE_H

#include <locale.h>

/* The locale that end restores. Needs no memory: glibc has this locale at hand. */
static inline locale_t vtb_c_locale_begin(void) {
  return uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0));
}
static inline void vtb_c_locale_end(locale_t before) { uselocale(before); }

#endif
