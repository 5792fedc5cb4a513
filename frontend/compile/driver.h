/* The steps of a compilation one by one, for those who need what is between them: the command line,
 * tests.
 *
 * A vtb_compilation goes load, graph, train if wanted, then program (any number of times) or lower.
 * Every step leaves what is wrong in the report. Ownership: the compilation owns unit and module;
 * the report and what the options point to must outlive it.
 */
#ifndef VTB_COMPILE_DRIVER_H
#define VTB_COMPILE_DRIVER_H

#include "codegen/targets.h"
#include "frontend/compile/compile.h"
#include "frontend/lang/lang.h"
#include "passes/strips/run.h"

/* ---- reports --------------------------------------------------------------------------------- */

struct vtb_report {
  vtb_error error;
  vtb_diags diags;
  bool told_int8;            /* which products are */
  size_t n_shown;            /* of diags.list, by vtb_report_text() */
  VTB_VEC(vtb_unit *) units; /* whose sources diagnostics point into */
  vtb_arena arena;           /* of `list` */
  VTB_VEC(vtb_diagnostic) list;
};
/* Takes what `diags` has, but warnings that the report has already, and frees the rest. */
void vtb__report_take(vtb_report *r, vtb_diags *diags);
/* Takes over what another report has. */
void vtb__report_join(vtb_report *r, vtb_report *from);
void vtb__report_clear(vtb_report *r); /* what it has, not itself */
/* Takes what a step left: its diagnostics, and its error unless a diagnostic says it. */
void vtb__report_end(vtb_report *r, vtb_status status, vtb_diags *diags, const vtb_error *err);

/* A program by itself; the caller's to free. Like the functions of compile.h. */
VTB_MUST_USE vtb_status vtb_compile(const vtb_compile_options *o, vtb_program **program,
                                    vtb_report *r);

/* The same, with what the options' weights became (weights.h), the caller's; NULL: they are as the
 * model has them. */
VTB_MUST_USE vtb_status vtb__compile_loaded(const vtb_compile_options *o, vtb_program **program,
                                            struct vtb_weights **taken, vtb_report *r);

/* The file of the options, parsed; NULL after errors. */
vtb_unit *vtb__compile_unit(const vtb_compile_options *o, vtb_diags *diags);

/* ---- compilations ---------------------------------------------------------------------------- */

typedef struct vtb_compilation {
  vtb_compile_options options;
  vtb_report *report;
  vtb_unit *unit;
  vtb_module *module;
  const char *func;             /* what is compiled, in the module */
  VTB_VEC(char *) settings;     /* the defines that hold: the options' and those of the weights */
  char *entry;                  /* that the weights are of; NULL: they do not say */
  size_t n_before;              /* diagnostics of the report before it began */
  struct vtb_compilation *rule; /* whose optimiser is behind the training step; NULL: none */
  int64_t recomputed;           /* blocks, of a training step */
  vtb_tuning tuning;            /* of one that is lowered: what its modes were decided by */
  vtb_pass_context context;     /* likewise: how it was lowered, for vtb_mode_reason() */
  vtb_decisions decisions;      /* likewise: about fusions */
  vtb_strips strips;            /* of a graph in strips: how many of which height */
} vtb_compilation;

/* more: overrides before the options', shapes of a block's inputs, whether it is training; may
 * be NULL. */
VTB_MUST_USE vtb_status vtb_compilation_load(vtb_compilation *c, const vtb_compile_options *o,
                                             const vtb_instantiate_options *more, vtb_report *r);
void vtb_compilation_free(vtb_compilation *c);
/* The size of its one f32 input of rank 4. VTB_E_INPUT if there is none. */
VTB_MUST_USE vtb_status vtb_compilation_image_size(const vtb_compilation *c, int *channels,
                                                   int *height, int *width);
/* Runs a pipeline over the module. */
VTB_MUST_USE vtb_status vtb_compilation_run(vtb_compilation *c, const char *pipeline);
/* The same with what passes are told; module, modes and listeners are the compilation's. */
VTB_MUST_USE vtb_status vtb__run_passes(vtb_compilation *c, vtb_pass_context context,
                                        const char *pipeline);
VTB_MUST_USE vtb_status vtb_compilation_graph(vtb_compilation *c);
/* The symbolic batch becomes a number, and what follows from it is simplified. */
VTB_MUST_USE vtb_status vtb_compilation_bind(vtb_compilation *c, int64_t batch);
/* The training step becomes what is compiled, with the update of the options' optimiser. */
VTB_MUST_USE vtb_status vtb_compilation_train(vtb_compilation *c);
/* The measures of the model become what is compiled; VTB_E_INPUT if it declares nothing. */
VTB_MUST_USE vtb_status vtb_compilation_evaluation(vtb_compilation *c);
/* Warnings of what a training step would leave untrained; of a compilation whose options say
 * evaluation, at graph level. */
