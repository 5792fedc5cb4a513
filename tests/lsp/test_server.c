/* The language server, spoken to as an editor does. */
#include "frontend/lang/symbols.h"
#include "tests/lsp/client.h"

#include <sys/stat.h>

#define URI "file:///tmp/vertebra-lsp-test/model.vtb"

static const char model[] = "use std.nn\n"                                                  /* 0 */
                            "\n"                                                            /* 1 */
                            "// A perceptron beside the tokens.\n"                          /* 2 */
                            "block perceptron(x: tokens, ratio: int = 4) {\n"               /* 3 */
                            "  hidden = linear(\"fc1\", x, ratio * x.dim)\n"                /* 4 */
                            "  linear(\"fc2\", gelu(hidden), x.dim)\n"                      /* 5 */
                            "}\n"                                                           /* 6 */
                            "\n"                                                            /* 7 */
                            "model mine(width: int = 32) {\n"                               /* 8 */
                            "  input image: image[3, 32, 32]\n"                             /* 9 */
                            "  x = patch_embed(\"stem\", image, width, 8x8)\n"              /* 10 */
                            "  y = along(rows~) { x + perceptron(x, ratio = 2) }\n"         /* 11 */
                            "  output logits = linear(\"head\", mean(y, \"tokens\"), 10)\n" /* 12 */
                            "}\n"                                                           /* 13 */
                            "paper mine = \"2010.11929\"\n";                                /* 14 */

static void text_is_sound(client *c, const char *text) {
  client_open(c, URI, text);
  const cJSON *problems = client_problems(c);
  char *shown = cJSON_Print(problems);
  CHECK_MSG(cJSON_GetArraySize(problems) == 0, "%s", shown);
  cJSON_free(shown);
}

/* result.contents.value of a hover holds the words. */
static void hover_says(client *c, cJSON *params, const char *words) {
  cJSON *m = client_ask(c, "textDocument/hover", params);
  const cJSON *contents = cJSON_GetObjectItem(cJSON_GetObjectItem(m, "result"), "contents");
  CHECK_MSG(strstr(client_string(contents, "value"), words), "'%s' is not in '%s'", words,
            client_string(contents, "value"));
  cJSON_Delete(m);
}

TEST(hover_tells_shapes_layouts_orders_and_signatures) {
  client c;
  client_start(&c);
  client_initialize(&c, NULL, "utf-16");
  text_is_sound(&c, model);
  hover_says(&c, client_at(URI, model, "x = patch", 0, 0),
             "tokens f32[B, N=16, C=32] of a grid 4x4");
  hover_says(&c, client_at(URI, model, "x + perc", 0, 0), "N=16, C=32");
  hover_says(&c, client_at(URI, model, "hidden", 1, 2), "C=64] of a grid 4x4, along rows~");
  hover_says(&c, client_at(URI, model, "perceptron(x, r", 0, 3), "A perceptron beside the tokens.");
  hover_says(&c, client_at(URI, model, "perceptron(x, r", 0, 3), "ratio: int = 4");
  hover_says(&c, client_at(URI, model, "ratio = 2", 0, 1), "the int 2");
  hover_says(&c, client_at(URI, model, "linear(\"head", 0, 1), "declared in std/nn.vtb");
  hover_says(&c, client_at(URI, model, "gelu", 0, 1), "a function of the language");
  hover_says(&c, client_at(URI, model, "gelu", 0, 1), "gelu(x: value)");
  hover_says(&c, client_at(URI, model, "mean(y", 0, 1), "mean(x: tensor, axis: string = none)");
  cJSON_Delete(client_ask(&c, "shutdown", NULL));
  client_send(&c, 0, "exit", NULL);
  CHECK(client_end(&c) == VTB_OK);
}

