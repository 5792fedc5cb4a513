/* The `vertebra` command: a leaf that nothing includes. One file a subcommand; this header is what
 * they share.
 *
 * A command returns a vtb_status, which is the exit status. Texts for people go to stdout (results)
 * and stderr (progress, errors); with --json stdout carries one JSON document.
 */
#ifndef VTB_CLI_H
#define VTB_CLI_H

#include "codegen/targets.h"
#include "frontend/lang/lang.h"
#include "ir/interp.h"
#include "runtime/train/init.h"
#include "runtime/artefact/safetensors.h"
#include "runtime/launch/threads.h"
#include "runtime/train/train.h"
#include "runtime/vertebra.h"

#include <cjson/cJSON.h>

/* ---- command line ---------------------------------------------------------------------------- */

typedef enum cli_opt_kind { CLI_FLAG, CLI_STR, CLI_INT, CLI_FLOAT, CLI_LIST } cli_opt_kind;
typedef VTB_VEC(const char *) cli_list;

/* into: bool, const char *, int64_t, double or cli_list, by kind. */
typedef struct cli_opt {
  const char *name; /* "--batch" or "-D" */
  cli_opt_kind kind;
  void *into;
  const char *metavar, *help;
} cli_opt;

typedef struct cli_command {
  const char *name, *usage, *summary;
} cli_command; /* frontend/cli/commands.def */
extern const cli_command cli_commands[];
extern const int cli_n_commands;

/* Splits argv into options and positional arguments. Returns VTB_OK, VTB_E_USAGE (message printed),
 * or -1 after --help. */
int cli_parse(const char *command, const cli_opt *opts, int n_opts, int argc, char **argv,
              cli_list *positional);
/* Prints "vertebra: <text>" and returns the error's status. */
vtb_status cli_error(const vtb_error *err);
vtb_status cli_usage_error(const char *command, const char *fmt, ...) VTB_PRINTF(2, 3);
/* The document, then frees it. */
void cli_print_json(cJSON *json);

/* ---- targets --------------------------------------------------------------------------------- */

#define CLI_DEFAULT_TARGET "cpu"

/* NULL is the default. Unless `interpreted`, it is one that code is made for. */
VTB_MUST_USE vtb_status cli_target(const char *name, bool interpreted, const vtb_target **out,
                                   vtb_error *err);
/* The targets that `wanted` names, one after the other; "all": those that need nothing but this
 * program. */
const vtb_target *cli_next_target(const char *wanted, const vtb_target *after);
/* The option's row of commands that run models. */
#define CLI_TARGET_OPT(model)                                                                      \
  { "--target", CLI_STR, &(model).target, "T", "cpu (default), cuda or cuda-emulated" }

/* ---- models ---------------------------------------------------------------------------------- */

/* Options every command with a MODEL has; cli_model_opts() gives their table rows. */
typedef struct cli_model_options {
  cli_list defines; /* name=value */
  const char *entry, *image, *mode;
  const char *target; /* of commands that run models; NULL: "cpu" */
  /* the image size that weights to be loaded were made for, where --image differs; else NULL */
  const char *made_for;
  int64_t chunk, batch, threads;
  bool time_passes, json;
  const char *print_after, *precision;
  bool library; /* large products by the vendor's library, whatever there is */
  /* What is compiled is a training step that CUDA targets end with this update of
   * vtb_codegen_options. */
  vtb_update_rule update;
  bool average;
} cli_model_options;
enum { CLI_N_MODEL_OPTS = 11 };
void cli_model_opts(cli_model_options *m, cli_opt *rows);

typedef struct cli_model {
  vtb_unit *unit;
  vtb_module *module;
  const char *name; /* of the entry function */
} cli_model;
void cli_model_free(cli_model *m);

/* MODEL is a .vtb file or the name of a preset, model, block, fn or recurrence. Diagnostics are
 * printed. */
VTB_MUST_USE vtb_status cli_model_load(const char *what, const cli_model_options *o,
                                       const vtb_instantiate_options *more, cli_model *out);
/* Runs a pipeline over the module; diagnostics are printed. */
VTB_MUST_USE vtb_status cli_run_passes(vtb_module *module, const cli_model_options *o,
                                       const char *pipeline, bool keep_taps, int64_t batch);
/* Runs the target's pipeline, with what code generation will be told. */
VTB_MUST_USE vtb_status cli_lower(vtb_module *module, const vtb_target *target,
                                  const vtb_codegen_options *code, const cli_model_options *o,
                                  bool keep_taps, int64_t batch);
/* The target's pipeline over a clone of the module with `f`'s name as entry, then its code. */
VTB_MUST_USE vtb_status cli_compile(const vtb_module *module, const char *func,
                                    const cli_model_options *o, int64_t batch, bool profile,
                                    vtb_program **program);
/* What code generation is told; whether the vendor's library is used where nobody said. */
VTB_MUST_USE vtb_status cli_codegen_options(const vtb_target *target, const cli_model_options *o,
                                            vtb_codegen_options *out, vtb_error *err);
/* The training step of a model loaded with training = true: autodiff included; *name is the new
 * entry. */
VTB_MUST_USE vtb_status cli_add_train_step(vtb_module *module, const cli_model_options *o,
                                           double label_smoothing, const char **name);

/* 1,234,567 */
const char *cli_grouped(int64_t n, char *buf, size_t size);

/* All buffers of a program, filled with plausible values; inputs and adjoints are random. Failure
 * is left in `err`. */
void **cli_make_buffers(const vtb_program *p, vtb_error *err);
void cli_free_buffers(const vtb_program *p, void **buffers);
/* Mean seconds of a run, measured for about `seconds`. */
double cli_measure_run(const vtb_program *p, const vtb_services *s, double seconds, vtb_error *err);

/* What --optimizer says: adamw or sgd. */
VTB_MUST_USE vtb_status cli_optimizer(const char *name, vtb_update_rule *out, vtb_error *err);

/* One f32 rank-4 input: its channels, height and width. */
VTB_MUST_USE vtb_status cli_image_size(const vtb_func *f, int *channels, int *height, int *width,
                                       vtb_error *err);
VTB_MUST_USE vtb_status cli_program_image_size(const vtb_program *p, int *channels, int *height,
                                               int *width, vtb_error *err);

/* ---- subcommands: argv[0] is the subcommand -------------------------------------------------- */

vtb_status cli_cmd_build(int argc, char **argv);
vtb_status cli_cmd_check(int argc, char **argv);
vtb_status cli_cmd_compare(int argc, char **argv);
vtb_status cli_cmd_run(int argc, char **argv);
vtb_status cli_cmd_train(int argc, char **argv);
vtb_status cli_cmd_eval(int argc, char **argv);
vtb_status cli_cmd_bench(int argc, char **argv);
vtb_status cli_cmd_verify(int argc, char **argv);
vtb_status cli_cmd_dump(int argc, char **argv);
vtb_status cli_cmd_paths(int argc, char **argv);
vtb_status cli_cmd_fmt(int argc, char **argv);
vtb_status cli_cmd_explain(int argc, char **argv);
vtb_status cli_cmd_cache(int argc, char **argv);
vtb_status cli_cmd_doctor(int argc, char **argv);

#endif
