/* The language: .vtb text to a syntax tree, and a syntax tree with hyperparameters to IR. The
 * folder's outward header.
 *
 * A vtb_unit owns the parsed files (a root and what it uses), their texts and trees; it must
 * outlive the modules built from it, whose spans point into its sources. One thread at a time.
 */
#ifndef VTB_LANG_H
#define VTB_LANG_H

#include "ir/ir.h"
#include "runtime/base/schedule.h"

typedef struct vtb_unit vtb_unit;

/* Where `use std.nn` and preset names are looked for: the user's file's folder, then each of
 * these. */
/* `overlay` stands for files of these paths, whether there are any or not: an editor's texts. */
typedef struct vtb_overlay {
  const char *path, *text;
  size_t n;
} vtb_overlay;
typedef struct vtb_search {
  const char *const *dirs;
  size_t n_dirs;
  const vtb_overlay *overlay;
  size_t n_overlay;
} vtb_search;
/* VTB_MODELS (colon-separated) as it is at the first call, then the installed or source models
 * folder compiled in. Any thread. */
const vtb_search *vtb_search_default(void);
/* Paths of every .vtb file under the folders, by folder and name; each, and the list, for
 * vtb_free(). */
char **vtb_search_files(const vtb_search *s, size_t *n);

/* Parses `path` and, recursively, what it uses. Several errors a run. NULL only when the file
 * cannot be read; with syntax errors the unit is returned and diags->n_errors > 0. */
vtb_unit *vtb_unit_load(const char *path, const vtb_search *search, vtb_diags *diags);
/* The same for text in memory (tests, fuzzers); `name` stands for the path in messages. */
vtb_unit *vtb_unit_load_text(const char *name, const char *text, size_t n, const vtb_search *search,
                             vtb_diags *diags);
/* Finds the file that declares a preset, model, block, fn or recurrence named `name` among the
 * search folders (timm names and aliases included) and loads it. */
vtb_unit *vtb_unit_find(const char *name, const vtb_search *search, vtb_diags *diags);
void vtb_unit_free(vtb_unit *u);

/* A hyperparameter override: -D name=value (value is .vtb expression text) or a field of a case's
 * config. */
typedef struct vtb_override {
  /* value text: 192, 0.5, true, "text", [rows, rows~], 224x224, chunkwise(16), conv2d */
  const char *name, *value;
  /* field of a config: may also name a top-level `let`, which it must then equal; strings may name
   * enum choices, path constants; unknown fields are errors naming them */
  bool from_config;
  bool optional; /* nothing happens if the entry has no such hyperparameter */
  bool stored;   /* with weights: gives way to one that is not, under any of its names */
  /* of a field of a config that is no hyperparameter: an expression over what the entry computes,
   * which it must equal; NULL: none */
  const char *fact;
} vtb_override;

/* Shapes of a case's inputs and params, for entries that are blocks or recurrences. */
typedef struct vtb_shape_binding {
  const char *name;
  vtb_type type;
} vtb_shape_binding;

/* A tensor that an optimizer is evaluated for; rows 0: no matrix, but a vector of `columns`. */
typedef struct vtb_updated_tensor {
  const char *name;
  int64_t rows, columns;
} vtb_updated_tensor;
/* True of one whose equations go by the shape or the name of a tensor, or sum over all of them: it
 * is evaluated for each tensor. name NULL: the file's last. */
bool vtb_optimizer_is_shaped(const vtb_unit *u, const char *name);

typedef struct vtb_instantiate_options {
  const vtb_override *overrides;
  size_t n_overrides;
  const vtb_shape_binding *inputs; /* NULL for models: their inputs are declared */
  size_t n_inputs;
  bool training;  /* value of the builtin `training` */
  bool taps;      /* keep `tap` statements */
  bool objective; /* losses and metrics are returned (ir/objective.h), and their inputs taken */
  /* params whose official names are of one of these patterns (fnmatch: "blocks.0.*") are frozen, as
   * by `freeze` */
  const char *const *freeze;
  size_t n_freeze;
  /* Results may be called what an argument is: whoever runs the program tells them apart. */
  bool shared_names;
  /* The entry becomes the model's `augment { }` of this image input, module->augment says that
   * there is one: from f32 inputs, the image as numbers of bytes, to results of the same names. */
  const char *augment;
  /* Samples go through it on their way into the model: images are the numbers of their bytes then,
   * and inputs of the names in runtime/base/augment.h have its draws, and means and deviations. */
  bool augment_inside;
  bool augment_arrays; /* images are arrays: their numbers are no bytes, and stay as they are */
  const vtb_updated_tensor *tensor; /* of an optimizer's equations; NULL: any vector */
  const char *mode; /* --mode: overrides `mode` of every recurrence; NULL: as written */
  int64_t chunk;
  /* Told, while it evaluates, what names and calls came to be, at the places of the names: "tokens
   * f32[B, N=196, C=192] of a grid 14x14, along rows.hflip"; NULL: nobody is. */
  void (*observe)(void *user, vtb_span at, const char *what);
  void *observer;
} vtb_instantiate_options;

