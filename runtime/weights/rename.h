/* Checkpoint names of other tools: rules that turn a file's tensors into those of a model.
 *
 * Rules stand in a text file beside the models they are for (models/vit.names); docs/weights.md has
 * the format. A file holds sets of rules, one for each tool or release whose checkpoints are known.
 * Under a set, a tensor whose name matches no rule keeps its name.
 *
 * Ownership: vtb_names owns its rules. A vtb_renaming refers to the vtb_names and the vtb_weights
 * that it was made of, and copies no tensor.
 * Errors: VTB_E_INPUT names file and line of a rule; VTB_E_MEMORY.
 */
#ifndef VTB_RENAME_H
#define VTB_RENAME_H

#include "runtime/artefact/tensors.h"

#define VTB_META_NAMES "names" /* the key of a built file's metadata: rules, as text */

enum { VTB_RENAME_PARTS = 8 }; /* tensors that one rule joins, or splits one into */

/* A config's word, beside the weights, that shapes do not show: `key` is the model's setting, or,
 * where setting is NULL, `value`. */
typedef struct vtb_name_config {
  const char *key, *setting, *value;
} vtb_name_config;

typedef struct vtb_names {
  vtb_arena arena;
  VTB_VEC(vtb_name_config) configs;
  VTB_VEC(struct vtb_name_set *) sets;        /* in their order */
  VTB_VEC(struct vtb_name_pattern *) ignored; /* under any set */
} vtb_names;

void vtb_names_init(vtb_names *n);
void vtb_names_free(vtb_names *n);
/* Adds the sets of a file. */
VTB_MUST_USE vtb_status vtb_names_read(vtb_names *n, const char *path, vtb_error *err);
/* The same for text in memory; `name` stands for the path in messages. */
VTB_MUST_USE vtb_status vtb_names_parse(vtb_names *n, const char *name, const char *text,
                                        vtb_error *err);
const char *vtb_names_label(const vtb_names *n, size_t set); /* whose names: "timm" */
/* True if a tensor that no model wants is no parameter: by the files' `ignore`, an optimiser's of a
 * checkpoint of our own, or the counter of a batch norm of PyTorch's. names may be NULL. */
bool vtb_names_ignore(const vtb_names *names, const char *name);

/* A tensor under the model's name: tensors of the file, joined along their first axis, then a part
 * of them, then its axes exchanged. */
typedef struct vtb_renamed {
  const char *name;
  const vtb_weight *from[VTB_RENAME_PARTS];
  int n_from;
  int part, n_parts;             /* part of n_parts equal ones along the first axis */
  int axes[VTB_WEIGHT_MAX_RANK]; /* axis i of the result is axes[i] of the file's; [0] -1: as is */
  bool reshape;                  /* the model's shape if it has as many elements */
  int rank;
  int64_t dim[VTB_WEIGHT_MAX_RANK], count; /* of the result */
} vtb_renamed;

typedef struct vtb_renaming {
  vtb_arena arena;
  VTB_VEC(vtb_renamed *) at;
  VTB_VEC(const vtb_weight *) left; /* outside of `prefix`, or a part whose others are missing */
  vtb_map index;
} vtb_renaming;

/* Renames the tensors of `w` whose names begin with `prefix`, which goes. set: of `names`;
 * VTB_NO_SET: all keep their names. names may be NULL then. */
#define VTB_NO_SET SIZE_MAX
VTB_MUST_USE vtb_status vtb_rename(const vtb_names *names, size_t set, const char *prefix,
                                   const vtb_weights *w, vtb_renaming *out, vtb_error *err);
void vtb_renaming_free(vtb_renaming *r);
vtb_renamed *vtb_renaming_find(const vtb_renaming *r, const char *name); /* NULL if absent */

/* The tensor's `count` elements. */
VTB_MUST_USE vtb_status vtb_renamed_read_f32(const vtb_renamed *t, float *out, vtb_error *err);
VTB_MUST_USE vtb_status vtb_renamed_read_i32(const vtb_renamed *t, int32_t *out, vtb_error *err);

#endif
