/* Recipes by name: files of the folders "recipes" beside the models. */
#ifndef VTB_CLI_RECIPE_FIND_H
#define VTB_CLI_RECIPE_FIND_H

#include "frontend/cli/cli.h"

/* The file that `name` stands for: NAME or NAME.yaml here, else in recipes/ of the folders that
 * models are looked for in. Errors say which name is near, and are printed. */
VTB_MUST_USE vtb_status recipe_find(const char *name, char **path);

typedef struct recipe_entry {
  char *name, *path, *about; /* the comment that the file begins with; "" */
} recipe_entry;
typedef VTB_VEC(recipe_entry) recipe_list;

/* Recipes of the folders `below` beside the models ("recipes"), all .yaml files, by folder and
 * name; of one name the first. */
void recipe_files(const char *below, recipe_list *out);
/* Recipes of the search folders, by folder and name; of one name the first. */
void recipe_all(recipe_list *out);
void recipe_list_free(recipe_list *l);

#endif
