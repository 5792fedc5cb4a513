/* See yaml.h. */
#include "frontend/study/yaml.h"

#include "runtime/base/utf8.h"

#include <string.h>

enum { MOST_DEPTH = 16 };

void study_yaml_place(struct fy_node *node, int *line, int *column) {
  for (int i = 0; node && !fy_node_is_scalar(node) && i < MOST_DEPTH; i++)
    node = fy_node_is_sequence(node) ? fy_node_sequence_get_by_index(node, 0)
                                     : fy_node_pair_key(fy_node_mapping_get_by_index(node, 0));
  struct fy_token *token = node ? fy_node_get_scalar_token(node) : NULL;
  const struct fy_mark *mark = token ? fy_token_start_mark(token) : NULL;
  *line = mark ? mark->line + 1 : 0;
  *column = mark ? mark->column + 1 : 0;
}

struct fy_node *study_yaml_behind(struct fy_node *node) {
  for (int i = 0; node && fy_node_is_alias(node) && i < MOST_DEPTH; i++)
    node = fy_node_resolve_alias(node);
  return node && fy_node_is_alias(node) ? NULL : node;
}

char *study_yaml_scalar(struct fy_node *node) {
  size_t n = 0;
  const char *text = node && fy_node_is_scalar(node) ? fy_node_get_scalar(node, &n) : NULL;
  if (!text) return node && fy_node_is_scalar(node) ? vtb_xstrdup("") : NULL;
  char *copy = vtb_xmalloc(n + 1);
  memcpy(copy, text, n);
  copy[n] = 0;
  return copy;
}

bool study_yaml_is_null(struct fy_node *node, const char *text) {
  struct fy_token *token = fy_node_get_scalar_token(node);
  bool plain = !token || fy_token_scalar_style(token) == FYSS_PLAIN;
  return plain && (!*text || strcmp(text, "null") == 0 || strcmp(text, "~") == 0);
}

/* Tells the first of its complaints. */
static vtb_status tell_syntax(const char *path, struct fy_diag *diag, vtb_error *err) {
  void *at = NULL;
  struct fy_diag_error *e = diag ? fy_diag_errors_iterate(diag, &at) : NULL;
  if (!e) return vtb_fail(err, VTB_E_INPUT, "%s: not YAML", path);
  return vtb_fail(err, VTB_E_INPUT, "%s:%d:%d: %s", path, e->line > 0 ? e->line : 1,
                  e->column > 0 ? e->column : 1, e->msg);
}

/* A listener that says nothing: what is collected is told as ours; of some files it would print
 * besides. */
static void say_nothing(struct fy_diag *diag, void *user, const char *text, size_t n) {
  (void)diag, (void)user, (void)text, (void)n;
}

static void drop_document(void *document) { fy_document_destroy(document); }

vtb_status study_yaml_read(const char *path, const char *text, size_t n,
                           vtb_status (*take)(void *arg, struct fy_node *root), void *arg,
                           vtb_error *err) {
  size_t good = vtb_utf8_check(text, n);
  if (good < n) /* of some directives libfyaml would never come back */
    return vtb_fail(err, VTB_E_INPUT, "%s: byte %zu is no UTF-8 text", path, good + 1);
  struct fy_diag_cfg silent;
  fy_diag_cfg_default(&silent);
  silent.fp = NULL;
  silent.output_fn = say_nothing;
  struct fy_diag *diag = fy_diag_create(&silent);
  if (!diag) return vtb_no_memory(err, path);
  fy_diag_set_collect_errors(diag, true);
  struct fy_parse_cfg config = {.flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG | FYPCF_DEFAULT_PARSE,
                                .diag = diag};
  struct fy_document *d = fy_document_build_from_string(&config, text, n);
  vtb_status status = VTB_OK;
  struct fy_node *root = d ? study_yaml_behind(fy_document_root(d)) : NULL;
  if (!d) {
    status = tell_syntax(path, diag, err);
  } else if (root && !fy_node_is_mapping(root)) {
    status = vtb_fail(err, VTB_E_INPUT, "%s: what is wanted is lines `option: value`", path);
  } else if (root) {
    vtb_defer(drop_document, d);
    status = take(arg, root);
    vtb_forget(d);
  }
  fy_document_destroy(d);
  fy_diag_destroy(diag);
  return status;
}
