/* An entry of a unit and the values of its hyperparameters, before its body is evaluated: from
 * presets, then overrides, then defaults. Inside frontend/lang only. */
#ifndef VTB_LANG_ENTRY_H
#define VTB_LANG_ENTRY_H

#include "frontend/lang/value.h"

typedef struct vtb__setting { /* an override, parsed */
  const vtb_override *o;
  vtb_expr *x;
  bool used;
} vtb__setting;

typedef struct vtb__entry {
  const vtb_decl *decl;
  vtb__val *values; /* by parameter; VTB__NIL where only the default is known */
  bool *set;
  vtb_span *spans;
  vtb__setting *settings;
  size_t n_settings;
  VTB_VEC(const vtb_decl *) presets; /* that led to the entry, the outermost first */
} vtb__entry;

/* An evaluator of the unit, whose options and diagnostics must outlive it; its module is the
 * caller's to free. */
void vtb__eval_begin(vtb__eval *e, vtb_unit *u, const char *name, const vtb_instantiate_options *o,
                     vtb_diags *diags);
void vtb__eval_end(vtb__eval *e);

/* NULL, and what follows false: after an error. name NULL: the file's only model, or its last. */
const vtb_decl *vtb__entry_find(vtb__eval *e, const char *name);
/* In this order: presets are followed to their model, overrides are parsed, overrides are values,
 * hyperparameters are bound. */
bool vtb__entry_presets(vtb__eval *e, const vtb_decl *d, vtb__entry *n);
bool vtb__entry_parse(vtb__eval *e, vtb__entry *n);
bool vtb__entry_apply(vtb__eval *e, vtb__entry *n);
vtb__env *vtb__entry_env(vtb__eval *e);
bool vtb__entry_bind(vtb__eval *e, vtb__entry *n, vtb__env *env);
/* The values that are set, as arguments; returns how many. */
size_t vtb__entry_actuals(const vtb__entry *n, vtb__actual *out);

/* False, after messages, if an override names nothing of an entry without lets. */
bool vtb__entry_check(vtb__eval *e, vtb__entry *n);

int vtb__param_index(const vtb_decl *d, const char *name); /* -1: none, under any of its names */
/* Evaluates in the empty environment of a file. type may be NULL. */
vtb__val vtb__global_value(vtb__eval *e, const vtb_file *file, const vtb_expr *x,
                           const vtb_type_expr *type, const char *what);

/* An entry whose hyperparameters are bound in `env`. Expressions that make tensors make them in
 * `frame`, which nobody sees. */
typedef struct vtb__opened {
  vtb__eval e;
  vtb__entry entry;
  vtb__env *env;
  vtb__frame frame;
} vtb__opened;

static inline bool vtb__is_usable(const vtb_unit *u) {
  return u && !u->has_syntax_errors && u->files.n;
}
/* condition.c; of a usable unit. False after errors, when it must be closed, too; it stays where
 * it is. */
bool vtb__entry_open(vtb__opened *o, vtb_unit *u, const char *name,
                     const vtb_instantiate_options *options, vtb_diags *diags);
void vtb__entry_close(vtb__opened *o);

#endif