void vtb_compilation_check_training(vtb_compilation *c);
/* The options' optimiser behind the step. */
VTB_MUST_USE vtb_status vtb_compilation_update(vtb_compilation *c);

/* "lamb(beta1 = 0.95)" taken apart; free it after failures too. kind: "optimizer", "schedule", for
 * messages. */
typedef struct vtb_rule_choice {
  const char *what;         /* a name, a file, or a name of a file, "my.vtb:halves" */
  const char *file, *entry; /* entry NULL: the file's only one */
  VTB_VEC(const char *) defines;
  vtb_arena arena;
} vtb_rule_choice;
VTB_MUST_USE vtb_status vtb_rule_parse(const char *text, const char *kind, vtb_rule_choice *out,
                                       vtb_error *err);
/* Fills file and entry. VTB_E_USAGE, with the names there are, of a name that no file of the search
 * folders declares. */
VTB_MUST_USE vtb_status vtb_rule_find(vtb_rule_choice *choice, vtb_decl_kind kind,
                                      const vtb_compile_options *o, vtb_error *err);
/* VTB_E_USAGE, with their names, of a file that declares several where none is chosen. */
VTB_MUST_USE vtb_status vtb_rule_of_unit(const vtb_rule_choice *choice, vtb_decl_kind kind,
                                         const vtb_unit *u, vtb_error *err);
void vtb_rule_free(vtb_rule_choice *o);

/* A schedule by its name or file, "step(every = 30)", asked update by update; the options say where
 * names are looked for. Free it after failures too; the report must outlive it. */
typedef struct vtb_schedule_source vtb_schedule_source;
VTB_MUST_USE vtb_status vtb_schedule_open(const char *text, const vtb_compile_options *o,
                                          vtb_schedule_source **out, vtb_report *r);
VTB_MUST_USE vtb_status vtb_schedule_at(vtb_schedule_source *s, const vtb_moment *m,
                                        vtb_pace *pace);
/* Asks it at some hundred places of the run, the first and the last among them. */
VTB_MUST_USE vtb_status vtb_schedule_try(vtb_schedule_source *s, const vtb_moment *m);
bool vtb_schedule_reads(const vtb_schedule_source *s, const char *name); /* a name of its body */
vtb_unit *vtb_schedule_unit(const vtb_schedule_source *s);
void vtb_schedule_free(vtb_schedule_source *s);

/* The gradient of the entry's results `outs` by its arguments `wrt` (vtb_autodiff) becomes what
 * is compiled. */
VTB_MUST_USE vtb_status vtb_compilation_gradient(vtb_compilation *c, const int *outs, int n_outs,
                                                 const int *wrt, int n_wrt);
/* Likewise one half of it. */
VTB_MUST_USE vtb_status vtb_compilation_half(vtb_compilation *c, bool backward, const int *outs,
                                             int n_outs, const int *wrt, int n_wrt);
/* Numbers of rows, by which random numbers are, count from the input
 * VTB_RANK_FIRST (runtime/base/update.h), if there is such. */
VTB_MUST_USE vtb_status vtb_compilation_number_rows(vtb_compilation *c);
/* The part of the options becomes what is compiled (part.c). */
VTB_MUST_USE vtb_status vtb_compilation_part(vtb_compilation *c);
/* Outputs: of what is loaded only the options' outputs stay. */
VTB_MUST_USE vtb_status vtb_compilation_outputs(vtb_compilation *c);
/* Shapes of the options as bindings; the list is for vtb_vec_free(), names are in the arena. */
typedef VTB_VEC(vtb_shape_binding) vtb_shape_bindings;
VTB_MUST_USE vtb_status vtb_compile_shapes(const vtb_compile_options *o, vtb_arena *arena,
                                           vtb_shape_bindings *out, vtb_error *err);
/* load, graph and what the options say: train, evaluation, the part. */
VTB_MUST_USE vtb_status vtb_compilation_open(vtb_compilation *c, const vtb_compile_options *o,
                                             vtb_report *r);
/* A compilation of the same options with a copy of the module, over which the target's passes
 * have run. */
VTB_MUST_USE vtb_status vtb_compilation_lower(const vtb_compilation *c, const vtb_target *target,
                                              const vtb_codegen_options *code, int64_t batch,
                                              vtb_compilation *lowered);
