/* See built.h. */
#include "frontend/cli/load/built.h"

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
  vtb_launch_plan *plan;
  if (vtb_artefact_manifest(a)->library != vtb_compile_library_hash())
    return vtb_fail(err, VTB_E_INPUT,
                    "the file's kernels rely on the library of vertebra %s, which is another than "
                    "this one's: they "
                    "cannot be emulated here",
                    vtb_artefact_manifest(a)->compiler);
  VTB_TRY(vtb_artefact_read_plan(a, p, vtb_artefact_plan_for(p, getenv("VTB_EMULATOR_ARCH")), &plan,
                                 err));
  return on->run_plan(plan, program, err);
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
  vtb_status status = p ? VTB_OK : vtb_artefact_need(a, role, &p, &err);
  if (status == VTB_OK)
    status = on && on->run_plan ? run_plan(a, p, on, program, &err)
                                : vtb_artefact_load_program(a, p, target, program, &err);
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

static void print_tensors(const vtb_artefact_program *p, bool list_params) {
  static const char *const words[] = {[VTB_IO_INPUT] = "input",
                                      [VTB_IO_PARAM] = "param",
                                      [VTB_IO_GRAD_IN] = "adjoint",
                                      [VTB_IO_OUTPUT] = "output",
                                      [VTB_IO_GRAD_OUT] = "gradient"};
  vtb_strbuf shape = {0};
  for (int i = 0; i < p->n_tensors; i++) {
    const vtb_tensor_info *t = &p->tensors[i];
    if (!is_shown(p, t) && !list_params) continue;
    if (t->io == VTB_IO_BUFFER || t->io == VTB_IO_UPDATE || t->io == VTB_IO_STATE) continue;
    shape.n = 0;
    vtb_shape_print(&shape, t->rank, t->dim);
    printf("    %-8s %-12s %s%s\n", words[t->io], t->name, t->is_int ? "i32 " : "", shape.at);
  }
  vtb_strbuf_free(&shape);
}

/* A plan, and what it was compiled to. */
static void print_plan(const vtb_artefact *a, const vtb_artefact_program *p, int number) {
  const vtb_artefact_plan *of = &p->plans[number];
  vtb_launch_plan *plan;
  char name[40] = "CUDA";
  if (of->arch) snprintf(name, sizeof name, "CUDA, %.20s alone", of->arch);
  if (vtb_artefact_read_plan(a, p, number, &plan, NULL) != VTB_OK) return;
  printf("    %-20s %d kernels, %d launches, workspace %.1f MiB, state %.1f MiB; %.1f KiB\n", name,
         plan->n_kernels, plan->n_steps, (double)plan->workspace_bytes / 1048576,
         (double)plan->state_bytes / 1048576, (double)of->bytes.bytes / 1024);
  vtb_launch_plan_free(plan);
  for (int i = 0; i < p->n_images; i++)
    if (p->images[i].plan == number)
      printf("      %-18s %d images, %.1f KiB\n", p->images[i].arch, p->images[i].n,
             (double)image_bytes(&p->images[i]) / 1024);
}

static void print_program(const vtb_artefact *a, const vtb_artefact_program *p, bool list_params) {
  char number[32];
  printf("  %s, batch %lld", vtb_artefact_role_names[p->role], (long long)p->batch);
  if (p->height) printf(", %lldx%lld", (long long)p->height, (long long)p->width);
  printf(", %s parameters\n", cli_grouped(n_params(p), number, sizeof number));
  print_tensors(p, list_params);
  for (int i = 0; i < p->n_codes; i++)
    printf("    %-20s %d kernels, workspace %.1f MiB\n", p->codes[i].cpu, p->codes[i].n_kernels,
           (double)p->codes[i].workspace_bytes / 1048576);
  for (int i = 0; i < p->n_plans; i++) print_plan(a, p, i);
}

