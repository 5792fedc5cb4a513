/* The models that can be named: presets of the search folders, and models of files that declare no
 * presets, with the papers and weights that their files declare. */
#ifndef VTB_CLI_CATALOGUE_H
#define VTB_CLI_CATALOGUE_H

#include "frontend/cli/cli.h"

typedef struct catalogue_family {
  const char *path;
  char *title; /* the first line of the file's head comment, up to a colon */
  vtb_unit *unit;
  VTB_VEC(vtb_decl_info) entries; /* their texts are the unit's */
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