/* Evaluates entry `name` (NULL: the file's only model, or its last) to a module whose entry
 * function is the model. */
vtb_module *vtb_instantiate(vtb_unit *u, const char *name, const vtb_instantiate_options *o,
                            vtb_diags *diags);

/* A schedule of a unit (NULL: the file's last) with its hyperparameters, asked update by update.
 * The unit must outlive it. NULL and false after errors. */
typedef struct vtb_pacer vtb_pacer;
vtb_pacer *vtb_pacer_open(vtb_unit *u, const char *name, const vtb_override *overrides, size_t n,
                          vtb_diags *diags);
bool vtb_pacer_at(vtb_pacer *p, const vtb_moment *m, vtb_pace *pace, vtb_diags *diags);
bool vtb_pacer_reads(const vtb_pacer *p, const char *name); /* its body has the name */
void vtb_pacer_free(vtb_pacer *p);                          /* NULL is fine */
/* The first update of a run that schedules are tried and drawn with. */
extern const vtb_moment vtb_moment_example;

/* Declarations of a unit, for help, completion and `check`. */
typedef enum vtb_decl_kind {
  VTB_DECL_MODEL,
  VTB_DECL_PRESET,
  VTB_DECL_BLOCK,
  VTB_DECL_FN,
  VTB_DECL_RECURRENCE,
  VTB_DECL_CONST,
  VTB_DECL_OPTIMIZER,
  VTB_DECL_SCHEDULE
} vtb_decl_kind;
typedef struct vtb_decl_info {
  vtb_decl_kind kind;
  const char *name, *alias, *doc; /* doc: the comment directly above, or "" */
  vtb_span span;
  /* For models and presets. model: itself, or what the preset calls; paper, its number at arXiv:
   * its own, its model's or its file's; weights: where checkpoints that fit are; NULL: not
   * declared. */
  const char *model, *paper, *weights;
} vtb_decl_info;
/* The file of the search folders (NULL: the default ones) that declares the name as such: a
 * function and a schedule may share one. For vtb_free(); NULL: none does. */
char *vtb_unit_declaring(const char *name, vtb_decl_kind kind, const vtb_search *search);
size_t vtb_unit_decls(const vtb_unit *u, const vtb_decl_info **out); /* root file's, in order */

/* The i-th file that was read, the root first, then what it uses; NULL behind the last. */
const char *vtb_unit_file(const vtb_unit *u, size_t i);

/* The int hyperparameters of the model that vtb_instantiate would take for `name`. *out is
 * malloc'd, the names are the unit's. */
size_t vtb_unit_int_settings(const vtb_unit *u, const char *name, const char ***out);

/* A hyperparameter of an entry, and what presets, overrides and defaults make of it. */
typedef struct vtb_hyperparameter {
  const char *name, *const *aliases;
  size_t n_aliases;
  const char *value; /* as .vtb text, the same for equal values; NULL: a tensor */
} vtb_hyperparameter;
/* In the order of the declaration; *list is in the arena. Overrides that name nothing are left
 * alone. False after errors. */
bool vtb_unit_hyperparameters(vtb_unit *u, const char *name, const vtb_instantiate_options *o,
                              vtb_arena *arena, vtb_hyperparameter **list, size_t *n,
                              vtb_diags *diags);
/* True if `text`, an expression of the language, holds of an entry: it sees the hyperparameters
 * under all their names, the constants of the model's file, and words with their values, which are
 * numbers, sizes, true or false, or else strings; one that is `optional` gives way to a
 * hyperparameter of its name. False after errors. */
bool vtb_unit_condition(vtb_unit *u, const char *name, const vtb_instantiate_options *o,
                        const vtb_override *words, size_t n_words, const char *text, bool *holds,
                        vtb_diags *diags);

/* Canonical layout of the text; idempotent, keeps comments. False (with diags) if the text has
 * syntax errors. */
bool vtb_format(const vtb_source *source, vtb_strbuf *out, vtb_diags *diags);

/* The files that were read, the root first. A folder with copies of them under `name`, a path below
 * it, is a search folder in which the same model is found. */
typedef struct vtb_source_file {
  const char *name, *path; /* path: where it was read */
  const char *text;        /* NUL-terminated */
  size_t n;
} vtb_source_file;
size_t vtb_unit_sources(vtb_unit *u, vtb_source_file **out); /* *out is malloc'd */

/* The tree, for `dump --stage ast`. */
void vtb_unit_print_ast(const vtb_unit *u, vtb_strbuf *out);

#endif
