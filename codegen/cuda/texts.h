/* The files of codegen/cuda/text, compiled in by embed.cmake. By a pointer: the table's size is no
 * part of what programs are linked with. */
#ifndef VTB_CODEGEN_CUDA_TEXTS_H
#define VTB_CODEGEN_CUDA_TEXTS_H

#include <stddef.h>

typedef struct vtb_cuda_text_file {
  const char *name, *text;
  size_t n_bytes;
} vtb_cuda_text_file;

extern const vtb_cuda_text_file *const vtb__cuda_texts;
extern const int vtb__cuda_n_texts;

#endif
