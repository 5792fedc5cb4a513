/* vertebra completions: scripts for shells, from the tables of commands and options. Presets are
 * asked of the program when they are wanted. */
#include "frontend/cli/commands.h"
#include "frontend/compile/words.h"

#include <ctype.h>
#include <string.h>

/* The table whose words are an option's values; of options that are not here the metavar tells
 * words or files. */
static const struct {
  const char *option, *table;
} values[] = {
    {"--mode", "modes"},         {"--precision", "precisions"}, {"--optimizer", "optimizers"},
    {"--schedule", "schedules"}, {"--stage", "stages"},         {"--target", "targets"},
    {"--machine", "machines"},
};

/* Valid until the next call; NULL: none. */
static const char *words_of(const cli_opt *o) {
  static char own[256];
  vtb_strbuf words = {0};
  for (int i = 0; i < CLI_COUNT(values); i++)
    if (strcmp(values[i].option, o->name) == 0) vtb_words(values[i].table, NULL, " ", " ", &words);
  if (o->metavar && islower((unsigned char)*o->metavar)) /* "fused|graph" */
    vtb_strbuf_puts(&words, o->metavar);
  snprintf(own, sizeof own, "%s", vtb_strbuf_text(&words));
  for (char *c = own; *c; c++)
    if (*c == '|') *c = ' ';
  vtb_strbuf_free(&words);
  return *own ? own : NULL;
}

static bool takes_file(const cli_opt *o) {
  static const char *const metavars[] = {"DIR", "W", "D", "RUN"};
  return o->metavar && (CLI_IS_AMONG(o->metavar, metavars) || strstr(o->metavar, "FILE"));
}

/* Words of a command's usage: names of presets, words ("ls|clear"), files. */
static bool takes_models(const cli_command *c) {
  return strstr(c->usage, "MODEL") || strstr(c->usage, "PATTERN");
}
static bool takes_commands(const cli_command *c) { return strstr(c->usage, "COMMAND") != NULL; }

/* "ls clear" of "ls|clear"; NULL where the usage is no list of words. Valid until the next call. */
static const char *takes_words(const cli_command *c) {
  static char words[64];
  size_t n = 0;
  for (const char *p = c->usage; *p && n + 1 < sizeof words; p++) {
    if (!islower((unsigned char)*p) && *p != '|') return NULL;
    words[n++] = *p == '|' ? ' ' : *p;
  }
  words[n] = 0;
  return n ? words : NULL;
}

/* The command with the options that all have: a visitor's view. */
typedef struct printing {
  vtb_strbuf *out;
  const cli_command *command;
  bool json;
} printing;

static void each_option(printing *p, cli_option_visitor visit) {
  static const cli_opt help = {"--help", CLI_FLAG, NULL, NULL, "the options of this command"};
  p->json = false;
  cli_describe(p->command, visit, p);
  if (!p->json) visit(p, &cli_json_option);
  visit(p, &help);
}

static void note_json(printing *p, const cli_opt *o) {
  p->json |= strcmp(o->name, cli_json_option.name) == 0;
}

/* In single quotes of a shell; what `also` holds gets a backslash. */
static void put_quoted(vtb_strbuf *out, const char *text, const char *also) {
  for (; *text; text++) {
    if (*text == '\'')
      vtb_strbuf_puts(out, "'\\''");
    else {
      if (strchr(also, *text)) vtb_strbuf_putc(out, '\\');
      vtb_strbuf_putc(out, *text);
    }
  }
}

static void put_commands(vtb_strbuf *out) {
  for (int i = 0; i < cli_n_commands; i++)
    vtb_strbuf_printf(out, "%s%s", i ? " " : "", cli_commands[i].name);
}

/* ---- bash ------------------------------------------------------------------------------------ */

static void bash_name(void *user, const cli_opt *o) {
  printing *p = user;
  note_json(p, o);
  vtb_strbuf_printf(p->out, "%s ", o->name);
}

static void bash_value(void *user, const cli_opt *o) {
  printing *p = user;
  note_json(p, o);
  if (o->kind == CLI_FLAG) return;
  const char *words = words_of(o);
  vtb_strbuf_printf(p->out, "    %s:%s) ", p->command->name, o->name);
  if (words)
    vtb_strbuf_printf(p->out, "COMPREPLY=($(compgen -W '%s' -- \"$cur\"));", words);
  else if (takes_file(o))
    vtb_strbuf_puts(p->out, "COMPREPLY=($(compgen -f -- \"$cur\"));");
  vtb_strbuf_puts(p->out, " return ;;\n");
}