static cJSON *program_json(const vtb_artefact_program *p) {
  cJSON *out = cJSON_CreateObject();
  cJSON_AddStringToObject(out, "role", vtb_artefact_role_names[p->role]);
  cJSON_AddNumberToObject(out, "batch", (double)p->batch);
  cJSON_AddNumberToObject(out, "parameters", (double)n_params(p));
  cJSON *targets = cJSON_AddArrayToObject(out, "targets"),
        *tensors = cJSON_AddArrayToObject(out, "tensors");
  for (int i = 0; i < p->n_codes; i++)
    cJSON_AddItemToArray(targets, cJSON_CreateString(p->codes[i].cpu));
  cJSON *plans = cJSON_AddArrayToObject(out, "plans");
  for (int i = 0; i < p->n_plans; i++)
    cJSON_AddItemToArray(plans, cJSON_CreateString(p->plans[i].arch ? p->plans[i].arch : "all"));
  for (int i = 0; i < p->n_images; i++)
    cJSON_AddItemToArray(targets, cJSON_CreateString(p->images[i].arch));
  for (int i = 0; i < p->n_tensors; i++) {
    static const char *const roles[] = {"input",  "param",    "buffer", "cotangent",
                                        "output", "gradient", "update", "state"};
    const vtb_tensor_info *t = &p->tensors[i];
    cJSON *item = cJSON_CreateObject(), *shape = cJSON_CreateArray();
    for (int d = 0; d < t->rank; d++)
      cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)t->dim[d]));
    cJSON_AddStringToObject(item, "name", t->name);
    cJSON_AddStringToObject(item, "role", roles[t->io]);
    cJSON_AddStringToObject(item, "type", t->is_int ? "i32" : "f32");
    cJSON_AddItemToObject(item, "shape", shape);
    if (t->init) cJSON_AddStringToObject(item, "init", t->init);
    if (t->io == VTB_IO_PARAM) cJSON_AddBoolToObject(item, "decay", t->decay);
    cJSON_AddItemToArray(tensors, item);
  }
  return out;
}

static void show_json(const vtb_manifest *m) {
  cJSON *out = cJSON_CreateObject();
  cJSON_AddStringToObject(out, "model", m->model);
  cJSON_AddStringToObject(out, "compiler", m->compiler);
  cJSON_AddNumberToObject(out, "format", VTB_ARTEFACT_FORMAT);
  cJSON_AddStringToObject(out, "precision", m->precision);
  if (m->nvrtc) cJSON_AddStringToObject(out, "nvrtc", m->nvrtc);
  cJSON_AddNumberToObject(out, "weight_bytes", (double)m->weights.bytes);
  cJSON *meta = cJSON_AddObjectToObject(out, "meta"),
        *programs = cJSON_AddArrayToObject(out, "programs");
  for (int i = 0; i < m->n_meta; i++)
    cJSON_AddStringToObject(meta, m->meta[i].key, m->meta[i].value);
  for (int i = 0; i < m->n_programs; i++)
    cJSON_AddItemToArray(programs, program_json(&m->programs[i]));
  cli_print_json(out);
}

void cli_built_show(const char *path, const vtb_artefact *a, bool list_params, bool json) {
  const vtb_manifest *m = vtb_artefact_manifest(a);
  if (json) {
    show_json(m);
    return;
  }
  printf("%s: %s, built by vertebra %s (format %d)\n", path, m->model, m->compiler,
         VTB_ARTEFACT_FORMAT);
  for (int i = 0; i < m->n_meta; i++) printf("  %-16s %s\n", m->meta[i].key, m->meta[i].value);
  if (m->nvrtc) printf("  %-16s %s by %s\n", "CUDA", m->precision, m->nvrtc);
  if (m->weights.bytes)
    printf("  %-16s %.1f MiB\n", "weights", (double)m->weights.bytes / 1048576);
  else
    printf("  %-16s none in the file\n", "weights");
  for (int i = 0; i < m->n_programs; i++) print_program(a, &m->programs[i], list_params);
}