TEST(definitions_are_found_across_use) {
  client c;
  client_start(&c);
  client_initialize(&c, NULL, "utf-16");
  text_is_sound(&c, model);
  cJSON *m = client_ask(&c, "textDocument/definition", client_at(URI, model, "linear(\"fc1", 0, 2));
  const cJSON *place = cJSON_GetObjectItem(m, "result");
  CHECK(strstr(client_string(place, "uri"), "/std/nn.vtb"));
  cJSON_Delete(m);
  m = client_ask(&c, "textDocument/definition", client_at(URI, model, "ratio = 2", 0, 0));
  const cJSON *range = cJSON_GetObjectItem(cJSON_GetObjectItem(m, "result"), "range");
  CHECK(client_range(range, "start", "line") == 3 &&
        client_range(range, "start", "character") == 28);
  cJSON_Delete(m);
  m = client_ask(&c, "textDocument/definition", client_at(URI, model, "paper mine", 0, 7));
  range = cJSON_GetObjectItem(cJSON_GetObjectItem(m, "result"), "range");
  CHECK(client_range(range, "start", "character") == 6);
  cJSON_Delete(m);
  m = client_ask(&c, "textDocument/definition", client_at(URI, model, "std.nn", 0, 5));
  CHECK(strstr(client_string(cJSON_GetObjectItem(m, "result"), "uri"), "/std/nn.vtb"));
  cJSON_Delete(m);
  CHECK(client_end(&c) == VTB_E_INPUT); /* without a shutdown */
}

TEST(problems_stand_where_the_editor_counts) {
  static const char wrong[] =
      "use std.nn\nmodel m() {\n  input image: image[3, 8, 8]\n"
      "  /* \xc3\xa9\xf0\x9f\x98\x80 */ output y = linera(\"a\", image, 2)\n}\n";
  for (int utf8 = 0; utf8 < 2; utf8++) {
    client c;
    client_start(&c);
    client_initialize(&c, NULL, utf8 ? "utf-8" : "utf-16");
    client_open(&c, URI, wrong);
    const cJSON *problem = cJSON_GetArrayItem(client_problems(&c), 0);
    const cJSON *range = cJSON_GetObjectItem(problem, "range");
    CHECK_STR(client_string(problem, "code"), "VTB1101");
    CHECK(strstr(client_string(problem, "message"), "linera") &&
          strstr(client_string(problem, "message"), "did you mean 'linear'"));
    CHECK(client_range(range, "start", "line") == 3);
    CHECK(client_range(range, "start", "character") == (utf8 ? 26 : 23));
    CHECK(client_range(range, "end", "character") - client_range(range, "start", "character") == 6);
    client_end(&c);
  }
}

/* A change of a range, then the text is as if it had been opened so. */
TEST(texts_change_piece_by_piece) {
  client c;
  client_start(&c);
  client_initialize(&c, NULL, "utf-16");
  text_is_sound(&c, model);
  cJSON *params = client_at(URI, model, "image, width", 0, 0);
  cJSON *change = cJSON_CreateObject(), *range = cJSON_AddObjectToObject(change, "range");
  cJSON_AddItemToObject(range, "start", cJSON_DetachItemFromObject(params, "position"));
  cJSON *end = client_at(URI, model, "image, width", 0, 5);
  cJSON_AddItemToObject(range, "end", cJSON_DetachItemFromObject(end, "position"));
  cJSON_Delete(end);
  cJSON_AddStringToObject(change, "text", "imgae");
  cJSON_AddItemToArray(cJSON_AddArrayToObject(params, "contentChanges"), change);
  client_send(&c, 0, "textDocument/didChange", params);
  const cJSON *problems = client_problems(&c);
  CHECK(cJSON_GetArraySize(problems) == 1);
  CHECK(strstr(client_string(cJSON_GetArrayItem(problems, 0), "message"), "imgae"));
  client_end(&c);
}

/* Every member that completion offers is one of something. */
TEST(members_are_those_of_the_language) {
  static const char *const of[] = {"x.%s", "8x8.%s", "rows.%s"};
  for (size_t i = 0; vtb_members[i]; i++) {
    bool known = false;
    for (int k = 0; k < 3 && !known; k++) {
      char text[256], value[32];
      snprintf(value, sizeof value, of[k], vtb_members[i]);
      snprintf(text, sizeof text,
               "use std.nn\nmodel m() {\n  input image: image[3, 8, 8]\n"
               "  x = patch_embed(\"p\", image, 4, 2x2)\n  let _m = %s\n  output y = x\n}\n",
               value);
      client c;
      client_start(&c);
      client_initialize(&c, NULL, "utf-16");
      client_open(&c, URI, text);
      known = cJSON_GetArraySize(client_problems(&c)) == 0;
      client_end(&c);
    }
    CHECK_MSG(known, "nothing has .%s", vtb_members[i]);
  }
}

