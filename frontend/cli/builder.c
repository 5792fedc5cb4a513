/* See builder.h. */
#include "frontend/cli/builder.h"

#include "codegen/cuda/compile/nvrtc.h"
#include "codegen/cpu/host/link.h"
#include "frontend/cli/built.h"
#include "runtime/launch/launch_check.h"
#include "runtime/launch/launch_plan_file.h"

#include <stdlib.h>
#include <string.h>

void cli_builder_init(cli_builder *b, const cli_build_targets *t, const cli_model_options *o) {
  *b = (cli_builder){.targets = *t, .options = o};
  vtb_arena_init(&b->arena);
  b->manifest = (vtb_manifest){.compiler = VTB_VERSION,
                               .precision = o->precision ? o->precision : "fp32",
                               .library = cli_library_hash(),
                               .services_bytes = (int32_t)sizeof(vtb_services),
                               .programs = b->programs};
}

void cli_builder_free(cli_builder *b) {
  for (size_t i = 0; i < b->objects.n; i++) vtb_object_free(&b->objects.at[i]);
  for (size_t i = 0; i < b->plans.n; i++) vtb_launch_plan_free(b->plans.at[i]);
  vtb_vec_free(&b->objects);
  vtb_vec_free(&b->plans);
  vtb_vec_free(&b->pending);
  vtb_vec_free(&b->meta);
  vtb_arena_free(&b->arena);
}

void cli_builder_meta(cli_builder *b, const char *key, const char *value) {
  vtb_vec_push(&b->meta, ((vtb_artefact_meta){vtb_arena_strdup(&b->arena, key),
                                              vtb_arena_strdup(&b->arena, value)}));
}

/* Takes data that is in the builder's arena. */
static void wait_for_place(cli_builder *b, const void *data, size_t n, vtb_blob *place) {
  vtb_vec_push(&b->pending, ((cli_pending){data, n, place}));
}

/* The code passes rewrite their module: every target has one of its own. */
static vtb_status lower(const cli_builder *b, const vtb_target *target,
                        const vtb_codegen_options *code, const vtb_module *module, const char *func,
                        int64_t batch, vtb_module **out) {
  *out = vtb_module_clone(module);
  (*out)->entry = vtb_module_find(*out, func);
  return cli_lower(*out, target, code, b->options, false, batch);
}

/* ---- processors ------------------------------------------------------------------------------ */

static vtb_status add_code(cli_builder *b, vtb_artefact_program *p, const vtb_module *module,
                           const char *func, int64_t batch, int level) {
  char symbol[32];
  vtb_error err = {0};
  vtb_module *m;
  vtb_object object;
  /* calls around kernels, which do nothing unless the services measure: a file can be profiled */
  vtb_codegen_options options = {.cpu = vtb_cpu_level_names[level], .profile = true};
  int32_t entry = (int32_t)b->objects.n;
  const vtb_target *target = vtb_target_find("cpu");
  vtb_status status = lower(b, target, &options, module, func, batch, &m);
  if (status == VTB_OK &&
      (status = vtb_backend_of(target)->object(
           m, m->entry, &options, vtb_link_symbol(entry, symbol), &object, &err)) != VTB_OK)
    cli_error(&err);
  vtb_module_free(m);
  if (status != VTB_OK) return status;
  vtb_vec_push(&b->objects, object);
  const vtb_program *about = &object.about; /* whose tables are the object's arena's */
  p->batch = about->batch;
  p->n_tensors = about->n_tensors;
  p->tensors = about->tensors;
  p->codes[p->n_codes++] = (vtb_artefact_code){.cpu = vtb_cpu_level_names[level],
                                               .entry = entry,
                                               .workspace_bytes = about->workspace_bytes,
                                               .n_kernels = about->n_kernels,
                                               .kernels = about->kernels};
  return VTB_OK;
}

/* ---- CUDA ------------------------------------------------------------------------------------ */

static vtb_status add_images(cli_builder *b, vtb_artefact_program *p, const vtb_launch_plan *plan,
                             const char *arch, vtb_error *err) {
  vtb_cuda_code *codes = vtb_xcalloc((size_t)plan->n_sources + 1, sizeof *codes);
  vtb_status status = vtb_cuda_compile_plan(plan, arch, codes, err);
  if (status == VTB_OK) {
    vtb_artefact_images *m = &p->images[p->n_images++];
    *m = (vtb_artefact_images){arch, plan->n_sources,
                               VTB_NEW_ARRAY(&b->arena, vtb_blob, plan->n_sources + 1)};
    for (int i = 0; i < plan->n_sources; i++) {
      wait_for_place(b, vtb_arena_memdup(&b->arena, codes[i].data, codes[i].n_bytes),
                     codes[i].n_bytes, &m->at[i]);
      vtb_cuda_code_free(&codes[i]);
    }
  }
  vtb_free(codes);
  return status;
}

/* Cubins run on their own architecture only; PTX of the oldest one asked for is for cards to
 * come. */
static vtb_status compile_plan(cli_builder *b, vtb_artefact_program *p, const vtb_launch_plan *plan,
                               vtb_error *err) {
  vtb_status status = VTB_OK;
  const bool *arch = b->targets.arch;
  p->images = VTB_NEW_ARRAY(&b->arena, vtb_artefact_images, CLI_BUILD_ARCHS + CLI_BUILD_PTX);
  for (int i = 0; i < CLI_BUILD_ARCHS && status == VTB_OK; i++)
    if (arch[i]) status = add_images(b, p, plan, vtb_archs[i].name, err);
  if (arch[0] && status == VTB_OK) status = add_images(b, p, plan, "compute_80", err);
  if ((arch[1] || arch[2]) && status == VTB_OK) status = add_images(b, p, plan, "compute_90", err);
  return status;
}

