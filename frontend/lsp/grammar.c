/* Grammars for editors that colour texts by patterns, made of the lexer's and the builtins'
 * tables. */
#include "frontend/lang/symbols.h"
#include "frontend/lsp/lsp.h"

#include <cjson/cJSON.h>
#include <string.h>

/* "(model|preset)" of those of a class; words are letters, digits and _. */
static char *words_between(const char *const *list, size_t n, const char *between) {
  vtb_strbuf out = {0};
  for (size_t i = 0; i < n; i++) vtb_strbuf_printf(&out, "%s%s", out.n ? between : "", list[i]);
  return out.at ? out.at : vtb_xstrdup("");
}

typedef VTB_VEC(const char *) words;

static const char *const declarations[] = {"use",    "const", "fn",        "block",    "recurrence",
                                           "preset", "model", "optimizer", "schedule", "alias"};
static const char *const operators[] = {"and", "or", "not"};
static const char *const constants[] = {"true", "false"};

static bool among(const char *const *list, size_t n, const char *word) {
  for (size_t i = 0; i < n; i++)
    if (strcmp(list[i], word) == 0) return true;
  return false;
}
#define AMONG(list, word) among(list, sizeof list / sizeof *list, word)

typedef enum word_class {
  DECLARATIONS,
  CONTROL,
  OPERATORS,
  CONSTANTS,
  FUNCTIONS,
  WORDS,
  N_CLASSES
} word_class;

static word_class class_of(const char *keyword) {
  return AMONG(declarations, keyword) ? DECLARATIONS
         : AMONG(operators, keyword)  ? OPERATORS
         : AMONG(constants, keyword)  ? CONSTANTS
                                      : CONTROL;
}

static void collect_words(words list[N_CLASSES]) {
  for (size_t i = 0; vtb_keyword(i); i++)
    vtb_vec_push(&list[class_of(vtb_keyword(i))], vtb_keyword(i));
  vtb_vec_push(&list[CONTROL], "one of");
  for (int functions = 0; functions < 2; functions++) {
    const char **names;
    size_t n = vtb_builtins(functions, &names);
    for (size_t i = 0; i < n; i++) vtb_vec_push(&list[functions ? FUNCTIONS : WORDS], names[i]);
    vtb_free(names);
  }
}

/* ---- TextMate -------------------------------------------------------------------------------- */

static void pattern(cJSON *list, const char *name, const char *match) {
  cJSON *row = cJSON_CreateObject();
  cJSON_AddStringToObject(row, "name", name);
  cJSON_AddStringToObject(row, "match", match);
  cJSON_AddItemToArray(list, row);
}

static cJSON *between(cJSON *list, const char *name, const char *begin, const char *stop) {
  cJSON *row = cJSON_CreateObject();
  cJSON_AddStringToObject(row, "name", name);
  cJSON_AddStringToObject(row, "begin", begin);
  cJSON_AddStringToObject(row, "end", stop);
  cJSON_AddItemToArray(list, row);
  return row;
}

static void textmate(const words list[N_CLASSES], vtb_strbuf *out) {
  static const char *const scopes[N_CLASSES] = {
      "keyword.declaration.vertebra", "keyword.control.vertebra",  "keyword.operator.word.vertebra",
      "constant.language.vertebra",   "support.function.vertebra", "support.constant.vertebra"};
  cJSON *all = cJSON_CreateObject();
  cJSON_AddStringToObject(all, "name", "Vertebra");
  cJSON_AddStringToObject(all, "scopeName", "source.vertebra");
  cJSON_AddItemToArray(cJSON_AddArrayToObject(all, "fileTypes"), cJSON_CreateString("vtb"));
  cJSON *patterns = cJSON_AddArrayToObject(all, "patterns");
  pattern(patterns, "comment.line.double-slash.vertebra", "//.*$");
  between(patterns, "comment.block.vertebra", "/\\*", "\\*/");
  cJSON *string = between(patterns, "string.quoted.double.vertebra", "\"", "\"|$");
  cJSON *inside = cJSON_AddArrayToObject(string, "patterns");
  pattern(inside, "constant.character.escape.vertebra", "\\\\.");
  pattern(inside, "variable.other.interpolated.vertebra", "\\{[^}\"]*\\}");
  pattern(patterns, "constant.numeric.size.vertebra", "\\b[0-9]+(x[0-9]+){1,2}\\b");
  pattern(patterns, "constant.numeric.vertebra", "\\b[0-9]+(\\.[0-9]+)?([eE][+-]?[0-9]+)?\\b");
  for (int k = 0; k < N_CLASSES; k++) {
    char *names = words_between(list[k].at, list[k].n, "|");
    char *match = vtb_strprintf(k == FUNCTIONS ? "\\b(%s)\\b(?=\\s*\\()" : "\\b(%s)\\b", names);
    pattern(patterns, scopes[k], match);
    vtb_free(match);
    vtb_free(names);
  }
  pattern(patterns, "entity.name.function.vertebra", "\\b[A-Za-z_][A-Za-z0-9_]*(?=\\()");
  pattern(patterns, "keyword.operator.vertebra", "->|[-+*/]=|[=!<>]=|[-+*/%=<>?:|~]");
  char *text = vtb_need(cJSON_Print(all));
  vtb_strbuf_puts(out, text);
  vtb_strbuf_putc(out, '\n');
  cJSON_free(text);
  cJSON_Delete(all);
}

