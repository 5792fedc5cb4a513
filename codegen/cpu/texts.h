/* The files of codegen/cpu/text as bitcode, a file a width of vectors: "prefix_sum.16.bc". Made by
 * clang when the tree is built, compiled in by codegen/embed.cmake. */
#ifndef VTB_CODEGEN_CPU_TEXTS_H
#define VTB_CODEGEN_CPU_TEXTS_H

#include <stddef.h>

typedef struct vtb_cpu_text_file {
  const char *name, *text;
  size_t n_bytes;
} vtb_cpu_text_file;

extern const vtb_cpu_text_file *const vtb__cpu_texts;
extern const int vtb__cpu_n_texts;

#endif
