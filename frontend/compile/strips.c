/* A sentence about what strips of rows save. */
#include "codegen/memory_plan.h"
#include "frontend/compile/driver.h"

/* The strips of the options' model, and where memory is asked for bytes of its plan on their first
 * target. */
static vtb_status plan(const vtb_compile_options *o, vtb_strips *made, int64_t *bytes,
                       vtb_report *r) {
  const vtb_target *target;
  vtb_codegen_options code;
  vtb_compilation c, lowered;
  vtb_plan p;
  VTB_TRY(vtb_compile_target(o->target, false, &target, &r->error));
  VTB_TRY(vtb_compile_code(target, o, &code, &r->error));
  vtb_status status = vtb_compilation_open(&c, o, r);
  if (status == VTB_OK) *made = c.strips;
  if (status == VTB_OK && bytes) {
    status = vtb_compilation_lower(&c, target, &code, o->batch ? o->batch : 1, &lowered);
    vtb_module *m = lowered.module;
    if (status == VTB_OK) status = vtb_plan_memory(m, m->entry, &target->places, &p, &r->error);
    if (status == VTB_OK) *bytes = p.peak_bytes;
    if (status == VTB_OK) vtb_plan_free(&p);
    vtb_compilation_free(&lowered);
  }
  vtb_compilation_free(&c);
  return status;
}

static const char *plural(int64_t n) { return n == 1 ? "" : "s"; }

vtb_status vtb_compile_strips(const vtb_compile_options *o, int64_t bytes, vtb_strbuf *out) {
  vtb_compile_options whole = *o;
  vtb_strips made = {0}, none;
  int64_t instead = 0;
  vtb_report *r = vtb_report_new();
  whole.strips = 0;
  vtb_status status = r ? plan(o, &made, NULL, r) : VTB_E_MEMORY;
  if (status == VTB_OK) status = plan(&whole, &none, &instead, r);
  vtb_report_free(r);
  if (status != VTB_OK) return status;
  int64_t others = made.rows - made.count * made.height;
  vtb_strbuf_printf(out, "%lld strip%s of %lld row%s of patches", (long long)made.count,
                    plural(made.count), (long long)made.height, plural(made.height));
  if (others) vtb_strbuf_printf(out, " and %lld row%s", (long long)others, plural(others));
  vtb_strbuf_puts(out, ": workspace ");
  if (bytes) vtb_strbuf_printf(out, "%.1f MiB instead of ", (double)bytes / 1048576);
  vtb_strbuf_printf(out, bytes ? "%.1f" : "of whole images %.1f MiB", (double)instead / 1048576);
  return VTB_OK;
}