static void bash_arguments(printing *p) {
  const cli_command *c = p->command;
  const char *words = takes_words(c);
  vtb_strbuf_printf(p->out, "    %s) options='", c->name);
  each_option(p, bash_name);
  vtb_strbuf_puts(p->out, "' words=");
  if (takes_commands(c)) {
    vtb_strbuf_putc(p->out, '\'');
    put_commands(p->out);
    vtb_strbuf_putc(p->out, '\'');
  } else if (words) {
    vtb_strbuf_printf(p->out, "'%s'", words);
  } else {
    vtb_strbuf_puts(p->out, takes_models(c) ? "models" : "files");
  }
  vtb_strbuf_puts(p->out, " ;;\n");
}

static void bash(vtb_strbuf *out) {
  printing p = {.out = out};
  vtb_strbuf_puts(out, "# bash completion of vertebra; `vertebra completions bash` writes it\n"
                       "_vertebra() {\n"
                       "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                       "  local command=${COMP_WORDS[1]} options words\n"
                       "  COMPREPLY=()\n"
                       "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
                       "    COMPREPLY=($(compgen -W '");
  put_commands(out);
  vtb_strbuf_puts(out, " --help --version' -- \"$cur\"))\n    return\n  fi\n"
                       "  case $command:$prev in\n");
  for (int i = 0; i < cli_n_commands; i++) {
    p.command = &cli_commands[i];
    cli_describe(p.command, bash_value, &p);
  }
  vtb_strbuf_puts(out, "  esac\n  case $command in\n");
  for (int i = 0; i < cli_n_commands; i++) {
    p.command = &cli_commands[i];
    bash_arguments(&p);
  }
  vtb_strbuf_puts(
      out, "    *) return ;;\n  esac\n"
           "  case $cur in -*) COMPREPLY=($(compgen -W \"$options\" -- \"$cur\")); return ;; esac\n"
           "  case $words in\n"
           "    models) COMPREPLY=($(compgen -W \"$(\"${COMP_WORDS[0]}\" models --names "
           "2>/dev/null)\" -- \"$cur\") $(compgen -f -- \"$cur\")) ;;\n"
           "    files) COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n"
           "    *) COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")) ;;\n"
           "  esac\n}\n"
           "complete -o filenames -F _vertebra vertebra\n");
}

/* ---- zsh ------------------------------------------------------------------------------------- */

static void zsh_option(void *user, const cli_opt *o) {
  printing *p = user;
  note_json(p, o);
  vtb_strbuf_printf(p->out, "        '%s%s[", o->kind == CLI_LIST ? "*" : "", o->name);
  put_quoted(p->out, o->help, "[]");
  vtb_strbuf_putc(p->out, ']');
  if (o->kind != CLI_FLAG) {
    vtb_strbuf_putc(p->out, ':');
    put_quoted(p->out, o->metavar, ":");
    const char *words = words_of(o);
    if (words)
      vtb_strbuf_printf(p->out, ":(%s)", words);
    else
      vtb_strbuf_puts(p->out, takes_file(o) ? ":_files" : ":");
  }
  vtb_strbuf_puts(p->out, "' \\\n");
}

static void zsh_command(printing *p) {
  const cli_command *c = p->command;
  const char *words = takes_words(c);
  vtb_strbuf_printf(p->out, "    %s)\n      _arguments \\\n", c->name);
  each_option(p, zsh_option);
  vtb_strbuf_puts(p->out, "        '*:argument:");
  if (takes_commands(c)) {
    vtb_strbuf_putc(p->out, '(');
    put_commands(p->out);
    vtb_strbuf_putc(p->out, ')');
  } else if (words) {
    vtb_strbuf_printf(p->out, "(%s)", words);
  } else {
    vtb_strbuf_puts(p->out, takes_models(c) ? "_vertebra_models" : "_files");
  }
  vtb_strbuf_puts(p->out, "' ;;\n");
}

