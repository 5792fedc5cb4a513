/* The `vertebra` command: a leaf that nothing includes. One file a subcommand; this header is what they share.
 *
 * A command returns a vtb_status, which is the exit status. Texts for people go to stdout (results) and stderr
 * (progress, errors); with --json stdout carries one JSON document.
 */
#ifndef VTB_CLI_H
#define VTB_CLI_H

#include "codegen/codegen.h"
#include "frontend/lang/lang.h"
#include "ir/interp.h"
#include "runtime/train/init.h"
#include "runtime/artefact/safetensors.h"
#include "runtime/launch/threads.h"
#include "runtime/train/train.h"
#include "runtime/vertebra.h"

#include <cjson/cJSON.h>

/* ---- command line ------------------------------------------------------------------------------------------ */

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
  vtb_status (*run)(int argc, char **argv); /* argv[0] is the subcommand */
} cli_command;
extern const cli_command cli_commands[];
extern const int cli_n_commands;

/* Splits argv into options and positional arguments. Returns VTB_OK, VTB_E_USAGE (message printed), or -1 after --help.
 */
int cli_parse(const char *command, const cli_opt *opts, int n_opts, int argc, char **argv,
              cli_list *positional);
/* Prints "vertebra: <text>" and returns the error's status. */
vtb_status cli_error(const vtb_error *err);
vtb_status cli_usage_error(const char *command, const char *fmt, ...) VTB_PRINTF(2, 3);
/* The document, then frees it. */
void cli_print_json(cJSON *json);

/* ---- targets ----------------------------------------------------------------------------------------------- */

/* "interp", "cpu", "cuda-emulated", "cuda". */
typedef enum cli_target {
  CLI_TARGET_INTERP,
  CLI_TARGET_CPU,
  CLI_TARGET_CUDA_EMULATED,
  CLI_TARGET_CUDA,
  CLI_N_TARGETS
} cli_target;
extern const char *const cli_target_names[CLI_N_TARGETS];
bool cli_target_find(const char *name, cli_target *t);
/* The option's row of commands that run models. */
#define CLI_TARGET_OPT(model)                                                                      \
  { "--target", CLI_STR, &(model).target, "T", "cpu (default), cuda or cuda-emulated" }

/* ---- models ------------------------------------------------------------------------------------------------ */

/* Options every command with a MODEL has; cli_model_opts() gives their table rows. */
typedef struct cli_model_options {
  cli_list defines; /* name=value */
  const char *entry, *image, *mode;
  const char *target; /* of commands that run models; NULL: "cpu" */
  const char *
      made_for; /* the image size that weights to be loaded were made for, where --image differs; else NULL */
  int64_t chunk, batch, threads;
  bool time_passes, json;
  const char *print_after, *precision;
  /* What is compiled is a training step that CUDA targets end with this update of vtb_cuda_options. */
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

/* MODEL is a .vtb file or the name of a preset, model, block, fn or recurrence. Diagnostics are printed. */
VTB_MUST_USE vtb_status cli_model_load(const char *what, const cli_model_options *o,
                                       const vtb_instantiate_options *more, cli_model *out);
/* Runs a pipeline over the module; diagnostics are printed. */
VTB_MUST_USE vtb_status cli_run_passes(vtb_module *module, const cli_model_options *o,
                                       const char *pipeline, bool keep_taps, int64_t batch);
/* Graph and code generation pipelines over a clone of the module with `f`'s name as entry, then the JIT. */
VTB_MUST_USE vtb_status cli_compile(const vtb_module *module, const char *func,
                                    const cli_model_options *o, int64_t batch, bool profile,
                                    vtb_program **program);
/* The module is after the code passes. Never falls back from one target to another. */
VTB_MUST_USE vtb_status cli_make_program(vtb_module *m, cli_target target,
                                         const cli_model_options *o, bool profile,
                                         vtb_program **program, vtb_error *err);
/* The plan of a module after the code passes, checked: every plan is before it runs anywhere. */
VTB_MUST_USE vtb_status cli_make_plan(vtb_module *m, const vtb_cuda_options *options,
                                      vtb_launch_plan **plan, vtb_error *err);
/* Takes the plan, also on failure. */
VTB_MUST_USE vtb_status cli_emulate_plan(vtb_launch_plan *plan, vtb_program **program,
                                         vtb_error *err);
/* The training step of a model loaded with training = true: autodiff included; *name is the new entry. */
VTB_MUST_USE vtb_status cli_add_train_step(vtb_module *module, const cli_model_options *o,
                                           double label_smoothing, const char **name);

/* 1,234,567 */
const char *cli_grouped(int64_t n, char *buf, size_t size);

/* All buffers of a program, filled with plausible values; inputs and adjoints are random. Failure is left in `err`. */
void **cli_make_buffers(const vtb_program *p, vtb_error *err);
void cli_free_buffers(const vtb_program *p, void **buffers);
/* Mean seconds of a run, measured for about `seconds`. */
double cli_measure_run(const vtb_program *p, const vtb_services *s, double seconds, vtb_error *err);

/* What --precision says, for products on CUDA: fp32 (default), tf32, bf16, fp16. */
VTB_MUST_USE vtb_status cli_precision(const char *text, vtb_cuda_precision *out, vtb_error *err);

/* What --optimizer says: adamw or sgd. */
VTB_MUST_USE vtb_status cli_optimizer(const char *name, vtb_update_rule *out, vtb_error *err);

/* One f32 rank-4 input: its channels, height and width. */
VTB_MUST_USE vtb_status cli_image_size(const vtb_func *f, int *channels, int *height, int *width,
                                       vtb_error *err);
VTB_MUST_USE vtb_status cli_program_image_size(const vtb_program *p, int *channels, int *height,
                                               int *width, vtb_error *err);

/* ---- subcommands ------------------------------------------------------------------------------------------- */

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
