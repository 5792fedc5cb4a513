/* An editor for tests: the server runs in a thread, messages pass through pipes. */
#ifndef VTB_TESTS_LSP_CLIENT_H
#define VTB_TESTS_LSP_CLIENT_H

#include "frontend/lsp/lsp.h"
#include "tests/test.h"

#include <cjson/cJSON.h>
#include <pthread.h>
#include <unistd.h>

typedef struct client {
  int to[2], from[2];
  pthread_t thread;
  vtb_status status; /* of the server, when it has ended */
  vtb_error err;
  int last_id;
  cJSON *problems; /* of the last publishDiagnostics */
} client;

static vtb_status client_serve(void *arg, vtb_error *err) {
  client *c = arg;
  vtb_lsp_options o = {.in = c->to[0], .out = c->from[1], .evaluate_s = 5};
  return vtb_lsp_serve(&o, err);
}

static void *client_thread(void *arg) {
  client *c = arg;
  c->status = vtb_guard(client_serve, c, &c->err);
  close(c->from[1]);
  return NULL;
}

static void client_start(client *c) {
  *c = (client){0};
  CHECK(pipe(c->to) == 0 && pipe(c->from) == 0);
  CHECK(pthread_create(&c->thread, NULL, client_thread, c) == 0);
}

/* Closes the editor's end. */
static vtb_status client_end(client *c) {
  close(c->to[1]);
  pthread_join(c->thread, NULL);
  close(c->to[0]);
  close(c->from[0]);
  cJSON_Delete(c->problems);
  c->problems = NULL;
  return c->status;
}

static void client_send_text(client *c, const char *text) {
  char head[64];
  int n = snprintf(head, sizeof head, "Content-Length: %zu\r\n\r\n", strlen(text));
  CHECK(write(c->to[1], head, (size_t)n) == n);
  for (size_t at = 0, all = strlen(text); at < all;) {
    ssize_t k = write(c->to[1], text + at, all - at);
    CHECK(k > 0);
    if (k <= 0) return;
    at += (size_t)k;
  }
}

/* Takes params. id 0: a notification. */
static void client_send(client *c, int id, const char *method, cJSON *params) {
  cJSON *m = cJSON_CreateObject();
  cJSON_AddStringToObject(m, "jsonrpc", "2.0");
  if (id) cJSON_AddNumberToObject(m, "id", id);
  cJSON_AddStringToObject(m, "method", method);
  if (params) cJSON_AddItemToObject(m, "params", params);
  char *text = cJSON_PrintUnformatted(m);
  client_send_text(c, text);
  cJSON_free(text);
  cJSON_Delete(m);
}

static cJSON *client_receive(client *c) {
  char head[128] = "";
  size_t n = 0;
  while (n + 1 < sizeof head && !strstr(head, "\r\n\r\n"))
    if (read(c->from[0], head + n, 1) == 1)
      head[++n] = '\0';
    else
      return NULL;
  size_t length = strtoul(head + strlen("Content-Length: "), NULL, 10), at = 0;
  char *text = calloc(length + 1, 1);
  for (ssize_t k; at < length && (k = read(c->from[0], text + at, length - at)) > 0;)
    at += (size_t)k;
  cJSON *m = cJSON_ParseWithLength(text, length);
  CHECK_MSG(m != NULL, "no JSON: %s", text);
  free(text);
  return m;
}

static const char *client_string(const cJSON *o, const char *name) {
  const cJSON *x = cJSON_GetObjectItem(o, name);
  return cJSON_IsString(x) ? x->valuestring : "";
}

/* The next message that is no diagnostics; those are kept. wanted: or the first of them. */
static cJSON *client_next(client *c, bool diagnostics) {
  for (cJSON *m; (m = client_receive(c));) {
    if (strcmp(client_string(m, "method"), "textDocument/publishDiagnostics") != 0) return m;
    cJSON_Delete(c->problems);
    c->problems =
        cJSON_Duplicate(cJSON_GetObjectItem(cJSON_GetObjectItem(m, "params"), "diagnostics"), true);
    cJSON_Delete(m);
    if (diagnostics) return NULL;
  }
  return NULL;
}

/* The whole answer, for cJSON_Delete(). Takes params. */
static cJSON *client_ask(client *c, const char *method, cJSON *params) {
  client_send(c, ++c->last_id, method, params);
  cJSON *m = client_next(c, false);
  CHECK_MSG(m && cJSON_GetNumberValue(cJSON_GetObjectItem(m, "id")) == c->last_id,
            "%s has no answer", method);
  return m;
}

/* The problems once the texts have been evaluated; the client's. */
static const cJSON *client_problems(client *c) {
  cJSON_Delete(client_next(c, true));
  return c->problems;
}

static void client_initialize(client *c, const char *folder, const char *encoding) {
  cJSON *params = cJSON_CreateObject(), *list = cJSON_CreateArray();
  char uri[512];
  snprintf(uri, sizeof uri, "file://%s", folder ? folder : "/nowhere");
  cJSON_AddStringToObject(params, "rootUri", uri);
  cJSON_AddItemToArray(list, cJSON_CreateString(encoding));
  cJSON_AddItemToObject(
      cJSON_AddObjectToObject(cJSON_AddObjectToObject(params, "capabilities"), "general"),
      "positionEncodings", list);
  cJSON *m = client_ask(c, "initialize", params);
  CHECK(cJSON_IsObject(cJSON_GetObjectItem(m, "result")));
  cJSON_Delete(m);
  client_send(c, 0, "initialized", cJSON_CreateObject());
}

static void client_open(client *c, const char *uri, const char *text) {
  cJSON *params = cJSON_CreateObject(), *d = cJSON_AddObjectToObject(params, "textDocument");
  cJSON_AddStringToObject(d, "uri", uri);
  cJSON_AddStringToObject(d, "languageId", "vertebra");
  cJSON_AddNumberToObject(d, "version", 1);
  cJSON_AddStringToObject(d, "text", text);
  client_send(c, 0, "textDocument/didOpen", params);
}

/* {textDocument, position} of the n-th `what` in the text, `skip` bytes behind its begin; columns
 * are bytes, as long as the line is ASCII. */
static cJSON *client_at(const char *uri, const char *text, const char *what, int n, int skip) {
  const char *at = text;
  for (int i = 0; i <= n && at; i++) at = strstr(i ? at + 1 : at, what);
  CHECK_MSG(at != NULL, "'%s' is not in the text", what);
  int line = 0, column = 0;
  for (const char *k = text; at && k < at + skip; k++)
    if (*k == '\n')
      line++, column = 0;
    else
      column++;
  cJSON *params = cJSON_CreateObject();
  cJSON_AddStringToObject(cJSON_AddObjectToObject(params, "textDocument"), "uri", uri);
  cJSON *p = cJSON_AddObjectToObject(params, "position");
  cJSON_AddNumberToObject(p, "line", line);
  cJSON_AddNumberToObject(p, "character", column);
  return params;
}

static int client_range(const cJSON *range, const char *end, const char *part) {
  return (int)cJSON_GetNumberValue(cJSON_GetObjectItem(cJSON_GetObjectItem(range, end), part));
}

#endif
