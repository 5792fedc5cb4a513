/* A language server: editors and .vtb texts. The protocol is LSP 3.17 over a pair of files, as
 * editors start one: messages of JSON-RPC behind a Content-Length.
 *
 * What it does: diagnostics while typing, hover with shapes, layouts and orders, definitions and
 * references across `use`, completion, rename, outline, signatures, formatting. docs/editors.md.
 */
#ifndef VTB_LSP_H
#define VTB_LSP_H

#include "runtime/base/base.h"

#include <stdio.h>

typedef struct vtb_lsp_options {
  int in, out;       /* file descriptors; they stay the caller's */
  FILE *log;         /* messages as they come and go; NULL: none */
  double evaluate_s; /* models of a text are evaluated for about so long; 0: 1 second */
} vtb_lsp_options;

/* Until the editor says exit, or its end of the pipe is closed. VTB_E_INPUT: it went without a
 * shutdown, or what came was no message. */
VTB_MUST_USE vtb_status vtb_lsp_serve(const vtb_lsp_options *o, vtb_error *err);

/* Words of the language for other tools: a TextMate grammar (JSON) or a syntax file of Vim.
 * False: there is no grammar of this name. */
bool vtb_lsp_grammar(const char *name, vtb_strbuf *out);

#endif
