/* The command line's options. */
#include "frontend/cli/cli.h"
#include "frontend/cli/names.h"
#include "frontend/compile/words.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>

static int store_number(const char *command, const cli_opt *o, const char *text) {
  char *end, takes[80] = "a whole number";
  int64_t least = o->kind == CLI_POSITIVE || o->kind == CLI_IF_SAID,
          most = o->kind == CLI_INT       ? INT64_MAX
                 : o->kind == CLI_THREADS ? VTB_MOST_THREADS
                                          : CLI_MOST_POSITIVE;
  if (o->kind != CLI_INT)
    snprintf(takes, sizeof takes, "%s to %lld",
             least ? "a whole number from 1" : "0 (as many as there are cores)", (long long)most);
  errno = 0;
  long long v = strtoll(text, &end, 10);
  if (!*text || *end || errno || v < least || v > most)
    return (int)cli_usage_error(command, "%s takes %s, not '%s'", o->name, takes, text);
  *(int64_t *)o->into = v;
  return 0;
}

/* "4G", "4GiB" and "512M" are powers of two, "4GB" is 4e9; a number alone is bytes. 0: none. */
static int64_t read_size(const char *text) {
  static const char letters[] = "KMGT";
  char *end;
  double x = strtod(text, &end);
  const char *letter = *end ? strchr(letters, toupper((unsigned char)*end)) : NULL;
  if (end == text || !isdigit((unsigned char)*text) || (*end && !letter)) return 0;
  const char *unit = letter ? end + 1 : "";
  double step = vtb_streq(unit, "B") ? 1000 : 1024;
  if (*unit && !vtb_streq(unit, "B") && !vtb_streq(unit, "iB")) return 0;
  for (long k = letter ? letter - letters + 1 : 0; k > 0; k--) x *= step;
  return x >= 1 && x < 0x1p62 ? (int64_t)x : 0;
}

static int store_size(const char *command, const cli_opt *o, const char *text) {
  int64_t bytes = read_size(text);
  if (!bytes)
    return (int)cli_usage_error(command, "%s takes a size such as 4G, 512M or bytes, not '%s'",
                                o->name, text);
  *(int64_t *)o->into = bytes;
  return 0;
}

static int store(const char *command, const cli_opt *o, const char *text) {
  char *end = NULL;
  switch (o->kind) {
  case CLI_FLAG:
    *(bool *)o->into = true;
    return 0;
  case CLI_STR:
  case CLI_CHOICE:
  case CLI_FILE:
  case CLI_FOLDER:
    *(const char **)o->into = text;
    return (int)cli_check_text(command, o, text);
  case CLI_LIST:
    vtb_vec_push((cli_list *)o->into, text);
    return 0;
  case CLI_INT:
  case CLI_POSITIVE:
  case CLI_IF_SAID:
  case CLI_THREADS:
    return store_number(command, o, text);
  case CLI_SIZE:
    return store_size(command, o, text);
  case CLI_FLOAT: {
    errno = 0;
    double v = strtod(text, &end);
    if (!*text || *end || errno || !(v >= 0 && v <= DBL_MAX))
      return (int)cli_usage_error(command, "%s takes a finite number of at least 0, not '%s'",
                                  o->name, text);
    *(double *)o->into = v;
  }
  }
  return 0;
}

bool cli_is_among(const char *text, const char *const *list, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (strcmp(list[i], text) == 0) return true;
  return false;
}

const cli_opt *cli_find_option(const cli_opt *opts, int n, const char *name) {
  for (int i = 0; i < n; i++)
    if (strcmp(opts[i].name, name) == 0) return &opts[i];
  return NULL;
}

/* Options of other tools, and what stands for them here: of several the first that the command
 * has. */
static const struct {
  const char *name, *here[3];
} habits[] = {
    {"--batch-size", {"--batch"}},
    {"--bs", {"--batch"}},
    {"--device", {"--target"}},
    {"--gpu", {"--target"}},
    {"--gpus", {"--target"}},
    {"--cuda", {"--target"}},
    {"--learning-rate", {"--lr"}},
    {"--wd", {"--weight-decay"}},
    {"--optim", {"--optimizer"}},
    {"--opt", {"--optimizer"}},
    {"--output", {"--out", "-o"}},
    {"--output-dir", {"--out", "-o"}},
    {"--save-dir", {"--out", "-o"}},
    {"--num-workers", {"--workers"}},
    {"--checkpoint", {"--weights", "--init"}},
    {"--ckpt", {"--weights", "--init"}},
    {"--pretrained", {"--weights", "--init"}},
    {"--finetune", {"--init"}},
    {"--amp", {"--precision"}},
    {"--fp16", {"--precision"}},
    {"--bf16", {"--precision"}},
    {"--half", {"--precision"}},
    {"--dtype", {"--precision"}},
    {"--image-size", {"--image"}},
    {"--img-size", {"--image"}},
    {"--input-size", {"--image"}},
    {"--log-interval", {"--log-every"}},
    {"--steps", {"--updates", "--max-steps"}},
    {"--max-epochs", {"--epochs"}},
    {"--dataset", {"--data"}},
    {"--data-dir", {"--data"}},
    {"--chunk-size", {"--chunk"}},
    {"--num-threads", {"--threads"}},
    {"--verbose", {"--json"}},
};

static const char *habit_of(const cli_opt *opts, int n, const char *name) {
  for (size_t i = 0; i < sizeof habits / sizeof *habits; i++)
    for (int k = 0; k < 3 && habits[i].here[k] && strcmp(habits[i].name, name) == 0; k++)
      if (cli_find_option(opts, n, habits[i].here[k])) return habits[i].here[k];
  return NULL;
}

