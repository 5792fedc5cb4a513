/* YAML files of options: studies and recipes. What libfyaml needs to be asked for again and again.
 */
#ifndef VTB_STUDY_YAML_H
#define VTB_STUDY_YAML_H

#include "runtime/base/base.h"

#include <libfyaml.h>

/* From 1; of a list or mapping where its first value is. 0: not known. */
void study_yaml_place(struct fy_node *node, int *line, int *column);
/* The node that an alias stands for; itself otherwise; NULL: nothing. Aliases are followed where
 * they are read, never copied: no file can make more of itself than it is. */
struct fy_node *study_yaml_behind(struct fy_node *node);
/* NULL: no scalar. Of one that YAML calls null "". For vtb_free(). */
char *study_yaml_scalar(struct fy_node *node);
/* True of a scalar with that text. */
bool study_yaml_is_null(struct fy_node *node, const char *text);
/* Calls take(arg, root) of the document's mapping; VTB_OK if it is empty. Errors name file, line
 * and column. */
VTB_MUST_USE vtb_status study_yaml_read(const char *path, const char *text, size_t n,
                                        vtb_status (*take)(void *arg, struct fy_node *root),
                                        void *arg, vtb_error *err);

#endif
