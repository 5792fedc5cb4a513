/* The server: documents, and who answers what.
 *
 * Each piece of work has a guard of its own, so that what goes wrong in one costs its answer and
 * nothing else. Changed texts are evaluated when the editor has nothing to say for a moment. */
#include "frontend/lsp/server.h"

#include <string.h>

enum {
  QUIET_MS = 120,
  PARSE_ERROR = -32700,
  INVALID_REQUEST = -32600,
  METHOD_NOT_FOUND = -32601,
  INVALID_PARAMS = -32602,
  INTERNAL_ERROR = -32603,
  NOT_INITIALIZED = -32002,
  REQUEST_FAILED = -32803
};

/* ---- answers --------------------------------------------------------------------------------- */

static void send(lsp_server *s, cJSON *message) {
  vtb_error err = {0};
  if (lsp_write(&s->wire, message, &err) != VTB_OK) s->wire.closed = true;
}

static cJSON *answer_to(const cJSON *id) {
  cJSON *message = cJSON_CreateObject();
  cJSON_AddStringToObject(message, "jsonrpc", "2.0");
  cJSON_AddItemToObject(message, "id", id ? cJSON_Duplicate(id, true) : cJSON_CreateNull());
  return message;
}

/* result: taken; NULL is null. */
static void reply(lsp_server *s, const cJSON *id, cJSON *result) {
  cJSON *message = answer_to(id);
  cJSON_AddItemToObject(message, "result", result ? result : cJSON_CreateNull());
  send(s, message);
}

static void refuse_request(lsp_server *s, const cJSON *id, int code, const char *text) {
  cJSON *message = answer_to(id), *error = cJSON_AddObjectToObject(message, "error");
  cJSON_AddNumberToObject(error, "code", code);
  cJSON_AddStringToObject(error, "message", text);
  send(s, message);
}

static void show(lsp_server *s, const char *text) {
  cJSON *message = cJSON_CreateObject();
  cJSON_AddStringToObject(message, "jsonrpc", "2.0");
  cJSON_AddStringToObject(message, "method", "window/logMessage");
  cJSON *params = cJSON_AddObjectToObject(message, "params");
  cJSON_AddNumberToObject(params, "type", 1);
  cJSON_AddStringToObject(params, "message", text);
  send(s, message);
}

static const char *text_at(const cJSON *object, const char *name) {
  const cJSON *x = cJSON_GetObjectItemCaseSensitive(object, name);
  return cJSON_IsString(x) ? x->valuestring : NULL;
}

static const char *uri_at(const cJSON *params) {
  return text_at(cJSON_GetObjectItemCaseSensitive(params, "textDocument"), "uri");
}

/* ---- documents ------------------------------------------------------------------------------- */

/* NULL: there is none. */
static lsp_document *find_document(lsp_server *s, const char *uri) {
  for (size_t i = 0; uri && i < s->documents.n; i++)
    if (strcmp(s->documents.at[i]->uri, uri) == 0) return s->documents.at[i];
  return NULL;
}

/* Forgets every text: what one says changes what others mean that use it. */
static void forget_all(lsp_server *s) {
  for (size_t i = 0; i < s->documents.n; i++) {
    lsp_forget(s->documents.at[i]);
    s->documents.at[i]->evaluated = false;
  }
}

/* Takes `text`. */
static void set_text(lsp_server *s, lsp_document *d, char *text, size_t n, const cJSON *document) {
  const cJSON *version = cJSON_GetObjectItemCaseSensitive(document, "version");
  forget_all(s);
  vtb_free(d->text);
  d->text = text;
  d->n = n;
  if (cJSON_IsNumber(version)) d->version = (int64_t)version->valuedouble;
}

static void open_document(lsp_server *s, const cJSON *params) {
  const cJSON *document = cJSON_GetObjectItemCaseSensitive(params, "textDocument");
  const char *uri = text_at(document, "uri"), *text = text_at(document, "text");
  if (!uri || !text) return;
  lsp_document *d = find_document(s, uri);
  if (!d) {
    d = vtb_xcalloc(1, sizeof *d);
    d->uri = vtb_xstrdup(uri);
    d->path = lsp_path_of(uri);
    vtb_vec_push(&s->documents, d);
  }
  set_text(s, d, vtb_xstrdup(text), strlen(text), document);
}

