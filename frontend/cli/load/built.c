/* See built.h. */
#include "frontend/cli/load/built.h"
#include "runtime/launch/launch_walk.h"
#include "runtime/weights/rename.h"

#include <stdlib.h>
#include <string.h>

bool cli_is_built(const char *what) { return vtb_artefact_recognise(what); }

static const char *option_of_source(const cli_model_options *o) {
  const struct {
    const char *name;
    bool given;
  } options[] = {{"-D", o->defines.n > 0},
                 {"--entry", o->compile.entry != NULL},
                 {"--image", o->compile.image != NULL},
                 {"--mode", o->compile.mode != NULL},
                 {"--quantize", o->compile.quantize != NULL},
                 {"--chunk", o->compile.chunk != 0},
                 {"--time-passes", o->compile.time_passes},
                 {"--print-after", o->compile.print_after != NULL}};
  for (size_t i = 0; i < sizeof options / sizeof *options; i++)
    if (options[i].given) return options[i].name;
  return NULL;
}

vtb_status cli_built_open(const char *command, const char *path, const cli_model_options *o,
                          vtb_artefact **out) {
  vtb_error err = {0};
  const char *option = option_of_source(o);
  *out = NULL;
  if (option)
    return cli_usage_error(
        command, "%s cannot change %s, which is compiled: give it to vertebra build", option, path);
  vtb_status status = vtb_artefact_open(path, out, &err);
  if (status == VTB_OK) status = vtb_artefact_verify(*out, &err);
  if (status != VTB_OK) {
    vtb_artefact_close(*out);
    *out = NULL;
    return cli_error(&err);
  }
  const char *precision = vtb_artefact_manifest(*out)->precision;
  if (!o->compile.precision || strcmp(o->compile.precision, precision) == 0) return VTB_OK;
  status = cli_usage_error(command, "%s was built with --precision %s", path, precision);
  vtb_artefact_close(*out);
  *out = NULL;
  return status;
}

/* ---- programs -------------------------------------------------------------------------------- */

/* The program for that batch, else the first of the role. */
static const vtb_artefact_program *find_batch(const vtb_artefact *a, vtb_artefact_role role,
                                              int64_t batch) {
  const vtb_manifest *m = vtb_artefact_manifest(a);
  for (int i = 0; i < m->n_programs; i++)
    if (m->programs[i].role == role && m->programs[i].batch == batch) return &m->programs[i];
  return vtb_artefact_find(a, role);
}

static vtb_status run_plan(const vtb_artefact *a, const vtb_artefact_program *p,
                           const vtb_backend *on, vtb_program **program, vtb_error *err) {
  const vtb_behaviour *how = cli_how();
  vtb_launch_plan *plan;
  if (vtb_artefact_manifest(a)->library != vtb_compile_library_hash())
    return vtb_fail(err, VTB_E_INPUT,
                    "the file's kernels rely on the library of vertebra %s, which is another than "
                    "this one's: they "
                    "cannot be emulated here",
                    vtb_artefact_manifest(a)->compiler);
  VTB_TRY(vtb_artefact_read_plan(a, p, vtb_artefact_plan_for(p, how->emulator_arch), &plan, err));
  return on->run_plan(plan, how, program, err);
}

vtb_status cli_built_program(vtb_artefact *a, vtb_artefact_role role, const cli_model_options *o,
                             int64_t batch, vtb_program **program) {
  vtb_error err = {0};
  const char *target = o->compile.target ? o->compile.target : vtb_artefact_target(a);
  const vtb_artefact_program *p = find_batch(a, role, batch);
  if (p && batch && batch != p->batch) {
    vtb_fail(&err, VTB_E_USAGE,
             "the file's %s takes %lld images at a time, not %lld: build it again with --batch",
             vtb_artefact_role_names[role], (long long)p->batch, (long long)batch);
    return cli_error(&err);
  }
  const vtb_backend *on = vtb_backend_of(vtb_target_find(target));
  const vtb_device_choice where = {.how = cli_how()};
  vtb_status status = p ? VTB_OK : vtb_artefact_need(a, role, &p, &err);
  if (status == VTB_OK)
    status = on && on->run_plan ? run_plan(a, p, on, program, &err)
                                : vtb_artefact_load_on(a, p, target, &where, program, &err);
  if (status == VTB_OK) (*program)->warn = vtb_warn;
  return status == VTB_OK ? VTB_OK : cli_error(&err);
}

