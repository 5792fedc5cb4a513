/* From a module after its target's passes to a program, on the target the user named. */
#include "frontend/cli/cli.h"

const vtb_target *cli_next_target(const char *wanted, const vtb_target *after) {
  size_t n;
  const vtb_target *table = vtb_targets(&n);
  for (const vtb_target *t = after ? after + 1 : table; t < table + n; t++)
    if (vtb_streq(wanted, "all") ? !t->needs : vtb_streq(wanted, t->name)) return t;
  return NULL;
}

/* "cpu, cuda and cuda-emulated" */
static void list_targets(bool interpreted, vtb_strbuf *out) {
  size_t n;
  const vtb_target *table = vtb_targets(&n);
  for (size_t i = 0; i < n; i++)
    if (interpreted || vtb_backend_of(&table[i]))
      vtb_strbuf_printf(out, "%s%s", !out->n ? "" : i + 1 == n ? " and " : ", ", table[i].name);
}

vtb_status cli_target(const char *name, bool interpreted, const vtb_target **out, vtb_error *err) {
  *out = vtb_target_find(name ? name : CLI_DEFAULT_TARGET);
  if (*out && (interpreted || vtb_backend_of(*out))) return VTB_OK;
  vtb_strbuf names = {0};
  list_targets(interpreted, &names);
  vtb_fail(err, VTB_E_USAGE, "unknown target '%s'; there are %s", name, names.at);
  vtb_strbuf_free(&names);
  return VTB_E_USAGE;
}

vtb_status cli_codegen_options(const vtb_target *target, const cli_model_options *o,
                               vtb_codegen_options *out, vtb_error *err) {
  const vtb_backend *backend = vtb_backend_of(target);
  *out = (vtb_codegen_options){.update = o->update, .average = o->average};
  vtb_status status = vtb_precision_find(o->precision, &out->precision, err);
  if (status == VTB_OK) status = vtb_target_knows(target, out->precision, err);
  if (status == VTB_OK && backend)
    out->library = o->library || (backend->library && backend->library());
  return status;
}