static void change_document(lsp_server *s, const cJSON *params) {
  lsp_document *d = find_document(s, uri_at(params));
  const cJSON *changes = cJSON_GetObjectItemCaseSensitive(params, "contentChanges"), *change;
  if (!d) return;
  cJSON_ArrayForEach(change, changes) {
    const char *text = text_at(change, "text");
    const cJSON *range = cJSON_GetObjectItemCaseSensitive(change, "range");
    if (!text) continue;
    lsp_text old = lsp_text_of(d);
    uint32_t begin = 0, end = (uint32_t)d->n;
    if (range) {
      begin = lsp_offset(old, cJSON_GetObjectItemCaseSensitive(range, "start"), s->encoding);
      end = lsp_offset(old, cJSON_GetObjectItemCaseSensitive(range, "end"), s->encoding);
    }
    if (end < begin) end = begin;
    vtb_strbuf out = {0};
    vtb_strbuf_write(&out, old.at, begin);
    vtb_strbuf_puts(&out, text);
    vtb_strbuf_write(&out, old.at + end, old.n - end);
    size_t n = out.n;
    set_text(s, d, out.at ? out.at : vtb_xstrdup(""), n,
             cJSON_GetObjectItemCaseSensitive(params, "textDocument"));
  }
}

static void free_document(lsp_document *d) {
  lsp_forget(d);
  lsp_clear_facts(d);
  vtb_free(d->uri);
  vtb_free(d->path);
  vtb_free(d->text);
  vtb_free(d);
}

/* Its problems are no longer shown. */
static void close_document(lsp_server *s, const cJSON *params) {
  lsp_document *d = find_document(s, uri_at(params));
  if (!d) return;
  cJSON *message = cJSON_CreateObject();
  cJSON_AddStringToObject(message, "jsonrpc", "2.0");
  cJSON_AddStringToObject(message, "method", "textDocument/publishDiagnostics");
  cJSON *none = cJSON_AddObjectToObject(message, "params");
  cJSON_AddStringToObject(none, "uri", d->uri);
  cJSON_AddArrayToObject(none, "diagnostics");
  send(s, message);
  size_t kept = 0;
  for (size_t i = 0; i < s->documents.n; i++)
    if (s->documents.at[i] != d) s->documents.at[kept++] = s->documents.at[i];
  s->documents.n = kept;
  free_document(d);
  forget_all(s);
}