static void zsh(vtb_strbuf *out) {
  printing p = {.out = out};
  vtb_strbuf_puts(out, "#compdef vertebra\n"
                       "# zsh completion of vertebra; `vertebra completions zsh` writes it\n"
                       "_vertebra_models() {\n"
                       "  local -a names\n"
                       "  names=(${(f)\"$(vertebra models --names 2>/dev/null)\"})\n"
                       "  _alternative 'models:model:compadd -a names' 'files:file:_files'\n}\n"
                       "_vertebra() {\n  local -a commands\n  commands=(\n");
  for (int i = 0; i < cli_n_commands; i++) {
    vtb_strbuf_printf(out, "    '%s:", cli_commands[i].name);
    put_quoted(out, cli_commands[i].summary, ":");
    vtb_strbuf_puts(out, "'\n");
  }
  vtb_strbuf_puts(out, "  )\n  if ((CURRENT == 2)); then\n    _describe command commands\n"
                       "    return\n  fi\n  local command=$words[2]\n"
                       "  shift words\n  ((CURRENT--))\n  case $command in\n");
  for (int i = 0; i < cli_n_commands; i++) {
    p.command = &cli_commands[i];
    zsh_command(&p);
  }
  vtb_strbuf_puts(out, "  esac\n}\n"
                       "if [ \"$funcstack[1]\" = _vertebra ]; then\n  _vertebra \"$@\"\n"
                       "else\n  compdef _vertebra vertebra\nfi\n");
}

/* ---- fish ------------------------------------------------------------------------------------ */

static void fish_option(void *user, const cli_opt *o) {
  printing *p = user;
  note_json(p, o);
  bool is_long = o->name[1] == '-';
  vtb_strbuf_printf(p->out, "complete -c vertebra -n '__fish_seen_subcommand_from %s' -%c %s",
                    p->command->name, is_long ? 'l' : 's', o->name + (is_long ? 2 : 1));
  const char *words = words_of(o);
  if (o->kind != CLI_FLAG && words)
    vtb_strbuf_printf(p->out, " -x -a '%s'", words);
  else if (o->kind != CLI_FLAG)
    vtb_strbuf_puts(p->out, takes_file(o) ? " -r -F" : " -x");
  vtb_strbuf_puts(p->out, " -d '");
  put_quoted(p->out, o->help, "");
  vtb_strbuf_puts(p->out, "'\n");
}

static void fish_command(printing *p) {
  const cli_command *c = p->command;
  const char *words = takes_words(c);
  vtb_strbuf_printf(p->out, "complete -c vertebra -n __fish_use_subcommand -f -a %s -d '", c->name);
  put_quoted(p->out, c->summary, "");
  vtb_strbuf_puts(p->out, "'\n");
  each_option(p, fish_option);
  bool commands = takes_commands(c);
  if (!commands && !words && !takes_models(c)) return;
  vtb_strbuf_printf(p->out, "complete -c vertebra -n '__fish_seen_subcommand_from %s' %s-a '",
                    c->name, commands || words ? "-f " : "");
  if (commands)
    put_commands(p->out);
  else
    vtb_strbuf_puts(p->out, words ? words : "(vertebra models --names 2>/dev/null)");
  vtb_strbuf_puts(p->out, "'\n");
}

static void fish(vtb_strbuf *out) {
  printing p = {.out = out};
  vtb_strbuf_puts(out, "# fish completion of vertebra; `vertebra completions fish` writes it\n");
  for (int i = 0; i < cli_n_commands; i++) {
    p.command = &cli_commands[i];
    fish_command(&p);
  }
}

/* ---------------------------------------------------------------------------------------------- */

vtb_status cli_cmd_completions(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*print)(vtb_strbuf *out);
  } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
  cli_list rest = {0};
  int parsed = cli_parse("completions", NULL, 0, argc, argv, &rest);
  if (parsed) return parsed < 0 ? VTB_OK : (vtb_status)parsed;
  const char *name = rest.n == 1 ? rest.at[0] : "";
  vtb_vec_free(&rest);
  for (int i = 0; i < CLI_COUNT(shells); i++) {
    if (strcmp(shells[i].name, name) != 0) continue;
    vtb_strbuf out = {0};
    shells[i].print(&out);
    cli_print_text("shell", name, out.at);
    vtb_strbuf_free(&out);
    return VTB_OK;
  }
  return cli_usage_error("completions", "bash, zsh or fish is needed");
}
