/* The words that leave the command: errors for people on stderr and, with --json, one document on
 * stdout. */
#include "frontend/cli/cli.h"
#include "runtime/base/utf8.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

static struct {
  bool json, without;
  cJSON *documents, *errors; /* arrays; NULL: none */
  cJSON *notes;              /* an object; NULL: none */
} output;

void cli_begin(int argc, char **argv) {
  for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
    output.json |= strcmp(argv[i], "--json") == 0;
}

bool cli_json(void) { return output.json; }

/* ---- documents ------------------------------------------------------------------------------- */

static void collect_item(cJSON **list, cJSON *item) {
  if (!*list) *list = cJSON_CreateArray();
  cJSON_AddItemToArray(*list, item);
}

static void write_json(cJSON *json) {
  char *text = cJSON_Print(json);
  puts(text ? text : "{}");
  cJSON_free(text);
}

void cli_print_json(cJSON *json) { collect_item(&output.documents, json); }

static void print(vtb_strbuf *text) {
  cli_progress_clear();
  fputs(vtb_strbuf_text(text), stdout);
  vtb_strbuf_free(text);
}

void cli_tell_so_far(doc *d) {
  vtb_strbuf text = {0};
  if (!cli_json()) doc_put_text(d, cli_columns(stdout), &text);
  print(&text);
  fflush(stdout);
  d->parts.n = 0;
}

void cli_tell(doc *d) {
  cli_tell_so_far(d);
  if (cli_json()) {
    cli_print_json(d->json);
    d->json = NULL;
  }
  doc_free(d);
}

void cli_tell_markdown(doc *d) {
  vtb_strbuf text = {0};
  if (!cli_json()) doc_put_markdown(d, &text);
  print(&text);
  d->parts.n = 0;
  cli_tell(d);
}

void cli_note_json(const char *name, cJSON *json) {
  if (!output.notes) output.notes = cJSON_CreateObject();
  cJSON_DeleteItemFromObjectCaseSensitive(output.notes, name);
  cJSON_AddItemToObject(output.notes, name, json);
}

static void add_notes(cJSON *to) {
  while (output.notes && output.notes->child) {
    cJSON *note = cJSON_DetachItemViaPointer(output.notes, output.notes->child);
    cJSON_AddItemToObject(to, note->string, note);
  }
}

void cli_print_text(const char *name, const char *what, const char *text) {
  if (!cli_json()) {
    fputs(text, stdout);
    return;
  }
  cJSON *out = cJSON_CreateObject();
  cJSON_AddStringToObject(out, name, what);
  cJSON_AddStringToObject(out, "text", text);
  cli_print_json(out);
}

/* The code of errors that are no diagnostics. */
static const char *status_name(vtb_status status) {
  if ((int)status > 128) return "interrupted";
  switch (status) {
  case VTB_OK:
    return "ok";
  case VTB_E_USAGE:
    return "usage";
  case VTB_E_MEMORY:
    return "memory";
  case VTB_E_DEVICE:
    return "device";
  case VTB_E_NUMBERS:
    return "numbers";
  case VTB_E_INTERNAL:
    return "internal";
  default:
    return "input";
  }
}

/* Strings of a document are UTF-8; what is not, or acts on a terminal, is shown as \x1b. */
static void add_text(cJSON *to, const char *name, const char *text) {
  vtb_strbuf visible = VTB_CHECKED_STRBUF;
  vtb_text_visible(&visible, text, strlen(text));
  cJSON_AddStringToObject(to, name, visible.failed ? "" : vtb_strbuf_text(&visible));
  vtb_strbuf_free(&visible);
}

static cJSON *add_error(const char *code, const char *message) {
  cJSON *e = cJSON_CreateObject();
  cJSON_AddStringToObject(e, "code", code);
  add_text(e, "message", message);
  collect_item(&output.errors, e);
  return e;
}

static void add_place(cJSON *to, const vtb_text_range *at) {
  if (!at->file) return;
  add_text(to, "file", at->file);
  cJSON_AddNumberToObject(to, "line", at->line);
  cJSON_AddNumberToObject(to, "column", at->column);
}

static void add_diagnostic(const vtb_diagnostic *d) {
  char code[16] = "input";
  if (d->code) snprintf(code, sizeof code, "VTB%04d", d->code);
  cJSON *e = add_error(code, d->text);
  add_place(e, &d->at);
  cJSON *notes = cJSON_AddArrayToObject(e, "notes");
  for (size_t i = 0; i < d->n_notes; i++) {
    cJSON *note = cJSON_CreateObject();
    add_text(note, "message", d->notes[i].text);
    add_place(note, &d->notes[i].at);
    cJSON_AddItemToArray(notes, note);
  }
  if (d->help) add_text(e, "help", d->help);
}