/* A file on disk has changed, or was saved. */
static void files_changed(lsp_server *s, const cJSON *params) {
  (void)params;
  forget_all(s);
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static void add_root(lsp_server *s, const char *uri) {
  if (uri) vtb_vec_push(&s->roots, lsp_path_of(uri));
}

static void take_roots(lsp_server *s, const cJSON *params) {
  const cJSON *folders = cJSON_GetObjectItemCaseSensitive(params, "workspaceFolders"), *folder;
  cJSON_ArrayForEach(folder, folders) add_root(s, text_at(folder, "uri"));
  if (!s->roots.n) add_root(s, text_at(params, "rootUri"));
}

static void take_encoding(lsp_server *s, const cJSON *params) {
  const cJSON *client = cJSON_GetObjectItemCaseSensitive(params, "capabilities");
  const cJSON *general = cJSON_GetObjectItemCaseSensitive(client, "general");
  const cJSON *wishes = cJSON_GetObjectItemCaseSensitive(general, "positionEncodings"), *wish;
  s->encoding = LSP_UTF16;
  cJSON_ArrayForEach(wish, wishes) if (cJSON_IsString(wish) && strcmp(wish->valuestring, "utf-8") ==
                                                                   0) s->encoding = LSP_UTF8;
}

static cJSON *capabilities(const lsp_server *s) {
  static const char *const plain[] = {"hoverProvider",          "definitionProvider",
                                      "referencesProvider",     "documentHighlightProvider",
                                      "documentSymbolProvider", "documentFormattingProvider"};
  cJSON *all = cJSON_CreateObject();
  cJSON_AddStringToObject(all, "positionEncoding", s->encoding == LSP_UTF8 ? "utf-8" : "utf-16");
  cJSON *sync = cJSON_AddObjectToObject(all, "textDocumentSync");
  cJSON_AddBoolToObject(sync, "openClose", true);
  cJSON_AddNumberToObject(sync, "change", 2);
  cJSON_AddBoolToObject(sync, "save", true);
  for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
    cJSON_AddBoolToObject(all, plain[i], true);
  cJSON_AddBoolToObject(cJSON_AddObjectToObject(all, "renameProvider"), "prepareProvider", true);
  cJSON *completion = cJSON_AddObjectToObject(all, "completionProvider");
  cJSON *signature = cJSON_AddObjectToObject(all, "signatureHelpProvider");
  cJSON_AddItemToArray(cJSON_AddArrayToObject(completion, "triggerCharacters"),
                       cJSON_CreateString("."));
  cJSON_AddItemToArray(cJSON_AddArrayToObject(signature, "triggerCharacters"),
                       cJSON_CreateString("("));
  cJSON_AddItemToArray(cJSON_GetObjectItem(signature, "triggerCharacters"),
                       cJSON_CreateString(","));
  return all;
}

static void initialize(lsp_server *s, const cJSON *id, const cJSON *params) {
  take_roots(s, params);
  take_encoding(s, params);
  cJSON *result = cJSON_CreateObject();
  cJSON_AddItemToObject(result, "capabilities", capabilities(s));
  cJSON *info = cJSON_AddObjectToObject(result, "serverInfo");
  cJSON_AddStringToObject(info, "name", "vertebra");
  cJSON_AddStringToObject(info, "version", VTB_VERSION);
  s->initialized = true;
  reply(s, id, result);
}

/* ---- who answers ----------------------------------------------------------------------------- */

static const struct {
  const char *method;
  lsp_request_fn run;
} requests[] = {{"textDocument/hover", lsp_hover},
                {"textDocument/signatureHelp", lsp_signature_help},
                {"textDocument/completion", lsp_completion},
                {"textDocument/definition", lsp_definition},
                {"textDocument/references", lsp_references},
                {"textDocument/documentHighlight", lsp_highlight},
                {"textDocument/prepareRename", lsp_prepare_rename},
                {"textDocument/rename", lsp_rename},
                {"textDocument/documentSymbol", lsp_outline},
                {"textDocument/formatting", lsp_formatting}};

static const struct {
  const char *method;
  void (*run)(lsp_server *s, const cJSON *params);
} notifications[] = {{"textDocument/didOpen", open_document},
                     {"textDocument/didChange", change_document},
                     {"textDocument/didClose", close_document},
                     {"textDocument/didSave", files_changed},
                     {"workspace/didChangeWatchedFiles", files_changed}};

typedef struct work {
  lsp_server *s;
  lsp_document *d;
  const cJSON *params;
  lsp_request_fn request;
  void (*notification)(lsp_server *s, const cJSON *params);
  cJSON *result;
} work;

static vtb_status understand_work(void *arg, vtb_error *err) {
  work *w = arg;
  (void)err;
  lsp_understand(w->s, w->d);
  return VTB_OK;
}

static vtb_status evaluate_work(void *arg, vtb_error *err) {
  work *w = arg;
  (void)err;
  lsp_evaluate(w->s, w->d);
  return VTB_OK;
}

static vtb_status request_work(void *arg, vtb_error *err) {
  work *w = arg;
  w->result = w->request(w->s, w->d, w->params, err);
  return err->status;
}

static vtb_status notification_work(void *arg, vtb_error *err) {
  work *w = arg;
  (void)err;
  w->notification(w->s, w->params);
  return VTB_OK;
}

static void run_request(lsp_server *s, const cJSON *id, lsp_request_fn request,
                        const cJSON *params) {
  work w = {.s = s, .d = find_document(s, uri_at(params)), .params = params};
  vtb_error err = {0};
  w.request = request;
  if (!w.d) {
    refuse_request(s, id, INVALID_PARAMS, "the text is not open");
    return;
  }
  vtb_status status = vtb_guard(understand_work, &w, &err);
  if (status == VTB_OK) status = vtb_guard(request_work, &w, &err);
  if (status == VTB_OK)
    reply(s, id, w.result);
  else
    refuse_request(s, id, status == VTB_E_INPUT ? REQUEST_FAILED : INTERNAL_ERROR, err.text);
}

static void run_notification(lsp_server *s, const char *method, const cJSON *params) {
  if (strcmp(method, "exit") == 0) s->exited = true;
  for (size_t i = 0; i < sizeof notifications / sizeof *notifications; i++) {
    if (strcmp(method, notifications[i].method) != 0) continue;
    work w = {.s = s, .params = params, .notification = notifications[i].run};
    vtb_error err = {0};
    if (vtb_guard(notification_work, &w, &err) != VTB_OK) show(s, err.text);
  }
}

static void dispatch(lsp_server *s, const cJSON *message) {
  const cJSON *id = cJSON_GetObjectItemCaseSensitive(message, "id");
  const cJSON *params = cJSON_GetObjectItemCaseSensitive(message, "params");
  const char *method = text_at(message, "method");
  if (!method) {
    bool is_answer = cJSON_IsObject(message) && id;
    if (!is_answer)
      refuse_request(s, NULL, cJSON_IsObject(message) ? INVALID_REQUEST : PARSE_ERROR,
                     "a message is an object with a method");
  } else if (!id) {
    run_notification(s, method, params);
  } else if (strcmp(method, "initialize") == 0) {
    initialize(s, id, params);
  } else if (!s->initialized) {
    refuse_request(s, id, NOT_INITIALIZED, "initialize comes first");
  } else if (s->shut_down) {
    refuse_request(s, id, INVALID_REQUEST, "the server was shut down");
  } else if (strcmp(method, "shutdown") == 0) {
    s->shut_down = true;
    reply(s, id, NULL);
  } else {
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++)
      if (strcmp(method, requests[i].method) == 0) {
        run_request(s, id, requests[i].run, params);
        return;
      }
    refuse_request(s, id, METHOD_NOT_FOUND, "the server does not know this method");
  }
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* The first text that waits for it. What a failure leaves of its facts belongs to the guard. */
static void evaluate_next(lsp_server *s) {
  for (size_t i = 0; i < s->documents.n; i++) {
    work w = {.s = s, .d = s->documents.at[i]};
    vtb_error err = {0};
    if (w.d->evaluated) continue;
    lsp_clear_facts(w.d);
    w.d->evaluated = true;
    if (vtb_guard(understand_work, &w, &err) == VTB_OK &&
        vtb_guard(evaluate_work, &w, &err) == VTB_OK)
      return;
    memset(&w.d->facts, 0, sizeof w.d->facts);
    w.d->fact_at = (vtb_map){0};
    show(s, err.text);
    return;
  }
}

static bool any_waits(const lsp_server *s) {
  for (size_t i = 0; i < s->documents.n; i++)
    if (!s->documents.at[i]->evaluated) return true;
  return false;
}

static void end(void *server) {
  lsp_server *s = server;
  for (size_t i = 0; i < s->documents.n; i++) free_document(s->documents.at[i]);
  for (size_t i = 0; i < s->roots.n; i++) vtb_free(s->roots.at[i]);
  vtb_vec_free(&s->documents);
  vtb_vec_free(&s->roots);
  vtb_free(s->wire.bytes);
}

vtb_status vtb_lsp_serve(const vtb_lsp_options *o, vtb_error *err) {
  lsp_server s = {.wire = {.in = o->in, .out = o->out, .log = o->log},
                  .evaluate_s = o->evaluate_s > 0 ? o->evaluate_s : 1};
  vtb_error own = {0};
  vtb_status status = VTB_OK;
  while (status == VTB_OK && !s.exited && !s.wire.closed) {
    bool waited;
    cJSON *message;
    status = lsp_read(&s.wire, any_waits(&s) ? QUIET_MS : -1, &waited, &message, &own);
    if (status == VTB_OK && waited) evaluate_next(&s);
    if (message) dispatch(&s, message);
    cJSON_Delete(message);
  }
  end(&s);
  if (status == VTB_OK && !s.shut_down)
    status = vtb_fail(&own, VTB_E_INPUT, "the editor went without a shutdown");
  if (status != VTB_OK) vtb_fail(err, status, "%s", own.text);
  return status;
}