/* ---- Vim ------------------------------------------------------------------------------------- */

static void vim_words(vtb_strbuf *out, const char *group, const words *list) {
  for (size_t i = 0; i < list->n; i++) {
    if (strchr(list->at[i], ' ')) continue;
    bool line = i % 8 == 0;
    vtb_strbuf_printf(out, "%s%s%s %s", line && i ? "\n" : "", line ? "syn keyword " : "",
                      line ? group : "", list->at[i]);
  }
  vtb_strbuf_putc(out, '\n');
}

static void vim(const words list[N_CLASSES], vtb_strbuf *out) {
  static const char *const groups[N_CLASSES] = {"vtbDeclaration", "vtbControl",  "vtbOperatorWord",
                                                "vtbBoolean",     "vtbFunction", "vtbConstant"};
  static const char *const links[][2] = {
      {"vtbDeclaration", "Structure"}, {"vtbControl", "Statement"}, {"vtbOperatorWord", "Operator"},
      {"vtbBoolean", "Boolean"},       {"vtbFunction", "Function"}, {"vtbConstant", "Constant"},
      {"vtbNumber", "Number"},         {"vtbString", "String"},     {"vtbInside", "Special"},
      {"vtbComment", "Comment"}};
  vtb_strbuf_puts(out, "\" Vim syntax of Vertebra's .vtb, made by `vertebra lsp --grammar vim`.\n"
                       "if exists(\"b:current_syntax\")\n  finish\nendif\n\n");
  for (int k = 0; k < N_CLASSES; k++) vim_words(out, groups[k], &list[k]);
  vtb_strbuf_puts(
      out, "syn match vtbControl /\\<one\\s\\+of\\>/\n"
           "syn match vtbNumber /\\<\\d\\+\\(\\.\\d\\+\\)\\?\\([eE][+-]\\?\\d\\+\\)\\?\\>/\n"
           "syn match vtbNumber /\\<\\d\\+\\(x\\d\\+\\)\\{1,2}\\>/\n"
           "syn match vtbInside /{[^}\"]*}/ contained\n"
           "syn region vtbString start=/\"/ skip=/\\\\./ end=/\"/ oneline contains=vtbInside\n"
           "syn match vtbComment /\\/\\/.*/\n"
           "syn region vtbComment start=/\\/\\*/ end=/\\*\\//\n\n");
  for (size_t i = 0; i < sizeof links / sizeof *links; i++)
    vtb_strbuf_printf(out, "hi def link %s %s\n", links[i][0], links[i][1]);
  vtb_strbuf_puts(out, "\nlet b:current_syntax = \"vertebra\"\n");
}

bool vtb_lsp_grammar(const char *name, vtb_strbuf *out) {
  words list[N_CLASSES] = {0};
  bool is_vim = strcmp(name, "vim") == 0;
  if (!is_vim && strcmp(name, "textmate") != 0) return false;
  collect_words(list);
  if (is_vim)
    vim(list, out);
  else
    textmate(list, out);
  for (int k = 0; k < N_CLASSES; k++) vtb_vec_free(&list[k]);
  return true;
}