void cli_add_diagnostics(vtb_report *r) {
  const vtb_diagnostic *list;
  size_t n = output.json ? vtb_report_diagnostics(r, &list) : 0;
  for (size_t i = 0; i < n; i++)
    if (list[i].is_error) add_diagnostic(&list[i]);
}

vtb_status cli_diagnostics(vtb_diags *diags) {
  vtb_report *r = vtb_need(vtb_report_new());
  vtb__report_take(r, diags);
  char *text = vtb_report_text(r, vtb_color_enabled(stderr));
  cli_progress_clear();
  if (text) cli_print_wrapped(stderr, text);
  cli_add_diagnostics(r);
  vtb_free(text);
  vtb_report_free(r);
  return VTB_E_INPUT;
}

/* {"error": {...}}, the first that was said, with the others behind it and what was found before
 * it. */
static void write_errors(int status) {
  cJSON *all = cJSON_CreateObject(), *first = cJSON_DetachItemFromArray(output.errors, 0);
  cJSON_AddItemToObject(all, "error", first);
  if (!cJSON_GetObjectItem(first, "notes")) cJSON_AddArrayToObject(first, "notes");
  cJSON_AddNumberToObject(all, "status", status);
  if (cJSON_GetArraySize(output.errors)) {
    cJSON_AddItemToObject(all, "more", output.errors);
    output.errors = NULL;
  }
  if (output.documents) {
    cJSON_AddItemToObject(all, "results", output.documents);
    output.documents = NULL;
  }
  add_notes(all);
  write_json(all);
  cJSON_Delete(all);
}

static void write_documents(void) {
  cJSON *one = cJSON_GetArraySize(output.documents) == 1 ? cJSON_GetArrayItem(output.documents, 0)
                                                         : output.documents;
  if (cJSON_IsObject(one)) add_notes(one);
  write_json(one);
}

/* Results of commands that have none but their status. */
static void write_nothing(int status) {
  if (status) {
    add_error(status_name((vtb_status)status),
              status > 128 ? "a signal ended the command"
                           : "the command failed; its messages are on stderr");
    write_errors(status);
  } else {
    puts("{}");
  }
}

void cli_without_document(void) { output.without = true; }

int cli_end(int status) {
  if (output.without)
    ; /* another process writes it */
  else if (output.errors && status)
    write_errors(status);
  else if (output.documents)
    write_documents();
  else if (output.json)
    write_nothing(status);
  cJSON_Delete(output.errors);
  cJSON_Delete(output.documents);
  cJSON_Delete(output.notes);
  if (fflush(stdout) == 0 && !ferror(stdout)) return status;
  fprintf(stderr, "vertebra: cannot write the output: %s\n", strerror(errno));
  return status ? status : VTB_E_INPUT;
}

/* ---- messages -------------------------------------------------------------------------------- */

/* A message may have lines; what acts on a terminal in names that it quotes is shown instead. */
static void say(const char *before, const char *message) {
  vtb_strbuf text = VTB_CHECKED_STRBUF;
  vtb_strbuf_puts(&text, before);
  vtb_lines_visible(&text, message);
  vtb_strbuf_putc(&text, '\n');
  if (text.failed)
    fprintf(stderr, "%s\n", message);
  else
    cli_print_wrapped(stderr, text.at);
  vtb_strbuf_free(&text);
}

vtb_status cli_error(const vtb_error *err) {
  const char *what = err->text[0] ? err->text : "failed without a message";
  vtb_status status = err->status ? err->status : VTB_E_INTERNAL;
  cli_progress_clear();
  if (output.json) add_error(status_name(status), what);
  if (status == VTB_E_MEMORY || status == VTB_E_INTERNAL) /* perhaps outside of the guard */
    fprintf(stderr, "vertebra: %s\n", what);
  else
    say("vertebra: ", what);
  return status;
}

vtb_status cli_usage_error(const char *command, const char *fmt, ...) {
  char message[1024], name[64];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(message, sizeof message, fmt, ap);
  va_end(ap);
  snprintf(name, sizeof name, "vertebra%s%s", *command ? " " : "", command);
  vtb_strbuf text = {0};
  vtb_strbuf_printf(&text, "%s\ntry: %s --help", message, name);
  vtb_strbuf before = {0};
  vtb_strbuf_printf(&before, "%s: ", name);
  if (output.json) add_error("usage", message);
  say(before.at, text.at);
  vtb_strbuf_free(&before);
  vtb_strbuf_free(&text);
  return VTB_E_USAGE;
}

vtb_status cli_unknown_command(const char *name) {
  const char *near = cli_command_near(name);
  if (near) return cli_usage_error("", "unknown command '%s'; did you mean '%s'?", name, near);
  return cli_usage_error("", "unknown command '%s'; `vertebra help` lists the commands", name);
}
