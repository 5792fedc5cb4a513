/* What `vertebra build` collects before it writes a file: every program for every target, and where
 * it goes. */
#ifndef VTB_CLI_BUILDER_H
#define VTB_CLI_BUILDER_H

#include "frontend/cli/cli.h"
#include "runtime/artefact/artefact.h"
#include "runtime/artefact/cpu_level.h"

enum { CLI_BUILD_ARCHS = 3, CLI_BUILD_PTX = 2 };

/* From "cpu:x86-64-v3,cuda:sm_80,sm_90a": a name alone is of the kind before it. */
typedef struct cli_build_targets {
  bool level[VTB_CPU_LEVELS]; /* of vtb_cpu_level_names */
  bool arch[CLI_BUILD_ARCHS]; /* of vtb_archs */
  bool cpu, cuda;             /* any of them */
} cli_build_targets;
VTB_MUST_USE vtb_status cli_build_targets_parse(const char *text, cli_build_targets *out);

/* Bytes that wait for their place in the file; they live as long as the builder. */
typedef struct cli_pending {
  const void *data;
  size_t n_bytes;
  vtb_blob *place;
} cli_pending;

typedef struct cli_builder {
  cli_build_targets targets;
  const cli_model_options *options;
  vtb_manifest manifest;
  vtb_artefact_program programs[VTB_N_ARTEFACT_ROLES];
  VTB_VEC(vtb_object) objects;
  VTB_VEC(cli_pending) pending;
  VTB_VEC(vtb_launch_plan *) plans;
  VTB_VEC(vtb_artefact_meta) meta;
  vtb_arena arena;
  vtb_update_rule rule;       /* of training steps on CUDA */
  bool average;               /* which keep averages too */
  const vtb_weights *weights; /* to be written too; NULL: none */
} cli_builder;

void cli_builder_init(cli_builder *b, const cli_build_targets *t, const cli_model_options *o);
void cli_builder_free(cli_builder *b);
/* A pair of the manifest; both are copied. */
void cli_builder_meta(cli_builder *b, const char *key, const char *value);
/* `func` of a module at graph level, compiled for every target. Errors are printed. */
VTB_MUST_USE vtb_status cli_builder_add(cli_builder *b, vtb_artefact_role role,
                                        const vtb_module *module, const char *func, int64_t batch);
/* Links and writes. Errors are printed. */
VTB_MUST_USE vtb_status cli_builder_write(cli_builder *b, const char *path);

#endif
