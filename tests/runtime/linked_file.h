/* A sample file as a linker leaves it in a program. */
#ifndef VTB_TEST_LINKED_FILE_H
#define VTB_TEST_LINKED_FILE_H

#include "runtime/artefact/artefact_file.h"
#include "tests/runtime/sample_file.h"

static void linked_entry(void *const *args, void *workspace, const vtb_services *services) {
  const float *x = args[0], *w = args[1];
  float *y = args[2];
  (void)workspace, (void)services;
  for (int i = 0; i < 64; i++) y[i] = 5 * x[i] + w[i];
}

typedef struct linked_code {
  uint32_t size, n;
  uint64_t build;
  vtb_entry_fn at[1];
} linked_code;
static const linked_code linked_table = {sizeof(vtb_artefact_table), 1, 42, {linked_entry}};

static inline const char *make_object(void) {
  const char *path = temp_path("sample.o");
  sample *s = make();
  s->linked = true;
  CHECK_OK(write_sample(s, path, err));
  free(s);
  return path;
}

/* What a linker leaves of an object. */
typedef struct program {
  unsigned char *image;
  uint64_t bytes;
  vtb_artefact_linked linked;
} program;

/* As the object says: its last bytes, whose number the trailer has. */
static inline program link_sample(const char *path) {
  program p = {0};
  size_t n;
  char *file = read_file(path, &n);
  for (int i = 0; i < 8; i++)
    p.bytes |= (uint64_t)(unsigned char)file[n - VTB__TRAILER_BYTES + 24 + (size_t)i] << 8 * i;
  CHECK(p.bytes < n && (n - p.bytes) % 64 == 0);
  p.image = vtb_aligned_alloc((size_t)p.bytes);
  memcpy(p.image, file + n - p.bytes, (size_t)p.bytes);
  p.linked = (vtb_artefact_linked){.size = sizeof p.linked,
                                   .format = VTB_ARTEFACT_FORMAT,
                                   .name = "sample",
                                   .table = (const vtb_artefact_table *)(const void *)&linked_table,
                                   .image = p.image};
  free(file);
  return p;
}

#endif