static const cJSON *item(const cJSON *m, const char *label) {
  const cJSON *items = cJSON_GetObjectItem(cJSON_GetObjectItem(m, "result"), "items"), *x;
  cJSON_ArrayForEach(x, items) if (strcmp(client_string(x, "label"), label) == 0) return x;
  return NULL;
}

TEST(completion_knows_names_parameters_choices_and_files) {
  client c;
  client_start(&c);
  client_initialize(&c, NULL, "utf-16");
  text_is_sound(&c, model);
  cJSON *m = client_ask(&c, "textDocument/completion", client_at(URI, model, "ratio = 2", 0, 0));
  CHECK(item(m, "ratio = ") && item(m, "x") && item(m, "y") && item(m, "width"));
  CHECK(item(m, "perceptron") && item(m, "linear") && item(m, "softplus") && item(m, "repeat"));
  CHECK(!item(m, "hidden")); /* of another body */
  const cJSON *far = item(m, "mlstm"), *edit;
  edit = cJSON_GetArrayItem(cJSON_GetObjectItem(far, "additionalTextEdits"), 0);
  CHECK_STR(client_string(edit, "newText"), "use std.mlstm\n");
  CHECK(client_range(cJSON_GetObjectItem(edit, "range"), "start", "line") == 1);
  cJSON_Delete(m);
  m = client_ask(&c, "textDocument/completion", client_at(URI, model, "std.nn", 0, 4));
  CHECK(item(m, "std.nn") && item(m, "std.mlstm") && !item(m, "x"));
  cJSON_Delete(m);
  m = client_ask(&c, "textDocument/completion", client_at(URI, model, "beside", 0, 3));
  CHECK(cJSON_GetArraySize(cJSON_GetObjectItem(cJSON_GetObjectItem(m, "result"), "items")) == 0);
  cJSON_Delete(m);
  m = client_ask(&c, "textDocument/completion", client_at(URI, model, "x.dim", 0, 2));
  for (size_t i = 0; vtb_members[i]; i++) CHECK(item(m, vtb_members[i]));
  CHECK(item(m, "gelu") && !item(m, "x") && !item(m, "repeat"));
  cJSON_Delete(m);
  m = client_ask(&c, "textDocument/signatureHelp", client_at(URI, model, "ratio = 2", 0, 4));
  const cJSON *list = cJSON_GetObjectItem(cJSON_GetObjectItem(m, "result"), "signatures");
  CHECK(strstr(client_string(cJSON_GetArrayItem(list, 0), "label"), "perceptron(x: tokens"));
  cJSON_Delete(m);
  client_end(&c);
}

static cJSON *named(cJSON *params, const char *name) {
  cJSON_AddStringToObject(params, "newName", name);
  return params;
}

static void refused(client *c, const char *what, int n, const char *name, const char *why) {
  cJSON *m = client_ask(c, "textDocument/rename", named(client_at(URI, model, what, n, 0), name));
  const cJSON *error = cJSON_GetObjectItem(m, "error");
  CHECK_MSG(strstr(client_string(error, "message"), why), "'%s' is not in '%s'", why,
            client_string(error, "message"));
  cJSON_Delete(m);
}

TEST(rename_changes_every_place_or_says_why_not) {
  client c;
  client_start(&c);
  client_initialize(&c, NULL, "utf-16");
  text_is_sound(&c, model);
  cJSON *m =
      client_ask(&c, "textDocument/rename", named(client_at(URI, model, "ratio", 0, 1), "times"));
  const cJSON *changes = cJSON_GetObjectItem(cJSON_GetObjectItem(m, "result"), "changes");
  CHECK(cJSON_GetArraySize(changes) == 1 && cJSON_GetArraySize(changes->child) == 3);
  cJSON_Delete(m);
  refused(&c, "ratio", 0, "x", "has a meaning here already");
  refused(&c, "ratio", 0, "repeat", "a word of the language");
  refused(&c, "ratio", 0, "two words", "is no name");
  refused(&c, "linear", 0, "affine", "outside of the folders that are open");
  refused(&c, "gelu", 0, "relu6", "a word of the language");
  refused(&c, "\"fc1", 0, "fc", "no name here");
  client_end(&c);
}

