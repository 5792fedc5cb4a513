/* Any bytes as .vtb text: load, print, format, instantiate. No crash, and formatting keeps the
 * meaning and is stable. */
#include "frontend/lang/lang.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* Uses are looked up nowhere, so that a text means the same everywhere. */
static const vtb_search no_folders;

static char *tree(const char *text, size_t n) {
  vtb_diags diags = {0};
  vtb_unit *u = vtb_unit_load_text("fuzz.vtb", text, n, &no_folders, &diags);
  vtb_strbuf out = {0};
  vtb_strbuf_puts(&out, "");
  if (u) vtb_unit_print_ast(u, &out);
  vtb_unit_free(u);
  vtb_diags_free(&diags);
  return out.at;
}

static void check_format(const char *text, size_t n) {
  vtb_diags diags = {0};
  vtb_source source = {.path = "fuzz.vtb", .text = text, .n = n};
  vtb_strbuf once = {0}, twice = {0};
  if (vtb_format(&source, &once, &diags)) {
    vtb_source again = {.path = "fuzz.vtb", .text = once.at ? once.at : "", .n = once.n};
    vtb_check(vtb_format(&again, &twice, &diags), "formatted text has syntax errors:\n%s", once.at);
    vtb_check(once.n == twice.n && memcmp(once.at, twice.at, once.n) == 0,
              "not stable:\n%s\n---\n%s", once.at, twice.at);
    char *before = tree(text, n), *after = tree(once.at, once.n);
    vtb_check(vtb_streq(before, after), "formatting changed the meaning:\n%s\n---\n%s", before,
              after);
    free(before);
    free(after);
  }
  vtb_strbuf_free(&once);
  vtb_strbuf_free(&twice);
  vtb_diags_free(&diags);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  char *text = vtb_xmalloc(n + 1);
  memcpy(text, data, n);
  text[n] = '\0';
  vtb_diags diags = {0};
  vtb_unit *u = vtb_unit_load_text("fuzz.vtb", text, n, &no_folders, &diags);
  if (u && diags.n_errors == 0) {
    vtb_instantiate_options options = {.taps = true};
    vtb_module_free(vtb_instantiate(u, NULL, &options, &diags));
  }
  vtb_strbuf rendered = {0};
  vtb_diags_render(&diags, &rendered, false);
  vtb_strbuf_free(&rendered);
  vtb_unit_free(u);
  vtb_diags_free(&diags);
  check_format(text, n);
  free(text);
  return 0;
}
