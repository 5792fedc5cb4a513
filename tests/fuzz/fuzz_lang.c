/* Any bytes as .vtb text: load, print, format, instantiate. No crash, and formatting keeps the meaning and is stable.
 *
 * With libFuzzer (-fsanitize=fuzzer -DVTB_LIBFUZZER) or, without it, as a program that replays the files named as
 * arguments; `--mutate N FILE...` also tries N random changes of each. */
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
  vtb_source source = {"fuzz.vtb", text, n};
  vtb_strbuf once = {0}, twice = {0};
  if (vtb_format(&source, &once, &diags)) {
    vtb_source again = {"fuzz.vtb", once.at ? once.at : "", once.n};
    vtb_check(vtb_format(&again, &twice, &diags), "formatted text has syntax errors:\n%s", once.at);
    vtb_check(once.n == twice.n && memcmp(once.at, twice.at, once.n) == 0, "not stable:\n%s\n---\n%s", once.at, twice.at);
    char *before = tree(text, n), *after = tree(once.at, once.n);
    vtb_check(vtb_streq(before, after), "formatting changed the meaning:\n%s\n---\n%s", before, after);
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

#ifndef VTB_LIBFUZZER

static uint32_t state = 1;

static uint32_t random_below(uint32_t n) {
  state = state * 1664525u + 1013904223u;
  return n ? (uint32_t)(((uint64_t)(state >> 4) * n) >> 28) : 0;
}

/* Changes some places: pieces of grammar put in, ranges removed or doubled. */
static char *mutated(const char *text, size_t n, size_t *m) {
  static const char *const pieces[] = {"(", ")", "[", "]", "{", "}", "\n", ",", "=", "~", "//c\n", "/*c*/", "\"", "+",
                                       "-", ":", "?", "if ", "else ", "param w: [3] ~ zeros", "along(rows) ", "\n\n",
                                       "\"a{", "}\"", "fn f(x: tensor) ", "x", "1", "%", ".", "repeat 2 ", "\\", "\xff"};
  vtb_strbuf out = {0};
  vtb_strbuf_write(&out, text, n);
  for (uint32_t k = 1 + random_below(4); k > 0; k--) {
    uint32_t at = random_below((uint32_t)out.n), len = random_below(12);
    if (at + len > out.n) len = (uint32_t)out.n - at;
    vtb_strbuf next = {0};
    vtb_strbuf_write(&next, out.at, at);
    uint32_t what = random_below(4);
    if (what == 1) vtb_strbuf_write(&next, out.at + at, len);
    if (what >= 2) vtb_strbuf_puts(&next, pieces[random_below(sizeof pieces / sizeof *pieces)]);
    vtb_strbuf_write(&next, out.at + at + (what == 0 ? len : 0), out.n - at - (what == 0 ? len : 0));
    vtb_strbuf_free(&out);
    out = next;
  }
  *m = out.n;
  return out.at;
}

int main(int argc, char **argv) {
  int n_mutations = 0, first = 1;
  if (argc > 2 && strcmp(argv[1], "--mutate") == 0) n_mutations = atoi(argv[2]), first = 3;
  for (int i = first; i < argc; i++) {
    char *text = NULL;
    size_t n = 0;
    vtb_error err = {0};
    if (vtb_file_read(argv[i], 1 << 24, &text, &n, &err) != VTB_OK) {
      fprintf(stderr, "%s\n", err.text);
      return VTB_E_INPUT;
    }
    LLVMFuzzerTestOneInput((const uint8_t *)text, n);
    for (int k = 0; k < n_mutations; k++) {
      size_t m = 0;
      char *other = mutated(text, n, &m);
      FILE *f = getenv("VTB_FUZZ_LAST") ? fopen(getenv("VTB_FUZZ_LAST"), "wb") : NULL; /* to find what crashed */
      if (f) {
        fwrite(other, 1, m, f);
        fclose(f);
      }
      LLVMFuzzerTestOneInput((const uint8_t *)other, m);
      free(other);
    }
    free(text);
  }
  return 0;
}

#endif
