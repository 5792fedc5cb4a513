/* A document as a whole: what it declares, and its canonical layout. */
#include "frontend/lsp/server.h"

#include <string.h>

/* SymbolKind of the protocol. */
static int kind_of(const vtb_lang_symbol *s) {
  static const int kinds[] = {
      [VTB_DECL_MODEL] = 5 /* class */,          [VTB_DECL_PRESET] = 20 /* key */,
      [VTB_DECL_BLOCK] = 6 /* method */,         [VTB_DECL_FN] = 12 /* function */,
      [VTB_DECL_RECURRENCE] = 24 /* event */,    [VTB_DECL_CONST] = 14 /* constant */,
      [VTB_DECL_OPTIMIZER] = 11 /* interface */, [VTB_DECL_SCHEDULE] = 11};
  return kinds[s->decl_kind];
}

cJSON *lsp_outline(lsp_server *s, lsp_document *d, const cJSON *params, vtb_error *err) {
  const vtb_lang_symbol **list = NULL;
  size_t n = d->symbols ? vtb_symbols_decls(d->symbols, &list) : 0;
  cJSON *rows = cJSON_CreateArray();
  lsp_text t = lsp_text_of(d);
  (void)params;
  (void)err;
  for (size_t i = 0; i < n; i++) {
    const vtb_lang_symbol *symbol = list[i];
    if (symbol->at.begin < symbol->all.begin || symbol->at.end > symbol->all.end) continue;
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "name", symbol->name);
    cJSON_AddStringToObject(row, "detail", symbol->signature);
    cJSON_AddNumberToObject(row, "kind", kind_of(symbol));
    cJSON_AddItemToObject(row, "range",
                          lsp_range(t, symbol->all.begin, symbol->all.end, s->encoding));
    cJSON_AddItemToObject(row, "selectionRange",
                          lsp_range(t, symbol->at.begin, symbol->at.end, s->encoding));
    cJSON_AddItemToArray(rows, row);
  }
  vtb_free(list);
  return rows;
}

cJSON *lsp_formatting(lsp_server *s, lsp_document *d, const cJSON *params, vtb_error *err) {
  vtb_source source = {.path = d->path, .text = d->text, .n = d->n};
  vtb_diags diags = {0};
  vtb_strbuf out = {0};
  (void)params;
  cJSON *edits = NULL;
  if (!vtb_format(&source, &out, &diags)) {
    vtb_fail(err, VTB_E_INPUT, "a text with syntax errors is not laid out");
  } else {
    edits = cJSON_CreateArray();
    if (out.n != d->n || memcmp(vtb_strbuf_text(&out), d->text, d->n) != 0) {
      cJSON *edit = cJSON_CreateObject();
      cJSON_AddItemToObject(edit, "range",
                            lsp_range(lsp_text_of(d), 0, (uint32_t)d->n, s->encoding));
      cJSON_AddStringToObject(edit, "newText", vtb_strbuf_text(&out));
      cJSON_AddItemToArray(edits, edit);
    }
  }
  vtb_strbuf_free(&out);
  vtb_diags_free(&diags);
  return edits;
}
