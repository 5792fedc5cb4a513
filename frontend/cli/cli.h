/* The `vertebra` command: a leaf that nothing includes. One file a subcommand; this header is what
 * they share.
 *
 * A command returns a vtb_status, which is the exit status. Texts for people go to stdout (results)
 * and stderr (progress, errors); with --json stdout carries one JSON document.
 */
#ifndef VTB_CLI_H
#define VTB_CLI_H

#include "frontend/compile/driver.h"
#include "frontend/document/document.h"
#include "ir/interp.h"
#include "runtime/artefact/init.h"
#include "runtime/artefact/safetensors.h"
#include "runtime/launch/threads.h"
#include "runtime/train/train.h"
#include "runtime/image/prepare.h"
#include "runtime/runner.h"

/* ---- command line ---------------------------------------------------------------------------- */

enum { CLI_MOST_POSITIVE = 1 << 20 }; /* batches, chunks: what shapes can be counted with */
/* CLI_INT from 0, CLI_POSITIVE from 1 to CLI_MOST_POSITIVE, CLI_IF_SAID likewise or without a
 * number, which is -1, CLI_THREADS from 0 to VTB_MOST_THREADS; CLI_SIZE is bytes, "4G", "512MiB".
 * Of texts the metavar can say more: CLI_CHOICE is a word of "fused|graph", CLI_FILE a file to
 * write that ends as in "FILE.svg|.png" (a word there that is no ending is taken too), CLI_FOLDER
 * is called like no file. */
typedef enum cli_opt_kind {
  CLI_FLAG,
  CLI_STR,
  CLI_CHOICE,
  CLI_FILE,
  CLI_FOLDER,
  CLI_INT,
  CLI_POSITIVE,
  CLI_IF_SAID,
  CLI_THREADS,
  CLI_SIZE,
  CLI_FLOAT,
  CLI_LIST
} cli_opt_kind;
typedef VTB_VEC(const char *) cli_list;

/* into: bool, const char *, int64_t, double or cli_list, by kind. Where help is shown, tables in
 * braces are their words: "{targets} (default cpu)" (frontend/compile/words.h). */
typedef struct cli_opt {
  const char *name; /* "--batch" or "-D" */
  cli_opt_kind kind;
  void *into;
  const char *metavar, *help;
} cli_opt;
#define CLI_COUNT(rows) ((int)(sizeof(rows) / sizeof *(rows)))

typedef struct cli_command {
  const char *name, *usage, *summary;
} cli_command; /* frontend/cli/commands.def */
extern const cli_command cli_commands[];
extern const int cli_n_commands;
const cli_command *cli_command_find(const char *name); /* NULL: there is none */
const char *cli_command_near(const char *name);        /* NULL: none is near */

/* Splits argv into options and positional arguments. Returns VTB_OK, VTB_E_USAGE (message printed),
 * or -1 after --help. Every command takes --json, whether it has a row for it or asks cli_json().
 */
int cli_parse(const char *command, const cli_opt *opts, int n_opts, int argc, char **argv,
              cli_list *positional);

typedef struct cli_model_options cli_model_options;

/* A command that is called. */
typedef struct cli_call {
  const char *command;
  const cli_opt *opts;
  int n_opts;
  const char *one, *some; /* what is said unless there is one argument, or at least one; NULL */
  /* err: printed afterwards, if there is a text */
  vtb_status (*run)(void *options, const cli_list *args, vtb_error *err);
  void *options;
  cli_model_options *model; /* NULL: none; complete when it runs, freed afterwards */
} cli_call;
/* Parses the words, runs the command and frees the lists that the options hold. */
vtb_status cli_run(const cli_call *c, int argc, char **argv);
/* The call of a function that has argc and argv. */
#define CLI_RUN(name, rows, ...)                                                                   \
  cli_run(&(cli_call){.command = name, .opts = rows, .n_opts = CLI_COUNT(rows), __VA_ARGS__},      \
          argc, argv)

/* True if an array of texts has this one. */
bool cli_is_among(const char *text, const char *const *list, size_t n);
#define CLI_IS_AMONG(text, list) cli_is_among(text, list, sizeof(list) / sizeof *(list))
/* NULL: there is none of that name. */
const cli_opt *cli_find_option(const cli_opt *opts, int n, const char *name);
/* The calls that follow are of cli_parse() that show the visitor the rows and parse nothing; NULL:
 * calls that parse. For cli_describe(). */
typedef void (*cli_option_visitor)(void *user, const cli_opt *o);
void cli_visit_options(cli_option_visitor visit, void *user);
extern const cli_opt cli_json_option; /* of commands without a row of their own */
void cli_print_options(const char *command, const cli_opt *opts, int n);
cJSON *cli_command_json(const cli_command *c);

/* ---- errors.c: messages and documents -------------------------------------------------------- */

