/* Documents as units with symbols: cheap, made anew whenever a text has changed. */
#include "frontend/lsp/server.h"

lsp_text lsp_text_of(const lsp_document *d) { return (lsp_text){d->text, d->n}; }

size_t lsp_overlay(const lsp_server *s, vtb_overlay **out) {
  vtb_overlay *list = vtb_xcalloc(s->documents.n + 1, sizeof *list);
  for (size_t i = 0; i < s->documents.n; i++) {
    const lsp_document *d = s->documents.at[i];
    list[i] = (vtb_overlay){d->path, d->text, d->n};
  }
  *out = list;
  return s->documents.n;
}

static vtb_unit *load_document(lsp_server *s, const char *path, const lsp_document *d) {
  vtb_overlay *overlay;
  vtb_search search = *vtb_search_default();
  search.n_overlay = lsp_overlay(s, &overlay);
  search.overlay = overlay;
  vtb_diags quiet = {0};
  vtb_unit *u = d ? vtb_unit_load_text(path, d->text, d->n, &search, &quiet)
                  : vtb_unit_load(path, &search, &quiet);
  vtb_diags_free(&quiet);
  vtb_free(overlay);
  return u;
}

void lsp_forget(lsp_document *d) {
  vtb_symbols_free(d->symbols);
  vtb_unit_free(d->unit);
  d->symbols = NULL;
  d->unit = NULL;
}

void lsp_understand(lsp_server *s, lsp_document *d) {
  if (d->symbols) return;
  vtb_unit *u = load_document(s, d->path, d);
  if (!u) return;
  vtb_symbols *symbols = vtb_symbols_new(u);
  d->unit = u;
  d->symbols = symbols;
}

bool lsp_understand_file(lsp_server *s, const char *path, vtb_unit **unit, vtb_symbols **symbols) {
  *unit = load_document(s, path, NULL);
  *symbols = *unit ? vtb_symbols_new(*unit) : NULL;
  return *unit != NULL;
}
