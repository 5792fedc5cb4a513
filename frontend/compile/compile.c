/* The calls of compile.h: each is one guard, so that memory that runs out is a status. */
#include "runtime/base/c_locale.h"
#include "frontend/compile/compile.h"

#include "frontend/compile/driver.h"
#include "frontend/compile/memory.h"
#include "frontend/compile/weights.h"
#include "ir/checks.h"
#include "runtime/behaviour.h"

#include <string.h>

typedef enum wanted { A_PROGRAM, A_FILE, A_TEXT, AN_ONNX, ENTRIES } wanted;

/* One call. What it has to say is collected in a report of its own, which the caller's takes over
 * when all is done: a call that is left in the middle leaves nothing half said. */
typedef struct call {
  wanted wanted;
  const vtb_compile_options *given;
  const char *stage, *processor, *path; /* of a text; of a file */
  const vtb_onnx_options *onnx;         /* NULL: defaults */
  vtb_onnx_summary *summary;            /* NULL: nobody asks */
  vtb_report *into, report;
  vtb_compile_options options;
  vtb_behaviour how; /* that the options come to */
  vtb_program *program;
  vtb_weights *taken; /* that the options' weights became; NULL: they are as the model has them */
  char *text;
} call;

/* The caller's options as far as they go. */
static vtb_status take_options(call *k, vtb_error *err) {
  vtb_compile_options *o = &k->options;
  if (!k->given || k->given->size < offsetof(vtb_compile_options, entry))
    return vtb_fail(err, VTB_E_USAGE, "the options' size must be sizeof(vtb_compile_options)");
  memcpy(o, k->given, k->given->size < sizeof *o ? k->given->size : sizeof *o);
  if (o->batch < 0 || o->chunk < 0 || o->eval_batch < 0)
    return vtb_fail(err, VTB_E_USAGE, "batch, eval_batch and chunk are at least 0");
  if (!o->batch && k->wanted != AN_ONNX) o->batch = 1;
  VTB_TRY(vtb_behaviour_of(o->behaviour, &k->how, err));
  o->behaviour = &k->how;
  if (!o->threads) o->threads = k->how.threads;
  if (k->how.verbose == VTB_YES) vtb_log_verbose(true);
  if (k->how.checks == VTB_YES) vtb_checks_begin();
  return VTB_OK;
}

static vtb_status make_program(call *k, vtb_compilation *c) {
  VTB_TRY(vtb_compilation_open(c, &k->options, &k->report));
  return vtb_compilation_program(c, k->options.batch, k->options.profile, &k->program);
}

static vtb_status make_text(call *k, vtb_compilation *c) {
  vtb_strbuf out = {0};
  vtb_status status = k->wanted == ENTRIES ? vtb__entries_text(&k->options, &out, &k->report)
                                           : vtb__stage_text(c, &k->options, k->stage, k->processor,
                                                             &out, &k->report);
  if (status == VTB_OK)
    k->text = out.at ? out.at : vtb_xstrdup("");
  else
    vtb_strbuf_free(&out);
  return status;
}

static vtb_status make_onnx(call *k) {
  vtb_onnx_options x = {.size = sizeof x};
  vtb_onnx_summary made = {0};
  if (k->onnx && k->onnx->size < offsetof(vtb_onnx_options, external))
    return vtb_fail(&k->report.error, VTB_E_USAGE, "the size must be sizeof(vtb_onnx_options)");
  if (k->onnx) memcpy(&x, k->onnx, k->onnx->size < sizeof x ? k->onnx->size : sizeof x);
  vtb_status status = vtb__onnx(&k->options, &x, k->path, &made, &k->report);
  if (k->summary) *k->summary = made;
  return status;
}

static vtb_status work(void *arg, vtb_error *err) {
  call *k = arg;
  vtb_compilation c = {0};
  vtb_status status = take_options(k, &k->report.error);
  if (status == VTB_OK && k->wanted != ENTRIES)
    status = vtb_load_into(&k->options, &k->taken, &k->report);
  if (status == VTB_OK) status = vtb_memory_decide(&k->options, &k->report);
  if (status == VTB_OK)
    status = k->wanted == A_PROGRAM ? make_program(k, &c)
             : k->wanted == A_FILE  ? vtb__build(&k->options, k->path, &k->report)
             : k->wanted == AN_ONNX ? make_onnx(k)
                                    : make_text(k, &c);
  vtb_compilation_free(&c);
  if (k->into) {
    *err = k->report.error;
    vtb__report_join(k->into, &k->report);
  }
  vtb__report_clear(&k->report);
  return status;
}

static vtb_status run_call(call *k) {
  vtb_error none = {0}, *err = k->into ? &k->into->error : &none;
  *err = (vtb_error){0};
  locale_t before = vtb_c_locale_begin();
  vtb_status status = vtb_guard(work, k, err);
  vtb_c_locale_end(before);
  if (status != VTB_OK || k->wanted != A_PROGRAM) {
    vtb_weights_free(k->taken);
    k->taken = NULL;
  }
  return status;
}

vtb_status vtb__compile_loaded(const vtb_compile_options *o, vtb_program **program,
                               vtb_weights **taken, vtb_report *r) {
  call k = {.wanted = A_PROGRAM, .given = o, .into = r};
  VTB_TRY(run_call(&k));
  *program = k.program;
  *taken = k.taken;
  return VTB_OK;
}

vtb_status vtb_compile(const vtb_compile_options *o, vtb_program **program, vtb_report *r) {
  vtb_weights *taken = NULL;
  vtb_status status = vtb__compile_loaded(o, program, &taken, r);
  vtb_weights_free(taken);
  return status;
}

vtb_status vtb_compile_file(const vtb_compile_options *o, const char *path, vtb_report *r) {
  return run_call(&(call){.wanted = A_FILE, .given = o, .path = path, .into = r});
}

vtb_status vtb_compile_onnx(const vtb_compile_options *o, const vtb_onnx_options *x,
                            const char *path, vtb_onnx_summary *s, vtb_report *r) {
  return run_call(
      &(call){.wanted = AN_ONNX, .given = o, .onnx = x, .path = path, .summary = s, .into = r});
}

vtb_status vtb_compile_stage(const vtb_compile_options *o, const char *stage, const char *processor,
                             char **text, vtb_report *r) {
  call k = {.wanted = A_TEXT, .given = o, .stage = stage, .processor = processor, .into = r};
  vtb_status status = run_call(&k);
  if (status == VTB_OK) *text = k.text;
  return status;
}

vtb_status vtb_compile_entries(const vtb_compile_options *o, char **json, vtb_report *r) {
  call k = {.wanted = ENTRIES, .given = o, .into = r};
  vtb_status status = run_call(&k);
  if (status == VTB_OK) *json = k.text;
  return status;
}
