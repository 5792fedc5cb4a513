/* The catalogue of diagnostics: numbers are in order, every example gives its error, and
 * docs/errors.md is what the catalogue says. VTB_UPDATE=1 writes docs/errors.md anew. */
#include "frontend/lang/ast.h"
#include "tests/test.h"

TEST(numbers_ascend_and_every_column_is_filled) {
  size_t n;
  const vtb_diag_code *codes = vtb_diag_codes(&n);
  CHECK(n > 100);
  for (size_t i = 0; i < n; i++) {
    const vtb_diag_code *c = &codes[i];
    CHECK_MSG(i == 0 || codes[i - 1].number < c->number, "VTB%d is out of order", c->number);
    CHECK_MSG(*c->title && *c->explanation && *c->example && *c->remedy,
              "VTB%d has an empty column", c->number);
    CHECK_MSG(vtb_diag_code_find(c->number) == c, "VTB%d is not found", c->number);
  }
  CHECK(vtb_diag_code_find(999) == NULL);
}

/* A constant gets a model that reads it. */
static char *complete(int code, const char *example) {
  vtb_strbuf text = {0};
  vtb_strbuf_puts(&text, example);
  if (code >= 1115 && vtb_starts_with(example, "const a = "))
    vtb_strbuf_puts(&text,
                    "model example() {\n  input x: image[3]\n  let value = a\n  output y = x\n}\n");
  return text.at;
}

static vtb_module *instantiate_last(vtb_unit *u, vtb_diags *diags) {
  const vtb_file *f = u->files.at[0];
  if (!f->decls.n) return NULL;
  const vtb_decl *d = f->decls.at[f->decls.n - 1];
  const int64_t dims[] = {2, 4, 8};
  vtb_shape_binding inputs[8];
  vtb_instantiate_options o = {.taps = true, .inputs = inputs};
  bool whole = d->kind == VTB_DECL_MODEL || d->kind == VTB_DECL_PRESET;
  for (size_t i = 0; !whole && i < d->params.n && i < 8; i++)
    inputs[o.n_inputs++] =
        (vtb_shape_binding){d->params.at[i]->name.text, vtb_type_make(VTB_F32, 3, dims)};
  return vtb_instantiate(u, d->kind == VTB_DECL_CONST ? NULL : d->name.text, &o, diags);
}

TEST(every_example_gives_its_error) {
  size_t n;
  const vtb_diag_code *codes = vtb_diag_codes(&n);
  int n_tried = 0;
  for (size_t i = 0; i < n && codes[i].number < 2000; i++) {
    if (*codes[i].example == '(') continue; /* in words */
    char *text = complete(codes[i].number, codes[i].example);
    vtb_diags diags = {0};
    vtb_unit *u = vtb_unit_load_text("example.vtb", text, strlen(text), NULL, &diags);
    if (u && diags.n_errors == 0) vtb_module_free(instantiate_last(u, &diags));
    bool found = false;
    for (size_t k = 0; k < diags.list.n; k++)
      found = found || diags.list.at[k].code == codes[i].number;
    CHECK_MSG(found, "VTB%d is not reported, but %d: %s, for\n%s", codes[i].number,
              diags.list.n ? diags.list.at[0].code : 0,
              diags.list.n ? diags.list.at[0].text : "nothing", text);
    n_tried++;
    vtb_unit_free(u);
    vtb_diags_free(&diags);
    free(text);
  }
  CHECK(n_tried > 80);
}

static const char *chapter(int number) {
  if (number < 1100) return "Characters and grammar";
  if (number < 1200) return "Names, uses, arguments";
  if (number < 1300) return "Compile-time values";
  if (number < 1400) return "Shapes, axes, token layout";
  if (number < 1500) return "Recurrences in the language";
  if (number < 1600) return "Overrides, configs, entries";
  if (number < 2100) return "Shape rules of the intermediate representation";
  if (number < 2200) return "Text of the intermediate representation";
  return "Analysis of recurrences";
}

/* Codes as `VTB1101`; an example in words stands in a sentence, others in a fence. */
static char *index_of_errors(void) {
  size_t n;
  const vtb_diag_code *codes = vtb_diag_codes(&n);
  vtb_strbuf out = {0};
  vtb_strbuf_puts(&out, "# Errors and warnings\n\nEvery message has a code; `vertebra explain "
                        "VTB1101` prints the section "
                        "of one. This file is made from\n`ir/diag_codes.def` (`VTB_UPDATE=1 ctest "
                        "-R lang/codes`).\n");
  const char *last = "";
  for (size_t i = 0; i < n; i++) {
    const vtb_diag_code *c = &codes[i];
    if (strcmp(last, chapter(c->number)) != 0)
      vtb_strbuf_printf(&out, "\n## %s\n", last = chapter(c->number));
    vtb_strbuf_printf(&out, "\n### VTB%04d %s\n\n%s\n\n", c->number, c->title, c->explanation);
    size_t length = strlen(c->example);
    while (length && c->example[length - 1] == '\n') length--;
    if (*c->example == '(')
      vtb_strbuf_printf(&out, "Example: %.*s.\n\n", (int)length - 2, c->example + 1);
    else
      vtb_strbuf_printf(&out, "```\n%.*s\n```\n\n", (int)length, c->example);
    vtb_strbuf_printf(&out, "%s\n", c->remedy);
  }
  return out.at;
}

TEST(the_document_is_up_to_date) {
  const char *path = VTB_SOURCE_DIR "/docs/errors.md";
  char *want = index_of_errors(), *got = NULL;
  size_t n = 0;
  vtb_error err = {0};
  if (getenv("VTB_UPDATE")) CHECK(vtb_file_write_atomic(path, want, strlen(want), &err) == VTB_OK);
  CHECK_MSG(vtb_file_read(path, 1 << 22, &got, &n, &err) == VTB_OK, "%s", err.text);
  CHECK_MSG(got && strcmp(got, want) == 0,
            "docs/errors.md differs from ir/diag_codes.def; run with VTB_UPDATE=1");
  free(got);
  free(want);
}

int main(void) {
  RUN(numbers_ascend_and_every_column_is_filled);
  RUN(every_example_gives_its_error);
  RUN(the_document_is_up_to_date);
  return test_done();
}
