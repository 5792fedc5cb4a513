/* The models that can be named: presets of the search folders, and models of files that declare no
 * presets. What is known about them stands in their files' comments:
 *
 *   arXiv 2406.04303         at the head of the file: the paper
 *   Paper: arXiv 2104.13840  above a preset or its model: another one
 *   // Published weights:    a list of checkpoints that fit, a line a preset
 *   //   vil_tiny_patch16_224: vil2-tiny of nx-ai/vision-lstm
 */
#ifndef VTB_CLI_CATALOGUE_H
#define VTB_CLI_CATALOGUE_H

#include "frontend/cli/cli.h"

typedef struct catalogue_entry {
  const char *name, *alias;      /* alias: NULL if there is none */
  char *model, *paper, *weights; /* the model's name; "2406.04303"; NULL: not known */
} catalogue_entry;

typedef struct catalogue_family {
  const char *path;
  char *title; /* of the file's head comment */
  vtb_unit *unit;
  VTB_VEC(catalogue_entry) entries;
} catalogue_family;

typedef struct catalogue {
  VTB_VEC(catalogue_family) families;
  char **files;
  size_t n_files;
} catalogue;

/* Whose name or alias the pattern matches: a glob, or a part of the name; NULL: all. */
void catalogue_open(catalogue *c, const char *pattern);
void catalogue_free(catalogue *c);

#endif