/* ---- what a file is -------------------------------------------------------------------------- */

static int64_t n_params(const vtb_artefact_program *p) {
  int64_t n = 0;
  for (int i = 0; i < p->n_tensors; i++)
    if (p->tensors[i].io == VTB_IO_PARAM) n += vtb_tensor_info_count(&p->tensors[i]);
  return n;
}

static uint64_t image_bytes(const vtb_artefact_images *m) {
  uint64_t n = 0;
  for (int i = 0; i < m->n; i++) n += m->at[i].bytes;
  return n;
}

/* Not the many: parameters, and gradients by them. */
static bool is_shown(const vtb_artefact_program *p, const vtb_tensor_info *t) {
  bool shown = t->io == VTB_IO_INPUT || t->io == VTB_IO_OUTPUT || t->io == VTB_IO_GRAD_IN;
  for (int i = 0; i < p->n_tensors && t->io == VTB_IO_GRAD_OUT && !shown; i++)
    shown = p->tensors[i].io == VTB_IO_INPUT && vtb_starts_with(t->name, "d:") &&
            vtb_streq(p->tensors[i].name, t->name + 2);
  return shown;
}

/* Roles of tensors; a terminal shows none of what only the runtime knows. */
static const struct {
  const char *name;
  bool shown;
} roles[] = {
    [VTB_IO_INPUT] = {"input", true},    [VTB_IO_PARAM] = {"param", true},
    [VTB_IO_BUFFER] = {"buffer", false}, [VTB_IO_GRAD_IN] = {"adjoint", true},
    [VTB_IO_OUTPUT] = {"output", true},  [VTB_IO_GRAD_OUT] = {"gradient", true},
    [VTB_IO_UPDATE] = {"update", false}, [VTB_IO_STATE] = {"state", false},
};

static void add_tensors(doc *d, cJSON *list, const vtb_artefact_program *p, bool list_params) {
  static const doc_column columns[] = {
      {.heading = "role", .width = -8},
      {.heading = "name", .width = -12, .most = -60},
      {.heading = "shape", .width = -1},
  };
  doc_table *table = DOC_TABLE(d, NULL, columns);
  table->indent = 4, table->gap = 1, table->headless = true;
  for (int i = 0; i < p->n_tensors; i++) {
    const vtb_tensor_info *t = &p->tensors[i];
    const char *role = roles[t->io].name;
    cJSON *item =
        doc_item(list, F("name", t->name), F("role", role), F("type", t->is_int ? "i32" : "f32"),
                 F("shape", doc_numbers(t->dim, t->rank)), K("init", t->init));
    if (t->io == VTB_IO_PARAM) doc_put(item, F("decay", t->decay));
    if (!roles[t->io].shown || !(is_shown(p, t) || list_params)) continue;
    vtb_strbuf shape = {0};
    vtb_strbuf_puts(&shape, t->is_int ? "i32 " : "");
    vtb_shape_print(&shape, t->rank, t->dim);
    doc_row(d, table, V(role), V(t->name), V(shape.at));
    vtb_strbuf_free(&shape);
  }
}

/* A plan, and what it was compiled to. */
static void add_plan(doc *d, const vtb_artefact *a, const vtb_artefact_program *p, int number) {
  const vtb_artefact_plan *of = &p->plans[number];
  vtb_launch_plan *plan;
  char name[40] = "CUDA";
  if (of->arch) snprintf(name, sizeof name, "CUDA, %.20s alone", of->arch);
  if (vtb_artefact_read_plan(a, p, number, &plan, NULL) != VTB_OK) return;
  doc_say(d, 6, "    %-20s %d kernels, %.0f launches, workspace %.1f MiB, state %.1f MiB; %.1f KiB",
          name, plan->n_kernels, vtb_launch_count(plan) + plan->n_prepared,
          (double)plan->workspace_bytes / 1048576, (double)plan->state_bytes / 1048576,
          (double)of->bytes.bytes / 1024);
  vtb_launch_plan_free(plan);
  for (int i = 0; i < p->n_images; i++)
    if (p->images[i].plan == number)
      doc_say(d, 8, "      %-18s %d images, %.1f KiB", p->images[i].arch, p->images[i].n,
              (double)image_bytes(&p->images[i]) / 1024);
}