/* A parameter that is a function is called by its name, whatever else has that name. */
TEST(rename_reaches_calls_of_parameters) {
  static const char text[] = "fn twice(relu: block, x: tensor) {\n  relu(relu(x))\n}\n"
                             "model m() {\n  input x: image[3, 8, 8]\n"
                             "  output y = twice(gelu, relu(x))\n}\n";
  client c;
  client_start(&c);
  client_initialize(&c, NULL, "utf-16");
  text_is_sound(&c, text);
  cJSON *m =
      client_ask(&c, "textDocument/rename", named(client_at(URI, text, "relu", 0, 1), "mixer"));
  const cJSON *changes = cJSON_GetObjectItem(cJSON_GetObjectItem(m, "result"), "changes");
  CHECK(cJSON_GetArraySize(changes) == 1 && cJSON_GetArraySize(changes->child) == 3);
  cJSON_Delete(m);
  client_end(&c);
}

static void write_text(const char *path, const char *text) {
  vtb_error err = {0};
  CHECK(vtb_file_write_atomic(path, text, strlen(text), &err) == VTB_OK);
}

/* What one file declares is renamed in another of the folder, also in a text that is not saved. */
TEST(rename_reaches_other_files) {
  char folder[] = "/tmp/vertebra-lsp-XXXXXX", own[64], other[64], uri[80];
  static const char part[] = "fn twice(x: tensor, by: float = 2.0) {\n  x * by\n}\n";
  static const char user[] = "use part\nmodel m() {\n  input image: image[3, 8, 8]\n"
                             "  output y = twice(image, by = 3.0)\n}\n";
  CHECK(mkdtemp(folder) != NULL);
  snprintf(own, sizeof own, "%s/part.vtb", folder);
  snprintf(other, sizeof other, "%s/user.vtb", folder);
  snprintf(uri, sizeof uri, "file://%s", own);
  write_text(own, part);
  write_text(other, user);
  client c;
  client_start(&c);
  client_initialize(&c, folder, "utf-16");
  client_open(&c, uri, part);
  client_problems(&c);
  cJSON *m =
      client_ask(&c, "textDocument/rename", named(client_at(uri, part, "by", 0, 0), "factor"));
  const cJSON *changes = cJSON_GetObjectItem(cJSON_GetObjectItem(m, "result"), "changes");
  CHECK(cJSON_GetArraySize(changes) == 2); /* in two files */
  CHECK(cJSON_GetArraySize(changes->child) == 2 && cJSON_GetArraySize(changes->child->next) == 1);
  cJSON_Delete(m);
  m = client_ask(&c, "textDocument/references", client_at(uri, part, "twice", 0, 0));
  CHECK(cJSON_GetArraySize(cJSON_GetObjectItem(m, "result")) == 2);
  cJSON_Delete(m);
  client_end(&c);
  unlink(own);
  unlink(other);
  rmdir(folder);
}

TEST(outline_and_layout) {
  client c;
  client_start(&c);
  client_initialize(&c, NULL, "utf-16");
  client_open(&c, URI, "fn  twice( x: tensor ) {\nx*2.0\n}\n");
  cJSON *m = client_ask(&c, "textDocument/documentSymbol", client_at(URI, "a", "a", 0, 0));
  const cJSON *rows = cJSON_GetObjectItem(m, "result");
  CHECK(cJSON_GetArraySize(rows) == 1);
  CHECK_STR(client_string(cJSON_GetArrayItem(rows, 0), "detail"), "fn twice(x: tensor)");
  cJSON_Delete(m);
  m = client_ask(&c, "textDocument/formatting", client_at(URI, "a", "a", 0, 0));
  CHECK_STR(client_string(cJSON_GetArrayItem(cJSON_GetObjectItem(m, "result"), 0), "newText"),
            "fn twice(x: tensor) {\n  x * 2.0\n}\n");
  cJSON_Delete(m);
  client_end(&c);
}