/* Around everything else: whether --json is there; what was collected is written, and the exit
 * status returned. */
void cli_begin(int argc, char **argv);
int cli_end(int status);
bool cli_json(void);
/* Prints "vertebra: <text>" and returns the error's status. With --json the error is part of the
 * document. */
vtb_status cli_error(const vtb_error *err);
/* command: "" is the program itself */
vtb_status cli_usage_error(const char *command, const char *fmt, ...) VTB_PRINTF(2, 3);
vtb_status cli_diagnostics(vtb_diags *diags); /* prints and takes them; VTB_E_INPUT */
void cli_add_diagnostics(vtb_report *r);      /* errors of the report become part of the document */
/* Tells a document: on the terminal at once or, with --json, when it ends. Takes it over. */
void cli_tell(doc *d);
void cli_tell_markdown(doc *d);
/* Tells, of a document that is not complete, what people read up to now; the rest follows. */
void cli_tell_so_far(doc *d);
/* The command's document, which is written when it ends; takes it over. */
void cli_print_json(cJSON *json);
/* A member of the document, if it is one object, or of that of the command's failure; takes it
 * over. */
void cli_note_json(const char *name, cJSON *json);
/* With --json this process writes no document: of the ranks of a job the first one does. */
void cli_without_document(void);
/* To stdout as it is; with --json as {NAME: what, "text": text}. */
void cli_print_text(const char *name, const char *what, const char *text);

/* ---- wrap.c: the columns of a terminal ------------------------------------------------------- */

/* Columns of the terminal that a stream goes to, or of COLUMNS; 0: no terminal, any number. */
int cli_columns(FILE *f);
/* The text, its messages broken at the columns of a terminal. */
void cli_print_wrapped(FILE *f, const char *text);
/* A text for stdout, whose first line begins in column `at`, broken so that the others begin in
 * column `indent`; ends the last line. */
void cli_print_paragraph(const char *text, int at, int indent);
/* A sentence about what is done, on stderr: broken at the columns, names shown without what acts on
 * a terminal; a line of progress makes room. */
void cli_say(const char *fmt, ...) VTB_PRINTF(1, 2);
/* printf() of such a text from column 0 on, with the end of the line. */
void cli_printf(int indent, const char *fmt, ...) VTB_PRINTF(2, 3);
void cli_put_paragraph(FILE *f, const char *text, int columns, int at, int indent);
/* 1,234,567 */
const char *cli_grouped(int64_t n, char *buf, size_t size);
const char *cli_write_grouped(double n, char *buf, size_t size); /* of a column */
vtb_status cli_unknown_command(const char *name);                /* says so, and which is near */
/* Erases the line of progress, if one is on the screen; before anything is printed. progress.c */
void cli_progress_clear(void);

/* ---- targets --------------------------------------------------------------------------------- */

/* The targets that `wanted` names, one after the other; "all": those that need nothing but this
 * program. */
const vtb_target *cli_next_target(const char *wanted, const vtb_target *after);
/* The option's row of commands that run models. */
#define CLI_DEFAULT_OPTIMIZER "adamw"
#define CLI_DEFAULT_SCHEDULE "cosine"
#define CLI_TARGET_OPT(model)                                                                      \
  { "--target", CLI_STR, &(model).compile.target, "T", "{targets} (default cpu)" }

/* The option of commands that run models without training them. */
#define CLI_QUANTIZE_OPT(model)                                                                    \
  {                                                                                                \
    "--quantize", CLI_STR, &(model).compile.quantize, "int8",                                      \
        "on processors: products of 8-bit numbers with the weights; what cannot be is told"        \
  }

/* ---- models ---------------------------------------------------------------------------------- */

/* Reads the environment, for everything that the command does. VTB_E_USAGE. */
vtb_status cli_how_begin(vtb_error *err);
const vtb_behaviour *cli_how(void);

/* Options every command with a MODEL has; CLI_MODEL_OPTS() are their rows. */
struct cli_model_options {
  vtb_compile_options compile; /* complete after cli_model_parsed() */
  cli_list defines;            /* name=value */
  int64_t threads;
  bool json;
  bool said;          /* something, to whoever asked for --print-after or --time-passes */
  vtb_report *report; /* of everything the command compiles, so that a warning is said once */
};
/* The first and the last of them, which are one value for every command. */
#define CLI_SOURCE_OPTS(model)                                                                     \
  {"-D", CLI_LIST, &(model).defines, "NAME=VALUE",                                                 \
   "set a hyperparameter; VALUE is .vtb text, e.g. depth=12, paths=\"[rows, cols]\""},             \
  {                                                                                                \
    "--entry", CLI_STR, &(model).compile.entry, "NAME",                                            \
        "the model or preset of a file that declares several"                                      \
  }