static int unknown_option(const char *command, const cli_opt *opts, int n, const char *arg) {
  const char **names = vtb_xcalloc((size_t)n + 2, sizeof *names);
  for (int i = 0; i < n; i++) names[i] = opts[i].name;
  names[n] = cli_json_option.name;
  names[n + 1] = "--help";
  char *dashed = vtb_xstrdup(arg); /* --batch_size */
  for (char *c = dashed; *c; c++)
    if (*c == '_') *c = '-';
  bool sets = arg[1] == '-' && cli_find_option(opts, n, "-D");
  const char *here = habit_of(opts, n, dashed),
             *near = cli_find_option(opts, n, dashed) ? dashed
                                                      : vtb_suggest(dashed, names, (size_t)n + 2);
  int status;
  if (here)
    status = (int)cli_usage_error(command, "unknown option %s: it is %s here", arg, here);
  else if (sets && strcmp(arg, "--model") == 0)
    status = (int)cli_usage_error(command, "unknown option --model: MODEL is the first word");
  else if (near)
    status = (int)cli_usage_error(command, "unknown option %s; did you mean %s?", arg, near);
  else
    status = (int)cli_usage_error(
        command, "unknown option %s%s", arg,
        sets ? " (a hyperparameter of the model is set with -D NAME=VALUE)" : "");
  vtb_free(dashed);
  vtb_free(names);
  return status;
}

/* A number may stand behind it, and need not. */
static bool has_number(const char *next) {
  return next && *next && !next[strspn(next, "0123456789")];
}

/* Who is shown the rows; NULL: they are parsed. */
static cli_option_visitor visitor;
static void *visitor_user;

void cli_visit_options(cli_option_visitor visit, void *user) {
  visitor = visit;
  visitor_user = user;
}

/* The rows with the words that their help names, to the visitor or as the command's help. */
static void show(const char *command, const cli_opt *opts, int n) {
  vtb_arena arena;
  vtb_arena_init(&arena);
  cli_opt *rows = VTB_NEW_ARRAY(&arena, cli_opt, n + 1);
  for (int i = 0; i < n; i++) {
    vtb_strbuf help = {0};
    vtb_words_expand(opts[i].help, &help);
    rows[i] = opts[i];
    rows[i].help = vtb_arena_strdup(&arena, vtb_strbuf_text(&help));
    vtb_strbuf_free(&help);
  }
  for (int i = 0; visitor && i < n; i++) visitor(visitor_user, &rows[i]);
  if (!visitor) cli_print_options(command, rows, n);
  vtb_arena_free(&arena);
}

static int parse(const char *command, const cli_opt *opts, int n, int argc, char **argv,
                 cli_list *positional) {
  bool only_positional = false;
  for (int i = 1; i < argc; i++) {
    const char *arg = argv[i];
    if (only_positional || arg[0] != '-' || !arg[1]) {
      vtb_vec_push(positional, arg);
      continue;
    }
    if (strcmp(arg, "--") == 0) {
      only_positional = true;
      continue;
    }
    if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
      show(command, opts, n);
      return -1;
    }
    char name[64];
    const char *eq = arg[1] == '-' ? strchr(arg, '=') : NULL, *value = eq ? eq + 1 : NULL;
    size_t len = eq ? (size_t)(eq - arg) : strlen(arg);
    if (arg[1] != '-' && len > 2) { /* -Dname=value */
      value = arg + 2;
      len = 2;
    }
    if (len >= sizeof name) return (int)cli_usage_error(command, "unknown option %s", arg);
    memcpy(name, arg, len);
    name[len] = 0;
    const cli_opt *o = cli_find_option(opts, n, name);
    if (!o && !value && strcmp(name, cli_json_option.name) == 0) continue; /* cli_begin() */
    if (!o) return unknown_option(command, opts, n, name);
    if (o->kind == CLI_FLAG && value)
      return (int)cli_usage_error(command, "%s takes no value", name);
    if (o->kind == CLI_IF_SAID && !value && !has_number(i + 1 < argc ? argv[i + 1] : NULL)) {
      *(int64_t *)o->into = -1;
      continue;
    }
    if (o->kind != CLI_FLAG && !value) {
      if (i + 1 >= argc)
        return (int)cli_usage_error(command, "%s needs a value (%s)", name, o->metavar);
      value = argv[++i];
    }
    int status = store(command, o, value);
    if (status) return status;
  }
  return VTB_OK;
}

int cli_parse(const char *command, const cli_opt *opts, int n, int argc, char **argv,
              cli_list *positional) {
  if (visitor) {
    show(command, opts, n);
    return -1;
  }
  int status = parse(command, opts, n, argc, argv, positional);
  if (status) vtb_vec_free(positional);
  return status;
}

vtb_status cli_run(const cli_call *c, int argc, char **argv) {
  cli_list args = {0};
  vtb_error err = {0};
  int parsed = cli_parse(c->command, c->opts, c->n_opts, argc, argv, &args);
  vtb_status status = parsed < 0 ? VTB_OK : (vtb_status)parsed;
  if (!parsed && ((c->one && args.n != 1) || (c->some && !args.n))) {
    status = cli_usage_error(c->command, "%s", c->one ? c->one : c->some);
  } else if (!parsed) {
    if (c->model) cli_model_parsed(c->model);
    status = c->run(c->options, &args, &err);
    if (status != VTB_OK && err.text[0]) cli_error(&err);
  }
  if (c->model) cli_model_options_free(c->model);
  for (int i = 0; i < c->n_opts; i++)
    if (c->opts[i].kind == CLI_LIST) vtb_vec_free((cli_list *)c->opts[i].into);
  vtb_vec_free(&args);
  return status;
}