static void add_program(doc *d, cJSON *list, const vtb_artefact *a, const vtb_artefact_program *p,
                        bool list_params) {
  char number[32], size[48] = "", kept[80] = "";
  const char *role = vtb_artefact_role_names[p->role];
  cJSON *out = doc_item(list, F("role", role), F("batch", p->batch), F("parameters", n_params(p)));
  cJSON *targets = cJSON_AddArrayToObject(out, "targets"),
        *tensors = cJSON_AddArrayToObject(out, "tensors"),
        *plans = cJSON_AddArrayToObject(out, "plans");
  if (p->height)
    snprintf(size, sizeof size, ", %lldx%lld", (long long)p->height, (long long)p->width);
  doc_say(d, 4, "  %s, batch %lld%s, %s parameters", role, (long long)p->batch, size,
          cli_grouped(n_params(p), number, sizeof number));
  add_tensors(d, tensors, p, list_params);
  for (int i = 0; i < p->n_codes; i++) {
    doc_append(targets, cJSON_CreateString(p->codes[i].cpu));
    if (p->codes[i].kept_bytes)
      snprintf(kept, sizeof kept, ", %.1f of them made of parameters, for all sessions",
               (double)p->codes[i].kept_bytes / 1048576);
    doc_say(d, 6, "    %-20s %d kernels, workspace %.1f MiB%s", p->codes[i].cpu,
            p->codes[i].n_kernels, (double)p->codes[i].workspace_bytes / 1048576, kept);
  }
  for (int i = 0; i < p->n_plans; i++) {
    doc_append(plans, cJSON_CreateString(p->plans[i].arch ? p->plans[i].arch : "all"));
    add_plan(d, a, p, i);
  }
  for (int i = 0; i < p->n_images; i++) doc_append(targets, cJSON_CreateString(p->images[i].arch));
}

/* Whose names of tensors the rules know: text is one line, and JSON all of them. */
static void add_rules(doc *d, const char *rules) {
  vtb_names names;
  vtb_strbuf whose = {0};
  vtb_names_init(&names);
  if (vtb_names_parse(&names, "rules", rules, NULL) == VTB_OK)
    for (size_t i = 0; i < names.sets.n; i++)
      vtb_strbuf_printf(&whose, "%s%s", i ? ", " : "", vtb_names_label(&names, i));
  doc_say(d, 19, "  %-16s %s", "names", whose.n ? whose.at : "rules that cannot be read");
  vtb_names_free(&names);
  vtb_strbuf_free(&whose);
}

void cli_built_show(const char *path, const vtb_artefact *a, bool list_params) {
  const vtb_manifest *m = vtb_artefact_manifest(a);
  doc *d = doc_new(doc_object(F("model", m->model), F("compiler", m->compiler),
                              F("format", VTB_ARTEFACT_FORMAT), F("precision", m->precision),
                              K("nvrtc", m->nvrtc), F("weight_bytes", m->weights.bytes)));
  cJSON *meta = cJSON_AddObjectToObject(d->json, "meta"),
        *programs = cJSON_AddArrayToObject(d->json, "programs");
  doc_say(d, 4, "%s: %s, built by vertebra %s (format %d)", path, m->model, m->compiler,
          VTB_ARTEFACT_FORMAT);
  for (int i = 0; i < m->n_meta; i++) {
    doc_put(meta, F(m->meta[i].key, m->meta[i].value));
    if (strcmp(m->meta[i].key, VTB_META_NAMES) == 0)
      add_rules(d, m->meta[i].value);
    else
      doc_say(d, 19, "  %-16s %s", m->meta[i].key, m->meta[i].value);
  }
  if (m->nvrtc) doc_say(d, 19, "  %-16s %s by %s", "CUDA", m->precision, m->nvrtc);
  if (m->weights.bytes)
    doc_say(d, 19, "  %-16s %.1f MiB", "weights", (double)m->weights.bytes / 1048576);
  else
    doc_say(d, 19, "  %-16s none in the file", "weights");
  for (int i = 0; i < m->n_programs; i++) add_program(d, programs, a, &m->programs[i], list_params);
  cli_tell(d);
}
