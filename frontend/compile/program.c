/* From a module to a program, on the target that the options name. */
#include "frontend/compile/driver.h"
#include "frontend/compile/words.h"
#include "runtime/behaviour.h"
#include "ir/axes.h"

/* ---- what the options say -------------------------------------------------------------------- */

/* True if the target is one that can be meant: of any kind, or that programs are made for. */
static bool can_be(const vtb_target *t, bool interpreted) {
  return interpreted || (vtb_backend_of(t) && vtb_target_runs(t));
}

/* "cpu, cuda and cuda-emulated" */
static void list_targets(bool interpreted, vtb_strbuf *out) {
  size_t n, last = 0;
  const vtb_target *table = vtb_targets(&n);
  for (size_t i = 0; i < n; i++)
    if (can_be(&table[i], interpreted)) last = i;
  for (size_t i = 0; i <= last; i++)
    if (can_be(&table[i], interpreted))
      vtb_strbuf_printf(out, "%s%s", !out->n ? "" : i == last ? " and " : ", ", table[i].name);
}

/* "target c makes no programs, which cpu and cuda do: it has the text sources (vertebra dump
 * --stage)" */
static vtb_status no_programs(const vtb_target *t, const char *others, vtb_error *err) {
  vtb_strbuf texts = {0};
  const vtb_backend_text *text = vtb_backend_of(t)->texts;
  for (; text && text->stage; text++)
    vtb_strbuf_printf(&texts, "%s%s", texts.n ? ", " : ": it has ", text->stage);
  vtb_fail(err, VTB_E_USAGE, "target %s makes no programs, as %s do%s%s", t->name, others,
           vtb_strbuf_text(&texts), texts.n ? " (vertebra dump --stage)" : "");
  vtb_strbuf_free(&texts);
  return VTB_E_USAGE;
}

vtb_status vtb_compile_target(const char *name, bool interpreted, const vtb_target **out,
                              vtb_error *err) {
  *out = vtb_target_find(name ? name : VTB_DEFAULT_TARGET);
  if (*out && can_be(*out, interpreted)) return VTB_OK;
  vtb_strbuf names = {0};
  list_targets(interpreted, &names);
  if (*out && vtb_backend_of(*out))
    (void)no_programs(*out, names.at, err);
  else
    vtb_fail(err, VTB_E_USAGE, "unknown target '%s'; there are %s", name, names.at);
  vtb_strbuf_free(&names);
  return VTB_E_USAGE;
}

static vtb_status read_quantize(const vtb_target *target, const vtb_compile_options *o, bool *out,
                                vtb_error *err) {
  if (!o->quantize) return VTB_OK;
  if (!vtb_streq(o->quantize, "int8"))
    return vtb_fail(err, VTB_E_USAGE, "nothing is quantized to '%s': there is int8", o->quantize);
  if (!target->int8)
    return vtb_fail(err, VTB_E_USAGE, "target %s does not know int8: processors do (cpu)",
                    target->name);
  if (o->training || o->part || o->vjp)
    return vtb_fail(
        err, VTB_E_USAGE,
        "int8 is of inference: gradients are of weights in float32, without --quantize");
  *out = true;
  return VTB_OK;
}

vtb_status vtb_compile_code(const vtb_target *target, const vtb_compile_options *o,
                            vtb_codegen_options *out, vtb_error *err) {
  const vtb_backend *backend = vtb_backend_of(target);
  *out = (vtb_codegen_options){
      .profile = o->profile, .cpu = o->cpu, .bucket_bytes = (int64_t)(o->bucket_mb * 1e6)};
  VTB_TRY(vtb_behaviour_of(o->behaviour, &out->how, err));
  vtb_status status = vtb_precision_find(o->precision, &out->precision, err);
  if (status == VTB_OK) status = vtb_target_knows(target, out->precision, err);
  if (status == VTB_OK) status = read_quantize(target, o, &out->int8, err);
  bool device = o->machine || (backend && backend->plan);
  if (status == VTB_OK && device) status = vtb_compile_gpu(o->machine, &out->how, &out->gpu, err);
  if (status != VTB_OK || !backend || o->library == VTB_LIBRARY_NO) return status;
  bool said = out->how.cublas != VTB_UNSAID, yes = out->how.cublas == VTB_YES;
  out->library =
      o->library == VTB_LIBRARY_YES || (backend->library && (said ? yes : backend->library()));
  return VTB_OK;
}

uint64_t vtb_compile_library_hash(void) {
  return vtb_hash_str(vtb_hash_str(VTB_HASH_INIT, vtb_cuda_intrinsics()), vtb_cuda_library());
}

/* ---- memory ---------------------------------------------------------------------------------- */

const char *vtb_memory_typed(int64_t bytes, char text[24]) {
  enum { KIB = 1 << 10, MIB = 1 << 20, GIB = 1 << 30, FINE = 16 * MIB };
  bool fine = bytes < FINE && bytes % MIB;
  int64_t unit = fine ? KIB : bytes % GIB ? MIB : GIB, n = (bytes + unit - 1) / unit;
  if (!fine && unit == MIB && n % 1024 == 0) unit = GIB, n /= 1024;
  snprintf(text, 24, "%lld%c", (long long)n, unit == KIB ? 'K' : unit == MIB ? 'M' : 'G');
  return text;
}

vtb_status vtb_memory_refuse(int64_t bytes, const char *how, vtb_error *err) {
  char least[24];
  return vtb_fail(
      err, VTB_E_USAGE,
      "the program needs at least %.1f MiB%s: --memory %s, or a smaller batch, --image or model",
      (double)bytes / 1048576, how, vtb_memory_typed(bytes, least));
}

vtb_status vtb_program_within(const vtb_program *p, int64_t memory, vtb_error *err) {
  int64_t bytes = p->workspace_bytes + p->device_workspace_bytes;
  for (int i = 0; i < p->n_tensors; i++)
    if (p->tensors[i].io != VTB_IO_UPDATE) bytes += 4 * vtb_tensor_info_count(&p->tensors[i]);
  return memory && bytes > memory ? vtb_memory_refuse(bytes, "", err) : VTB_OK;
}

/* ---- programs -------------------------------------------------------------------------------- */

/* Never falls back from one target to another. */
vtb_status vtb_compilation_program(const vtb_compilation *c, int64_t batch, bool profile,
                                   vtb_program **program) {
  double start = vtb_now();
  const vtb_target *target;
  vtb_codegen_options code;
  vtb_compilation lowered;
  vtb_error *err = &c->report->error;
  VTB_TRY(vtb_compile_target(c->options.target, false, &target, err));
  VTB_TRY(vtb_compile_code(target, &c->options, &code, err));
  code.profile = profile;
  vtb_status status = vtb_compilation_lower(c, target, &code, batch, &lowered);
  vtb_module *m = lowered.module;
  if (status == VTB_OK) status = vtb_backend_of(target)->program(m, m->entry, &code, program, err);
  vtb_compilation_free(&lowered);
  if (status != VTB_OK) return status;
  status = vtb_program_within(*program, c->options.memory, err);
  if (status != VTB_OK) {
    vtb_program_free(*program);
    *program = NULL;
    return status;
  }
  (*program)->compile_seconds = vtb_now() - start;
  (*program)->warn = vtb_warn;
  (*program)->samples_meet = vtb_samples_meet(c->module);
  if (c->module->prepare)
    snprintf((*program)->prepare, sizeof(*program)->prepare, "%s", c->module->prepare);
  return status;
}
