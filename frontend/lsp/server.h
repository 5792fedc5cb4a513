/* The state that the parts of the server share. Inside frontend/lsp only. */
#ifndef VTB_LSP_SERVER_H
#define VTB_LSP_SERVER_H

#include "frontend/lang/symbols.h"
#include "frontend/lsp/lsp.h"

#include <cjson/cJSON.h>

/* ---- wire.c: messages ------------------------------------------------------------------------ */

typedef struct lsp_wire {
  int in, out;
  FILE *log;
  char *bytes; /* read and not yet taken */
  size_t n, cap;
  bool closed;
} lsp_wire;

/* The next message, for cJSON_Delete(), null if it is no JSON; NULL with VTB_OK: the other side has
 * closed. Waits at most
 * wait_ms (-1: for ever); *waited is set, and *out NULL, if nothing came. */
vtb_status lsp_read(lsp_wire *w, int wait_ms, bool *waited, cJSON **out, vtb_error *err);
/* Takes the message. */
vtb_status lsp_write(lsp_wire *w, cJSON *message, vtb_error *err);

/* ---- place.c: places in texts ---------------------------------------------------------------- */

/* How the editor counts columns. */
typedef enum lsp_encoding { LSP_UTF16, LSP_UTF8 } lsp_encoding;

typedef struct lsp_text {
  const char *at;
  size_t n;
} lsp_text;

uint32_t lsp_offset(lsp_text t, const cJSON *position, lsp_encoding e); /* clamped to the text */
cJSON *lsp_position(lsp_text t, uint32_t offset, lsp_encoding e);
cJSON *lsp_range(lsp_text t, uint32_t begin, uint32_t end, lsp_encoding e);
/* "file:///a%20b.vtb" to a path and back; for vtb_free(). Others than file: as they are. */
char *lsp_path_of(const char *uri);
char *lsp_uri_of(const char *path);

/* ---- documents ------------------------------------------------------------------------------- */

typedef struct lsp_fact { /* what evaluation said of a place */
  char *path;
  uint32_t begin;
  VTB_VEC(char *) texts; /* distinct, the first few */
} lsp_fact;

typedef struct lsp_document {
  char *uri, *path, *text;
  size_t n;
  int64_t version;
  /* Results of the text as it is: */
  vtb_unit *unit;
  vtb_symbols *symbols;
  /* Results of the text when it was evaluated last: */
  VTB_VEC(lsp_fact *) facts;
  vtb_map fact_at; /* path:begin -> fact */
  bool evaluated;  /* the text has not changed since */
} lsp_document;

typedef struct lsp_server {
  lsp_wire wire;
  lsp_encoding encoding;
  double evaluate_s;
  VTB_VEC(lsp_document *) documents;
  VTB_VEC(char *) roots; /* folders that are open */
  bool initialized, shut_down, exited;
} lsp_server;

/* Texts that stand for files, for the options of a compilation; *out is for vtb_free(). */
size_t lsp_overlay(const lsp_server *s, vtb_overlay **out);
lsp_text lsp_text_of(const lsp_document *d);

/* understand.c: unit and symbols of the text as it is. */
void lsp_understand(lsp_server *s, lsp_document *d);
void lsp_forget(lsp_document *d);
/* The same of another file, for vtb_symbols_free() and vtb_unit_free(); false if it is none. */
bool lsp_understand_file(lsp_server *s, const char *path, vtb_unit **unit, vtb_symbols **symbols);

/* evaluate.c: facts, and diagnostics, which are sent. */
void lsp_evaluate(lsp_server *s, lsp_document *d);
void lsp_clear_facts(lsp_document *d);
/* The fact about a place from this document or another that was evaluated; NULL. */
const lsp_fact *lsp_fact_at(const lsp_server *s, const char *path, uint32_t begin);

/* ---- requests: the result, or NULL and what to say ------------------------------------------- */

typedef cJSON *(*lsp_request_fn)(lsp_server *s, lsp_document *d, const cJSON *params,
                                 vtb_error *err);
cJSON *lsp_hover(lsp_server *s, lsp_document *d, const cJSON *params, vtb_error *err);
cJSON *lsp_signature_help(lsp_server *s, lsp_document *d, const cJSON *params, vtb_error *err);
cJSON *lsp_completion(lsp_server *s, lsp_document *d, const cJSON *params, vtb_error *err);
cJSON *lsp_definition(lsp_server *s, lsp_document *d, const cJSON *params, vtb_error *err);
cJSON *lsp_references(lsp_server *s, lsp_document *d, const cJSON *params, vtb_error *err);
cJSON *lsp_highlight(lsp_server *s, lsp_document *d, const cJSON *params, vtb_error *err);
cJSON *lsp_prepare_rename(lsp_server *s, lsp_document *d, const cJSON *params, vtb_error *err);
cJSON *lsp_rename(lsp_server *s, lsp_document *d, const cJSON *params, vtb_error *err);
cJSON *lsp_outline(lsp_server *s, lsp_document *d, const cJSON *params, vtb_error *err);
cJSON *lsp_formatting(lsp_server *s, lsp_document *d, const cJSON *params, vtb_error *err);

/* The offset of params.position. */
uint32_t lsp_offset_of(const lsp_server *s, const lsp_document *d, const cJSON *params);

#endif
