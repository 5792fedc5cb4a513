/* The tree, walked in the order of the text. Inside frontend/lang only.
 *
 * A visitor is asked before a node's parts are walked; where it answers false they are left out,
 * because it has walked them itself or has no wish for them. Functions that are NULL are not asked.
 */
#ifndef VTB_LANG_AST_WALK_H
#define VTB_LANG_AST_WALK_H

#include "frontend/lang/ast.h"

typedef struct vtb__visitor {
  bool (*expr)(struct vtb__visitor *v, const vtb_expr *x);
  bool (*stmt)(struct vtb__visitor *v, const vtb_stmt *s);
  bool (*type)(struct vtb__visitor *v, const vtb_type_expr *t);
} vtb__visitor;

/* NULL is fine. */
void vtb__walk_expr(vtb__visitor *v, const vtb_expr *x);
void vtb__walk_stmts(vtb__visitor *v, const vtb_stmt_list *l);
void vtb__walk_type(vtb__visitor *v, const vtb_type_expr *t);
/* Types and defaults of parameters, results, value, prepare and body. */
void vtb__walk_decl(vtb__visitor *v, const vtb_decl *d);

#endif