#define CLI_OUTPUT_OPTS(model)                                                                     \
  {"--json", CLI_FLAG, &(model).json, NULL, "machine-readable output"},                            \
      {"--time-passes", CLI_FLAG, &(model).compile.time_passes, NULL,                              \
       "how long each pass took, on stderr"},                                                      \
  {                                                                                                \
    "--print-after", CLI_STR, &(model).compile.print_after, "PASS",                                \
        "print the IR after a pass, or after \"all\", on stderr"                                   \
  }
#define CLI_MODE_OPTS(model)                                                                       \
  {"--mode", CLI_STR, &(model).compile.mode, "MODE", "form of every recurrence: {modes}"},         \
      {"--chunk", CLI_POSITIVE, &(model).compile.chunk, "N",                                       \
       "chunk size; implies --mode chunkwise"},                                                    \
  {                                                                                                \
    "--no-tuning", CLI_FLAG, &(model).compile.no_tuning, NULL,                                     \
        "auto is not decided by what `vertebra tune` measured"                                     \
  }
#define CLI_MACHINE_OPTS(model)                                                                    \
  {"--threads", CLI_THREADS, &(model).threads, "N",                                                \
   "threads (default: VTB_THREADS, OMP_NUM_THREADS, or the cores)"},                               \
      {"--precision", CLI_STR, &(model).compile.precision, "P",                                    \
       "of products on CUDA: {precisions} (default fp32)"},                                        \
      {"--machine", CLI_STR, &(model).compile.machine, "GPU",                                      \
       "what code for CUDA is chosen for: {machines} (default h200), or a file"},                  \
      CLI_OUTPUT_OPTS(model)
#define CLI_STRIPS_OPT(model, name)                                                                \
  {                                                                                                \
    name, CLI_IF_SAID, &(model).compile.strips, "[N]",                                             \
        "the image goes through all layers N rows of patches at a time (none said: as many as "    \
        "are "                                                                                     \
        "best), so that memory does not grow with its height"                                      \
  }
#define CLI_MODEL_OPTS(model)                                                                      \
  CLI_SOURCE_OPTS(model),                                                                          \
      {"--image", CLI_STR, &(model).compile.image, "SIZE", "image size: 512 or 224x384"},          \
      CLI_MODE_OPTS(model),                                                                        \
      {"--batch", CLI_POSITIVE, &(model).compile.batch, "N", "images at a time"},                  \
      CLI_MACHINE_OPTS(model)
#define CLI_MEMORY_OPT(model, help)                                                                \
  { "--memory", CLI_SIZE, &(model).compile.memory, "SIZE", help }
#define CLI_RECOMPUTE_OPT(model)                                                                   \
  {                                                                                                \
    "--recompute", CLI_POSITIVE, &(model).compile.recompute, "N",                                  \
        "gradients compute the activations of the first N blocks again: less memory, same bits"    \
  }
/* The options are complete but for `model`; the report begins. */
void cli_model_parsed(cli_model_options *m);
void cli_model_options_free(cli_model_options *m);
void cli_define(cli_model_options *m, const char *define); /* is borrowed */

/* Prints what the report has to say since the last time, and why `status` is not VTB_OK. Returns
 * it. */
vtb_status cli_report(const cli_model_options *m, vtb_status status);
/* A copy of the options that compile `what`. */
vtb_compile_options cli_compile_options(const cli_model_options *m, const char *what);

/* Numbers of the parameters of a model's entry; those that are never trained among them. */
int64_t cli_count_params(const vtb_func *f, bool frozen_only);

/* ", test iou 0.7312" of every metric, and of losses where there are several. */
void cli_put_measures(vtb_strbuf *out, const vtb_measured_list *l, const char *prefix);

/* Bytes of memory that the process has had at most so far; 0: not known. peak.c */
int64_t cli_peak_bytes(void);

/* All buffers of a program, filled with plausible values; inputs and adjoints are random, those of
 * an update are left to its optimiser. Failure is left in `err`. */
void **cli_make_buffers(const vtb_program *p, vtb_error *err);
void cli_free_buffers(const vtb_program *p, void **buffers);
/* The optimiser of a program that updates itself, ready to be measured: clipping, and a learning
 * rate of zero, so that all runs do the same. NULL if it does not update. */
VTB_MUST_USE vtb_status cli_measured_update(const vtb_program *p, void **buffers, vtb_optim **out,
                                            vtb_error *err);
/* Mean seconds of a run, measured for about `seconds`. */
double cli_measure_run(const vtb_program *p, const vtb_services *s, double seconds, vtb_error *err);

VTB_MUST_USE vtb_status cli_program_image_size(const vtb_program *p, int *channels, int *height,
                                               int *width, vtb_error *err);

/* ---- subcommands: argv[0] is the subcommand -------------------------------------------------- */

#define X(name, usage, summary) vtb_status cli_cmd_##name(int argc, char **argv);
#include "frontend/cli/commands.def"
#undef X

#endif