/* Library products only if they are asked for: the machine that runs the file may not have
 * cublasLt. */
static bool library_products(void) {
  const char *wish = getenv("VTB_CUBLAS");
  return wish && *wish && strcmp(wish, "0") != 0;
}

static vtb_status make_plan(cli_builder *b, const vtb_target *target, vtb_artefact_role role,
                            const vtb_module *module, const char *func, int64_t batch,
                            vtb_launch_plan **plan, vtb_error *err) {
  vtb_codegen_options options = {.library = library_products(),
                                 .update = role == VTB_ARTEFACT_STEP ? b->rule : VTB_UPDATE_NONE,
                                 .average = role == VTB_ARTEFACT_STEP && b->average};
  vtb_module *m;
  vtb_status status = vtb_precision_find(b->options->precision, &options.precision, err);
  if (status != VTB_OK) return status;
  status = lower(b, target, &options, module, func, batch, &m);
  if (status == VTB_OK) status = vtb_backend_of(target)->plan(m, m->entry, &options, plan, err);
  vtb_module_free(m);
  if (status == VTB_OK) vtb_vec_push(&b->plans, *plan);
  return status;
}

static vtb_status add_plan(cli_builder *b, vtb_artefact_program *p, const vtb_module *module,
                           const char *func, int64_t batch) {
  vtb_error err = {0};
  vtb_launch_plan *plan = NULL;
  vtb_strbuf bytes = {0};
  vtb_status status =
      make_plan(b, vtb_target_find("cuda"), p->role, module, func, batch, &plan, &err);
  if (status == VTB_OK) status = compile_plan(b, p, plan, &err);
  if (status != VTB_OK && err.status) cli_error(&err); /* else the passes have said it */
  if (status != VTB_OK) return status;
  vtb_launch_plan_write(plan, &bytes);
  wait_for_place(b, vtb_arena_memdup(&b->arena, bytes.at, bytes.n), bytes.n, &p->plan);
  vtb_strbuf_free(&bytes);
  if (p->n_codes) return VTB_OK; /* else the plan's tensors are what the manifest shows */
  p->batch = plan->batch;
  p->n_tensors = plan->n_tensors;
  p->tensors = plan->tensors;
  return VTB_OK;
}

vtb_status cli_builder_add(cli_builder *b, vtb_artefact_role role, const vtb_module *module,
                           const char *func, int64_t batch) {
  vtb_artefact_program *p = &b->programs[b->manifest.n_programs++];
  vtb_status status = VTB_OK;
  *p = (vtb_artefact_program){.role = role,
                              .codes = VTB_NEW_ARRAY(&b->arena, vtb_artefact_code, VTB_CPU_LEVELS)};
  for (int i = 0; i < VTB_CPU_LEVELS && status == VTB_OK; i++)
    if (b->targets.level[i]) status = add_code(b, p, module, func, batch, i);
  return status == VTB_OK && b->targets.cuda ? add_plan(b, p, module, func, batch) : status;
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Of everything that runs: code that is loaded for a manifest of another build is refused. */
static uint64_t build_number(const cli_builder *b) {
  uint64_t h = vtb_hash_str(VTB_HASH_INIT, VTB_VERSION);
  for (size_t i = 0; i < b->objects.n; i++)
    h = vtb_hash_bytes(h, b->objects.at[i].data, b->objects.at[i].n_bytes);
  for (size_t i = 0; i < b->pending.n; i++)
    h = vtb_hash_bytes(h, b->pending.at[i].data, b->pending.at[i].n_bytes);
  return h;
}

static vtb_status write_parts(cli_builder *b, vtb_artefact_writer *w, vtb_error *err) {
  vtb_status status = VTB_OK;
  for (size_t i = 0; i < b->pending.n && status == VTB_OK; i++)
    status = vtb_artefact_put(w, b->pending.at[i].data, b->pending.at[i].n_bytes,
                              b->pending.at[i].place, err);
  if (b->weights && status == VTB_OK)
    status = vtb_artefact_put_weights(w, b->weights, &b->manifest.weights, err);
  return status == VTB_OK ? vtb_artefact_finish(w, &b->manifest, err) : status;
}

vtb_status cli_builder_write(cli_builder *b, const char *path) {
  vtb_error err = {0};
  vtb_artefact_writer w = {0};
  vtb_strbuf nvrtc = {0};
  char *library = NULL;
  size_t n = 0;
  b->manifest.build = build_number(b);
  b->manifest.meta = b->meta.at;
  b->manifest.n_meta = (int32_t)b->meta.n;
  if (b->targets.cuda && vtb_cuda_describe_nvrtc(&nvrtc)) b->manifest.nvrtc = nvrtc.at;
  vtb_status status =
      vtb_link_table(b->objects.at, (int)b->objects.n, b->manifest.build, &library, &n, &err);
  if (status == VTB_OK) status = vtb_artefact_begin(&w, path, library, n, &err);
  if (status == VTB_OK) status = write_parts(b, &w, &err);
  if (status != VTB_OK) cli_error(&err);
  vtb_artefact_abort(&w);
  vtb_strbuf_free(&nvrtc);
  vtb_free(library);
  return status;
}