/* Likewise, but only the batch is bound and modes are chosen as on the way to `target`. */
VTB_MUST_USE vtb_status vtb_compilation_modes(const vtb_compilation *c, const vtb_target *target,
                                              const vtb_codegen_options *code, int64_t batch,
                                              vtb_compilation *lowered);
/* A program for the options' target; the module stays as it is. */
VTB_MUST_USE vtb_status vtb_compilation_program(const vtb_compilation *c, int64_t batch,
                                                bool profile, vtb_program **program);
/* A limit that is enough for so many bytes, as it is typed: "1946M", "4G", "700K". */
const char *vtb_memory_typed(int64_t bytes, char text[24]);
/* VTB_E_USAGE: nothing takes less than so many bytes. how: by what, ", at once", or "". */
VTB_MUST_USE vtb_status vtb_memory_refuse(int64_t bytes, const char *how, vtb_error *err);
/* VTB_E_USAGE if it takes more than so many bytes, its workspace and tensors; 0: any number. */
VTB_MUST_USE vtb_status vtb_program_within(const vtb_program *p, int64_t memory, vtb_error *err);

/* Says of options with strips "16 strips of 4 rows of patches: workspace 9.1 MiB instead of 144.0",
 * where their program takes so many bytes (0: not known); strips.c. It plans memory of whole
 * images. */
VTB_MUST_USE vtb_status vtb_compile_strips(const vtb_compile_options *o, int64_t bytes,
                                           vtb_strbuf *out);

/* ---- augment (augment.c) --------------------------------------------------------------------- */

/* Programs of a model's `augment { }`: for each of its images one of one sample, on processors;
 * images of one size share it. */
typedef struct vtb_augments {
  struct vtb_augment *at; /* runtime/data/dataset.h */
  size_t n;
  VTB_VEC(vtb_program *) programs;
  vtb_arena arena;
} vtb_augments;
/* loaded: a model before passes ran over it; if it says nothing there are none. */
VTB_MUST_USE vtb_status vtb_compile_augments(const vtb_compilation *loaded, vtb_augments *out,
                                             vtb_report *r);
void vtb_augments_free(vtb_augments *a); /* zeros are fine */

/* ---- targets (program.c) --------------------------------------------------------------------- */

#define VTB_DEFAULT_TARGET "cpu"

/* NULL is the default. Unless `interpreted`, programs can be made for it. VTB_E_USAGE if
 * there is none. */
VTB_MUST_USE vtb_status vtb_compile_target(const char *name, bool interpreted,
                                           const vtb_target **out, vtb_error *err);
/* The options of code generation, with how it is done (behaviour.h), and whether the vendor's
 * library is used where nobody said. */
VTB_MUST_USE vtb_status vtb_compile_code(const vtb_target *target, const vtb_compile_options *o,
                                         vtb_codegen_options *out, vtb_error *err);
/* A GPU's name, or a file's; NULL: as `how` says, else the default (passes/cost/gpu.h).
 * VTB_E_USAGE, with the names there are, if it is none. */
VTB_MUST_USE vtb_status vtb_compile_gpu(const char *machine, const vtb_behaviour *how, vtb_gpu *out,
                                        vtb_error *err);
/* Such a file (gpu.c); the text is for vtb_free(). */
char *vtb_gpu_write(const vtb_gpu *g);
/* A hash of the texts that a plan's sources rely on: kernels of a file are emulated only with those
 * they were built with. */
uint64_t vtb_compile_library_hash(void);

/* ---- stages (stage.c) and files (file.c) ----------------------------------------------------- */

/* Opens *c as far as the stage needs it; its text is appended to `out`. */
VTB_MUST_USE vtb_status vtb__stage_text(vtb_compilation *c, vtb_compile_options *o,
                                        const char *stage, const char *processor, vtb_strbuf *out,
                                        vtb_report *r);
VTB_MUST_USE vtb_status vtb__build(const vtb_compile_options *o, const char *path, vtb_report *r);
/* onnx.c; o->batch 0: symbolic. */
VTB_MUST_USE vtb_status vtb__onnx(const vtb_compile_options *o, const vtb_onnx_options *x,
                                  const char *path, vtb_onnx_summary *s, vtb_report *r);
/* vtb_compile_entries(), appended to `out`. */
VTB_MUST_USE vtb_status vtb__entries_text(const vtb_compile_options *o, vtb_strbuf *out,
                                          vtb_report *r);
/* A JSON list of the defines that hold; for cJSON_free(). */
char *vtb_compilation_settings(const vtb_compilation *c);

#endif
