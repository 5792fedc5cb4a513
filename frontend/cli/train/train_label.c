/* Labels of runs. */
#include "frontend/cli/train/train_label.h"

#include <string.h>

/* Options that say where, how fast or how long so far, not what. */
static bool is_silent(const char *name) {
  static const char *const names[] = {"--data",        "--out",          "--recipe",
                                      "--resume",      "--again",        "--overwrite",
                                      "--json",        "--quiet",        "--threads",
                                      "--workers",     "--tensorboard",  "--label",
                                      "--entry",       "--target",       "--max-steps",
                                      "--max-seconds", "--eval-batch",   "--time-passes",
                                      "--print-after", "--skip-damaged", "--checkpoint-minutes",
                                      "--log-every",   "--trace",        "--recompute",
                                      "--memory"};
  return CLI_IS_AMONG(name, names);
}

typedef VTB_VEC(char *) word_list;

/* A word "name value", in the place of an earlier one of that name. */
static void put_word(word_list *words, char *word) {
  size_t n = strcspn(word, " ");
  for (size_t i = 0; i < words->n; i++) {
    char *old = words->at[i];
    if (strcspn(old, " ") != n || strncmp(old, word, n) != 0) continue;
    vtb_free(old);
    words->at[i] = word;
    return;
  }
  vtb_vec_push(words, word);
}

/* The word of an option: of a file its name. */
static char *word_of(const cli_opt *o, const char *value) {
  if (o->kind == CLI_FLAG) return vtb_xstrdup(o->name + 2);
  if (strcmp(o->name, "-D") == 0) {
    char *word = vtb_xstrdup(value), *eq = strchr(word, '=');
    if (eq) *eq = ' ';
    return word;
  }
  const char *slash = vtb_streq(o->metavar, "FILE") ? strrchr(value, '/') : NULL;
  return vtb_strprintf("%s %s", o->name + 2, slash ? slash + 1 : value);
}

static void put_before(word_list *words, const char *label) {
  for (const char *at = label; at && *at;) {
    const char *end = strstr(at, ", ");
    size_t n = end ? (size_t)(end - at) : strlen(at);
    put_word(words, vtb_strprintf("%.*s", (int)n, at));
    at += n + (end ? 2 : 0);
  }
}

/* The options were parsed: each that takes a value has one. */
static void put_options(word_list *words, const cli_opt *opts, int n, int argc, char **argv) {
  for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
    const char *arg = argv[i];
    if (arg[0] != '-' || !arg[1]) continue;
    bool is_long = arg[1] == '-';
    char own[64];
    snprintf(own, sizeof own, "%.*s", is_long ? (int)strcspn(arg, "=") : 2, arg);
    const cli_opt *o = cli_find_option(opts, n, own);
    if (!o) continue;
    size_t name = strlen(o->name);
    const char *value = NULL;
    if (o->kind != CLI_FLAG) value = arg[name] ? arg + name + is_long : argv[++i];
    if (!is_silent(o->name)) put_word(words, word_of(o, value));
  }
}

char *train_label(const char *before, const cli_opt *opts, int n, int argc, char **argv) {
  word_list words = {0};
  vtb_strbuf out = {0};
  put_before(&words, before);
  put_options(&words, opts, n, argc, argv);
  for (size_t i = 0; i < words.n; i++) {
    vtb_strbuf_printf(&out, "%s%s", out.n ? ", " : "", words.at[i]);
    vtb_free(words.at[i]);
  }
  vtb_vec_free(&words);
  return out.at ? out.at : vtb_xstrdup("");
}
