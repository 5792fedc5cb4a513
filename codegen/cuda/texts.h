/* The files of codegen/cuda/text, compiled in by cmake/embed.cmake. */
#ifndef VTB_CODEGEN_CUDA_TEXTS_H
#define VTB_CODEGEN_CUDA_TEXTS_H

typedef struct vtb_cuda_text_file {
  const char *name, *text;
} vtb_cuda_text_file;

extern const vtb_cuda_text_file vtb__cuda_texts[];
extern const int vtb__cuda_n_texts;

#endif
