/* A built file in the making: every program for every target, and where it goes. */
#ifndef VTB_COMPILE_BUILDER_H
#define VTB_COMPILE_BUILDER_H

#include "frontend/compile/driver.h"
#include "runtime/artefact/artefact.h"
#include "runtime/artefact/cpu_level.h"

/* HOPPER: the architecture that has a plan of its own. */
enum { VTB_BUILD_ARCHS = 3, VTB_BUILD_PTX = 2, VTB_BUILD_HOPPER = 1, VTB_BUILD_PLANS = 2 };

/* From "cpu:x86-64-v3,cuda:sm_80,sm_90a": a name alone is of the kind before it. */
typedef struct vtb_build_targets {
  bool level[VTB_CPU_LEVELS]; /* of vtb_cpu_level_names */
  bool arch[VTB_BUILD_ARCHS]; /* of vtb_archs */
  bool cpu, cuda;             /* any of them */
} vtb_build_targets;

/* Bytes that wait for their place in the file; they live as long as the builder. */
typedef struct vtb_pending {
  const void *data;
  size_t n_bytes;
  vtb_blob *place;
} vtb_pending;

typedef struct vtb_file_builder {
  vtb_build_targets targets;
  const vtb_compile_options *options;
  vtb_behaviour how; /* that the options come to */
  vtb_report *report;
  vtb_manifest manifest;
  vtb_artefact_program *programs;
  VTB_VEC(vtb_object) objects;
  VTB_VEC(vtb_pending) pending;
  VTB_VEC(vtb_launch_plan *) plans;
  size_t common_plan; /* in `pending`: of the program in the making, the one for all */
  VTB_VEC(vtb_artefact_meta) meta;
  vtb_map int8; /* parameter -> how many objects read it in numbers of 8 bits alone, size_t */
  vtb_arena arena;
  vtb_weights *file, *weights; /* a weights file, and what of it is to be written too; NULL: none */
} vtb_file_builder;

/* For the targets that the options name; what they say wrong is found before anything is
 * compiled. Options and report are borrowed. On failure too vtb_file_builder_free() frees. */
VTB_MUST_USE vtb_status vtb_file_builder_open(vtb_file_builder *b, const vtb_compile_options *o,
                                              vtb_report *r);
void vtb_file_builder_free(vtb_file_builder *b);
/* A pair of the manifest; both are copied. */
void vtb_file_builder_meta(vtb_file_builder *b, const char *key, const char *value);
/* The manifest names the model and how it was compiled. */
VTB_MUST_USE vtb_status vtb_file_builder_describe(vtb_file_builder *b, const vtb_compilation *c);
/* Adds what `c` compiles, at graph level, for every target. */
VTB_MUST_USE vtb_status vtb_file_builder_add(vtb_file_builder *b, vtb_artefact_role role,
                                             const vtb_compilation *c, int64_t batch);
/* All of the programs that were added do: it is stored so. */
bool vtb_file_builder_has_int8(const vtb_file_builder *b, const char *name);
/* The first program's parameters from a safetensors file, where each is called `prefix` and its
 * name. */
VTB_MUST_USE vtb_status vtb_file_builder_weights(vtb_file_builder *b, const char *path,
                                                 const char *prefix);
/* Checks what can be said of an object's name and header before anything is compiled: VTB_E_USAGE,
 * also if a header of somebody else's would be written over (linked.c). */
VTB_MUST_USE vtb_status vtb__linked_check(const char *path, const char *name, vtb_error *err);
/* The header beside the object. */
VTB_MUST_USE vtb_status vtb__linked_header(const char *path, const char *name, vtb_error *err);

/* Links and writes: readers see the whole file or what was there before. */
VTB_MUST_USE vtb_status vtb_file_builder_write(vtb_file_builder *b, const char *path);

#endif