static int error_of(cJSON *m) {
  int code =
      (int)cJSON_GetNumberValue(cJSON_GetObjectItem(cJSON_GetObjectItem(m, "error"), "code"));
  cJSON_Delete(m);
  return code;
}

TEST(what_is_no_request_costs_an_answer_and_nothing_else) {
  client c;
  client_start(&c);
  CHECK(error_of(client_ask(&c, "textDocument/hover", NULL)) == -32002);
  client_initialize(&c, NULL, "utf-16");
  client_send_text(&c, "{ this is no JSON");
  CHECK(error_of(client_next(&c, false)) == -32700);
  client_send_text(&c, "[1, 2]");
  CHECK(error_of(client_next(&c, false)) == -32700);
  CHECK(error_of(client_ask(&c, "textDocument/dance", NULL)) == -32601);
  CHECK(error_of(client_ask(&c, "textDocument/hover", client_at(URI, "a", "a", 0, 0))) == -32602);
  text_is_sound(&c, model);
  cJSON_Delete(client_ask(&c, "shutdown", NULL));
  CHECK(error_of(client_ask(&c, "textDocument/hover", client_at(URI, "a", "a", 0, 0))) == -32600);
  client_send(&c, 0, "exit", NULL);
  CHECK(client_end(&c) == VTB_OK);
}

TEST(what_is_no_message_ends_the_server_with_a_sentence) {
  static const char *const junk[] = {"Content-Length: 99999999999\r\n\r\n",
                                     "Content-Type: x\r\n\r\n", "Content-Length: -1\r\n\r\n"};
  for (size_t i = 0; i < sizeof junk / sizeof *junk; i++) {
    client c;
    client_start(&c);
    CHECK(write(c.to[1], junk[i], strlen(junk[i])) == (ssize_t)strlen(junk[i]));
    CHECK(client_end(&c) == VTB_E_INPUT && strstr(c.err.text, "Content-Length"));
  }
}

/* Half-written texts, asked about anywhere: an answer each. */
TEST(any_text_at_any_place_has_an_answer) {
  static const char *const methods[] = {
      "textDocument/hover",         "textDocument/completion", "textDocument/definition",
      "textDocument/signatureHelp", "textDocument/rename",     "textDocument/documentHighlight"};
  unsigned long long seed = 7;
  client c;
  client_start(&c);
  client_initialize(&c, NULL, "utf-16");
  for (int round = 0; round < 120; round++) {
    char text[sizeof model];
    strcpy(text, model);
    size_t n = strlen(text), from = (size_t)((test_random(&seed) + 1) / 2 * (double)n);
    size_t length = 1 + (size_t)((test_random(&seed) + 1) * 12);
    if (from + length > n) length = n - from;
    memmove(text + from, text + from + length, n - from - length + 1);
    client_open(&c, URI, text);
    for (size_t k = 0; k < sizeof methods / sizeof *methods; k++) {
      cJSON *params = client_at(URI, text, "", 0, 0), *p = cJSON_GetObjectItem(params, "position");
      cJSON_SetNumberValue(cJSON_GetObjectItem(p, "line"), (int)((test_random(&seed) + 1) * 8));
      cJSON_SetNumberValue(cJSON_GetObjectItem(p, "character"),
                           (int)((test_random(&seed) + 1) * 30));
      cJSON_Delete(client_ask(&c, methods[k], named(params, "other")));
    }
  }
  client_problems(&c);
  client_end(&c);
}

int main(void) {
  RUN(hover_tells_shapes_layouts_orders_and_signatures);
  RUN(definitions_are_found_across_use);
  RUN(problems_stand_where_the_editor_counts);
  RUN(texts_change_piece_by_piece);
  RUN(members_are_those_of_the_language);
  RUN(completion_knows_names_parameters_choices_and_files);
  RUN(rename_changes_every_place_or_says_why_not);
  RUN(rename_reaches_calls_of_parameters);
  RUN(rename_reaches_other_files);
  RUN(outline_and_layout);
  RUN(what_is_no_request_costs_an_answer_and_nothing_else);
  RUN(what_is_no_message_ends_the_server_with_a_sentence);
  RUN(any_text_at_any_place_has_an_answer);
  return test_done();
}
