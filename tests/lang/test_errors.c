/* Broken texts and what is said about them. Every tests/errors/NAME.vtb begins with comments:
 *
 *   // expect: VTB1101 3:9 unknown name      code, line:column ('-' for no place), part of the
 *                                            sentence; any number
 *   // note: 5:3 the other one               a note (or '-' and a help) that stands below
 *   // entry: tiny                           what to instantiate; default: the file's model
 *   // set: dim=wide                         as -D
 *   // config: dim=12                        as a field of a config
 *   // numerics                              what `check --numerics` says, too
 *
 * A note's place in another file is that file's name. Exactly the expected errors and warnings must
 * come, in any order; with an error there is no module. Files in subfolders are only used by
 * others. */
#include "frontend/lang/lang.h"
#include "ir/numerics.h"
#include "tests/test.h"

#include <dirent.h>

enum { MAX_LINES = 32 };

typedef struct expectation {
  int code;
  char place[32], text[256];
  bool seen;
} expectation;

typedef struct broken {
  expectation expected[MAX_LINES], notes[MAX_LINES];
  vtb_override overrides[MAX_LINES];
  char names[MAX_LINES][64], values[MAX_LINES][128];
  char entry[64];
  bool numerics;
  size_t n_expected, n_notes, n_overrides;
} broken;

static void add_override(broken *b, const char *line, bool from_config) {
  size_t i = b->n_overrides++;
  if (sscanf(line, "%63[^=]=%127[^\n]", b->names[i], b->values[i]) < 1) b->n_overrides--;
  b->overrides[i] =
      (vtb_override){.name = b->names[i], .value = b->values[i], .from_config = from_config};
}

static void read_header(const char *text, broken *b) {
  for (const char *at = text; at && vtb_starts_with(at, "// ");
       at = strchr(at, '\n'), at = at ? at + 1 : NULL) {
    if (b->n_expected >= MAX_LINES || b->n_notes >= MAX_LINES || b->n_overrides >= MAX_LINES)
      return;
    expectation *e = &b->expected[b->n_expected], *note = &b->notes[b->n_notes];
    if (sscanf(at, "// note: %31s %255[^\n]", note->place, note->text) == 2) b->n_notes++;
    if (sscanf(at, "// expect: VTB%d %31s %255[^\n]", &e->code, e->place, e->text) == 3)
      b->n_expected++;
    if (vtb_starts_with(at, "// entry: ")) sscanf(at, "// entry: %63s", b->entry);
    b->numerics |= vtb_starts_with(at, "// numerics\n");
    if (vtb_starts_with(at, "// set: ")) add_override(b, at + 8, false);
    if (vtb_starts_with(at, "// config: ")) add_override(b, at + 11, true);
  }
}

/* "3:9" in the broken file, "nn.vtb" in another, "-" nowhere. */
static const char *place_of(const vtb_diag *d, const char *path, char *buf, size_t n) {
  snprintf(buf, n, "-");
  if (!d->span.source) return buf;
  vtb_line_col at = vtb_source_locate(d->span.source, d->span.begin);
  const char *file = strrchr(d->span.source->path, '/');
  bool own = !file || strcmp(d->span.source->path, path) == 0 || d->severity <= VTB_SEV_WARNING;
  if (own)
    snprintf(buf, n, "%d:%d", at.line, at.col);
  else
    snprintf(buf, n, "%s", file + 1);
  return buf;
}

static void match(broken *b, const vtb_diag *d, const char *path) {
  char place[32];
  place_of(d, path, place, sizeof place);
  bool note = d->severity > VTB_SEV_WARNING;
  for (size_t i = 0; i < (note ? b->n_notes : b->n_expected); i++) {
    expectation *e = note ? &b->notes[i] : &b->expected[i];
    if (e->seen || e->code != d->code || strcmp(e->place, place) != 0 || !strstr(d->text, e->text))
      continue;
    e->seen = true;
    return;
  }
  CHECK_MSG(note, "%s: not expected: VTB%04d %s %s", path, d->code, place, d->text);
}

static void check_file(const char *path) {
  char *text = NULL;
  size_t n = 0;
  vtb_error err = {0};
  CHECK(vtb_file_read(path, 1 << 22, &text, &n, &err) == VTB_OK);
  if (!text) return;
  broken *b = calloc(1, sizeof *b);
  vtb_check(b, "no memory");
  read_header(text, b);
  CHECK_MSG(b->n_expected > 0, "%s: no expectations", path);
  vtb_diags diags = {.limit = 100};
  vtb_unit *u = vtb_unit_load(path, NULL, &diags);
  CHECK_MSG(u != NULL, "%s: not loaded", path);
  if (u && diags.n_errors == 0) {
    vtb_instantiate_options o = {
        .overrides = b->overrides, .n_overrides = b->n_overrides, .taps = true};
    vtb_module *m = vtb_instantiate(u, b->entry[0] ? b->entry : NULL, &o, &diags);
    CHECK_MSG((m == NULL) == (diags.n_errors > 0), "%s: module and errors", path);
    if (m && b->numerics) vtb_numerics_check(m, &diags);
    vtb_module_free(m);
  }
  for (size_t i = 0; i < diags.list.n; i++) match(b, &diags.list.at[i], path);
  for (size_t i = 0; i < b->n_notes; i++)
    CHECK_MSG(b->notes[i].seen, "%s: missing note: %s %s", path, b->notes[i].place,
              b->notes[i].text);
  for (size_t i = 0; i < b->n_expected; i++)
    CHECK_MSG(b->expected[i].seen, "%s: missing: VTB%04d %s %s", path, b->expected[i].code,
              b->expected[i].place, b->expected[i].text);
  vtb_strbuf rendered = {0}; /* rendering must cope with every span */
  vtb_diags_render(&diags, &rendered, false);
  CHECK(rendered.n > 0);
  vtb_strbuf_free(&rendered);
  vtb_unit_free(u);
  vtb_diags_free(&diags);
  free(text);
  free(b);
}

static int by_name(const struct dirent **a, const struct dirent **b) {
  return strcmp((*a)->d_name, (*b)->d_name);
}

TEST(every_broken_file_gets_its_messages) {
  struct dirent **entries;
  int n = scandir(VTB_SOURCE_DIR "/tests/errors", &entries, NULL, by_name), n_files = 0;
  for (int i = 0; i < n; i++) {
    char path[512];
    snprintf(path, sizeof path, "%s/tests/errors/%s", VTB_SOURCE_DIR, entries[i]->d_name);
    if (vtb_ends_with(path, ".vtb")) {
      check_file(path);
      n_files++;
    }
    free(entries[i]);
  }
  if (n >= 0) free(entries);
  CHECK_MSG(n_files >= 60, "only %d files", n_files);
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) check_file(argv[i]);
  if (argc > 1) return test_done();
  RUN(every_broken_file_gets_its_messages);
  return test_done();
}
