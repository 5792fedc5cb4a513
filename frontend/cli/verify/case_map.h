/* cases.map: what the configs of reference cases say beside hyperparameters, and what cases call
 * otherwise than models do.
 *
 *   [mlstm gated_delta]                    the entries that the lines below are for: names or globs
 *   family = "delta"                       a fact, which the config must equal: an expression of
 *   head_dim = K                           the language over what the entry has computed
 *   task_name -> task                      a hyperparameter under another name
 *   layout = "raw" -> layout = "flat"      that value of the field as a hyperparameter's value
 *   -> trace = true                        a hyperparameter of all cases of the entries
 *   note ->                                nothing of the entry's
 *   names head.0.* -> norm.*               names of tensors, by the rules of *.names files
 *   entry droppath.vtb branch              the cases' entries are `branch` of a file beside the map
 *
 * Of several lines for a field the first whose value is the config's counts. A fact is asked only
 * of fields that are no hyperparameters. `#` begins a comment.
 *
 * Errors: VTB_E_INPUT names file and line. */
#ifndef VTB_CLI_CASE_MAP_H
#define VTB_CLI_CASE_MAP_H

#include "frontend/lang/lang.h"
#include "runtime/artefact/tensors.h"

typedef struct case_map {
  char *path; /* NULL: there is none, which changes nothing */
  VTB_VEC(struct case_row *) rows;
  vtb_arena arena;
} case_map;

typedef VTB_VEC(vtb_override) case_overrides;

/* given: the file, or NULL: cases.map beside the case, in the folder above, or that of the cases of
 * published models (tests/golden). Freed with case_map_free(), also after an error. */
VTB_MUST_USE vtb_status case_map_open(case_map *m, const char *given, const char *case_path,
                                      vtb_error *err);
void case_map_free(case_map *m);

/* The meaning of a config's fields to the entry. Names and values that the map replaces are its
 * own; it must outlive them. */
void case_map_fields(const case_map *m, const char *entry, case_overrides *fields);
/* Names that the entry's `name` may have in a case (of_case), or the other way round: the next of
 * the rules from *at on, 0 at first; false: there is no other. */
bool case_map_name(const case_map *m, const char *entry, bool of_case, const char *name, size_t *at,
                   vtb_strbuf *out);
/* Another entry, and the file that has it; false: the map says none. */
bool case_map_entry(case_map *m, const char **entry, const char **file);
/* Uses of `other`, the same file, count as asked of this map. */
void case_map_add_used(case_map *m, const case_map *other);
/* The next line that nothing was asked of, from *at on, 0 at first, and its text; 0: no more. */
int case_map_unused(const case_map *m, size_t *at, const char **text);

#endif
