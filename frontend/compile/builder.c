/* See builder.h. */
#include "frontend/compile/builder.h"

#include "codegen/cuda/compile/nvrtc.h"
#include "codegen/cpu/host/link.h"
#include "frontend/compile/stored.h"
#include "ir/axes.h"
#include "runtime/launch/launch_check.h"
#include "runtime/launch/launch_plan_file.h"

#include <stdlib.h>
#include <string.h>

/* ---- targets --------------------------------------------------------------------------------- */

static bool take_level(const char *name, vtb_build_targets *t) {
  int level = strcmp(name, "host") == 0 ? vtb_cpu_level_here() : vtb_cpu_level_find(name);
  if (level < 0) return false;
  return t->cpu = t->level[level] = true;
}

static bool take_arch(const char *name, vtb_build_targets *t) {
  for (int i = 0; i < VTB_BUILD_ARCHS; i++)
    if (strcmp(name, vtb_archs[i].name) == 0) return t->cuda = t->arch[i] = true;
  return false;
}

/* "cpu" is this machine's level, "cuda" every architecture. */
static bool take_target(const char *name, vtb_build_targets *t) {
  if (strcmp(name, "cpu") == 0) return take_level("host", t);
  if (strcmp(name, "cuda") == 0) {
    for (int i = 0; i < VTB_BUILD_ARCHS; i++) t->arch[i] = true;
    return t->cuda = true;
  }
  if (vtb_starts_with(name, "cpu:")) return take_level(name + strlen("cpu:"), t);
  if (vtb_starts_with(name, "cuda:")) return take_arch(name + strlen("cuda:"), t);
  return take_level(name, t) || take_arch(name, t);
}

/* A shared object is one architecture's. */
static vtb_status check_alike(const vtb_build_targets *t, vtb_error *err) {
  int first = -1;
  for (int i = 0; i < VTB_CPU_LEVELS; i++) {
    if (!t->level[i]) continue;
    if (first < 0) first = i;
    if (!vtb_cpu_levels_alike(first, i))
      return vtb_fail(err, VTB_E_USAGE,
                      "a file has native code of one architecture: build one for %s and one for %s",
                      vtb_cpu_level_names[first], vtb_cpu_level_names[i]);
  }
  return VTB_OK;
}

static vtb_status parse_targets(const char *text, vtb_build_targets *out, vtb_error *err) {
  char *copy = vtb_xstrdup(text), *rest = copy;
  vtb_status status = VTB_OK;
  *out = (vtb_build_targets){0};
  for (char *name; status == VTB_OK && (name = strsep(&rest, ","));)
    if (!take_target(name, out))
      status = vtb_fail(
          err, VTB_E_USAGE,
          "'%s' is no target: there are cpu (this machine's level), cpu:x86-64, cpu:x86-64-v2, "
          "cpu:x86-64-v3, cpu:x86-64-v4, cpu:aarch64, cuda (all), cuda:sm_80, cuda:sm_90a and "
          "cuda:sm_100a",
          name);
  vtb_free(copy);
  return status == VTB_OK ? check_alike(out, err) : status;
}

/* ---- the builder ----------------------------------------------------------------------------- */

static vtb_status check_options(vtb_file_builder *b, vtb_error *err) {
  const vtb_target *target = vtb_target_find(b->targets.cuda ? "cuda" : "cpu");
  vtb_codegen_options code;
  VTB_TRY(vtb_compile_code(target, b->options, &code, err));
  b->how = code.how;
  return VTB_OK;
}

vtb_status vtb_file_builder_open(vtb_file_builder *b, const vtb_compile_options *o, vtb_report *r) {
  *b = (vtb_file_builder){.options = o, .report = r};
  vtb_arena_init(&b->arena);
  b->manifest = (vtb_manifest){.compiler = VTB_VERSION,
                               .precision = o->precision ? o->precision : "fp32",
                               .library = vtb_compile_library_hash(),
                               .services_bytes = (int32_t)sizeof(vtb_services)};
  size_t sizes = o->n_images ? o->n_images : 1, batches = o->n_batches ? o->n_batches : 1;
  b->programs =
      VTB_NEW_ARRAY(&b->arena, vtb_artefact_program, 2 * sizes * batches + VTB_N_ARTEFACT_ROLES);
  b->manifest.programs = b->programs;
  vtb_status status = parse_targets(o->target ? o->target : "cpu", &b->targets, &r->error);
  return status == VTB_OK ? check_options(b, &r->error) : status;
}

void vtb_file_builder_free(vtb_file_builder *b) {
  for (size_t i = 0; i < b->objects.n; i++) vtb_object_free(&b->objects.at[i]);
  for (size_t i = 0; i < b->plans.n; i++) vtb_launch_plan_free(b->plans.at[i]);
  vtb_vec_free(&b->objects);
  vtb_vec_free(&b->plans);
  vtb_vec_free(&b->pending);
  vtb_vec_free(&b->meta);
  vtb_map_free(&b->int8);
  vtb_weights_free(b->weights);
  vtb_weights_free(b->file);
  vtb_arena_free(&b->arena);
}

void vtb_file_builder_meta(vtb_file_builder *b, const char *key, const char *value) {
  for (size_t i = 0; i < b->meta.n; i++)
    if (strcmp(b->meta.at[i].key, key) == 0) {
      b->meta.at[i].value = vtb_arena_strdup(&b->arena, value);
      return;
    }
  vtb_vec_push(&b->meta, ((vtb_artefact_meta){vtb_arena_strdup(&b->arena, key),
                                              vtb_arena_strdup(&b->arena, value)}));
}

/* Takes data that is in the builder's arena. */
static void wait_for_place(vtb_file_builder *b, const void *data, size_t n, vtb_blob *place) {
  vtb_vec_push(&b->pending, ((vtb_pending){data, n, place}));
}

/* ---- processors ------------------------------------------------------------------------------ */

/* Counts the program among those that read a parameter in numbers of 8 bits alone. */
static void note_int8(vtb_file_builder *b, const vtb_func *entry) {
  for (int a = 0; a < entry->n_args; a++) {
    if (entry->arg_info[a].role != VTB_ROLE_PARAM || !vtb_is_read_as_int8(entry->args[a])) continue;
    size_t *n = vtb_map_get(&b->int8, entry->arg_info[a].official);
    if (!n) {
      n = VTB_NEW(&b->arena, size_t);
      vtb_map_set(&b->int8, vtb_arena_strdup(&b->arena, entry->arg_info[a].official), n);
    }
    ++*n;
  }
}

bool vtb_file_builder_has_int8(const vtb_file_builder *b, const char *name) {
  const size_t *n = vtb_map_get(&b->int8, name);
  return n && *n == b->objects.n;
}

static vtb_status add_code(vtb_file_builder *b, vtb_artefact_program *p, const vtb_compilation *c,
                           int64_t batch, int level) {
  char symbol[VTB_LINK_SYMBOL];
  vtb_compilation lowered;
  vtb_object object;
  /* calls around kernels, which do nothing unless the services measure: a file can be profiled */
  vtb_codegen_options code = {.cpu = vtb_cpu_level_names[level],
                              .profile = true,
                              .int8 = b->options->quantize != NULL,
                              .how = b->how};
  int32_t entry = (int32_t)b->objects.n;
  const vtb_target *target = vtb_target_find("cpu");
  vtb_status status = vtb_compilation_lower(c, target, &code, batch, &lowered);
  vtb_module *m = lowered.module;
  if (status == VTB_OK && code.int8) note_int8(b, m->entry);
  if (status == VTB_OK)
    status = vtb_backend_of(target)->object(m, m->entry, &code,
                                            vtb_link_symbol(b->options->linked, entry, symbol),
                                            &object, &b->report->error);
  vtb_compilation_free(&lowered);
  if (status != VTB_OK) return status;
  vtb_vec_push(&b->objects, object);
  const vtb_program *about = &object.about; /* whose tables are the object's arena's */
  p->batch = about->batch;
  p->n_tensors = about->n_tensors;
  p->tensors = about->tensors;
  p->codes[p->n_codes++] = (vtb_artefact_code){.cpu = vtb_cpu_level_names[level],
                                               .entry = entry,
                                               .workspace_bytes = about->workspace_bytes,
                                               .kept_bytes = about->kept_bytes,
                                               .kept_key = about->kept_key,
                                               .n_kernels = about->n_kernels,
                                               .kernels = about->kernels};
  return VTB_OK;
}

/* ---- CUDA ------------------------------------------------------------------------------------ */

/* Images of the program's newest plan. */
static vtb_status add_images(vtb_file_builder *b, vtb_artefact_program *p,
                             const vtb_launch_plan *plan, const char *arch) {
  vtb_error *err = &b->report->error;
  vtb_cuda_code *codes = vtb_xcalloc((size_t)plan->n_sources + 1, sizeof *codes);
  vtb_status status = vtb_cuda_compile_plan(plan, arch, &b->how, codes, err);
  if (status == VTB_OK) {
    vtb_artefact_images *m = &p->images[p->n_images++];
    *m = (vtb_artefact_images){arch, plan->n_sources,
                               VTB_NEW_ARRAY(&b->arena, vtb_blob, plan->n_sources + 1),
                               p->n_plans - 1};
    for (int i = 0; i < plan->n_sources; i++) {
      wait_for_place(b, vtb_arena_memdup(&b->arena, codes[i].data, codes[i].n_bytes),
                     codes[i].n_bytes, &m->at[i]);
      vtb_cuda_code_free(&codes[i]);
    }
  }
  vtb_free(codes);
  return status;
}

/* Library products only if they are asked for: the machine that runs the file may not have
 * cublasLt. */
static bool library_products(const vtb_compile_options *o, const vtb_behaviour *how) {
  if (o->library != VTB_LIBRARY_AUTO) return o->library == VTB_LIBRARY_YES;
  return how->cublas == VTB_YES;
}

/* For `arch` alone, or for all. */
static vtb_status make_plan(vtb_file_builder *b, const vtb_compilation *c, int64_t batch,
                            const char *arch, vtb_launch_plan **plan) {
  const vtb_target *target = vtb_target_find("cuda");
  vtb_compilation lowered;
  vtb_codegen_options code;
  vtb_error *err = &b->report->error;
  VTB_TRY(vtb_compile_code(target, &c->options, &code, err));
  code.library = library_products(&c->options, &code.how);
  code.arch = arch;
  code.wgmma = arch && code.how.wgmma == VTB_YES;
  vtb_status status = vtb_compilation_lower(c, target, &code, batch, &lowered);
  vtb_module *m = lowered.module;
  if (status == VTB_OK) status = vtb_backend_of(target)->plan(m, m->entry, &code, plan, err);
  vtb_compilation_free(&lowered);
  if (status == VTB_OK) vtb_vec_push(&b->plans, *plan);
  return status;
}

/* The plan becomes one of the program's, unless it is the one before. */
static void keep_plan(vtb_file_builder *b, vtb_artefact_program *p, const vtb_launch_plan *plan,
                      const char *arch) {
  vtb_strbuf bytes = {0};
  vtb_launch_plan_write(plan, &bytes);
  const vtb_pending *before = p->n_plans ? &b->pending.at[b->common_plan] : NULL;
  if (!before || before->n_bytes != bytes.n || memcmp(before->data, bytes.at, bytes.n) != 0) {
    vtb_artefact_plan *of = &p->plans[p->n_plans++];
    if (!before) b->common_plan = b->pending.n;
    of->arch = arch;
    wait_for_place(b, vtb_arena_memdup(&b->arena, bytes.at, bytes.n), bytes.n, &of->bytes);
  }
  vtb_strbuf_free(&bytes);
}

/* Cubins run on their own architecture only; PTX of the oldest one asked for is for cards to
 * come. sm_90a has a plan of its own where it has kernels of its own. */
static vtb_status add_plans(vtb_file_builder *b, vtb_artefact_program *p, const vtb_compilation *c,
                            int64_t batch) {
  const bool *arch = b->targets.arch;
  vtb_launch_plan *plan = NULL, *own = NULL;
  vtb_status status = make_plan(b, c, batch, NULL, &plan);
  if (status != VTB_OK) return status;
  p->images = VTB_NEW_ARRAY(&b->arena, vtb_artefact_images, VTB_BUILD_ARCHS + VTB_BUILD_PTX);
  p->plans = VTB_NEW_ARRAY(&b->arena, vtb_artefact_plan, VTB_BUILD_PLANS);
  keep_plan(b, p, plan, NULL);
  for (int i = 0; i < VTB_BUILD_ARCHS && status == VTB_OK; i++)
    if (arch[i] && i != VTB_BUILD_HOPPER) status = add_images(b, p, plan, vtb_archs[i].name);
  if (arch[0] && status == VTB_OK) status = add_images(b, p, plan, "compute_80");
  if ((arch[1] || arch[2]) && status == VTB_OK) status = add_images(b, p, plan, "compute_90");
  if (arch[VTB_BUILD_HOPPER] && status == VTB_OK) {
    const char *name = vtb_archs[VTB_BUILD_HOPPER].name;
    status = make_plan(b, c, batch, name, &own);
    if (status == VTB_OK) keep_plan(b, p, own, name);
    if (status == VTB_OK) status = add_images(b, p, own, name);
  }
  if (p->n_codes) return status; /* else the plan's tensors are what the manifest shows */
  p->batch = plan->batch;
  p->n_tensors = plan->n_tensors;
  p->tensors = plan->tensors;
  return status;
}

/* The size of the images that it takes; none if it takes none. Of a part the caller gives shapes,
 * and what they are of is his affair. */
static void find_image(const vtb_compilation *c, vtb_artefact_program *p) {
  const vtb_func *f = c->module->entry;
  if (c->options.n_shapes) return;
  for (int a = f->n_args - 1; a >= 0; a--) {
    const vtb_type *t = &f->args[a]->type;
    if (f->arg_info[a].role != VTB_ROLE_INPUT || t->rank != 4 || t->dtype != VTB_F32) continue;
    p->height = t->dim[2].size;
    p->width = t->dim[3].size;
  }
}

vtb_status vtb_file_builder_add(vtb_file_builder *b, vtb_artefact_role role,
                                const vtb_compilation *c, int64_t batch) {
  vtb_artefact_program *p = &b->programs[b->manifest.n_programs++];
  vtb_status status = VTB_OK;
  *p = (vtb_artefact_program){.role = role,
                              .codes = VTB_NEW_ARRAY(&b->arena, vtb_artefact_code, VTB_CPU_LEVELS)};
  if (role == VTB_ARTEFACT_INFERENCE && vtb_samples_meet(c->module))
    vtb_file_builder_meta(b, VTB_META_SAMPLES, VTB_SAMPLES_MEET);
  find_image(c, p);
  for (int i = 0; i < VTB_CPU_LEVELS && status == VTB_OK; i++)
    if (b->targets.level[i]) status = add_code(b, p, c, batch, i);
  return status == VTB_OK && b->targets.cuda ? add_plans(b, p, c, batch) : status;
}

/* ---- the file -------------------------------------------------------------------------------- */

/* A number of everything that runs: code that is loaded for a manifest of another build is
 * refused. */
static uint64_t build_number(const vtb_file_builder *b) {
  uint64_t h = vtb_hash_str(VTB_HASH_INIT, VTB_VERSION);
  for (size_t i = 0; i < b->objects.n; i++)
    h = vtb_hash_bytes(h, b->objects.at[i].data, b->objects.at[i].n_bytes);
  for (size_t i = 0; i < b->pending.n; i++)
    h = vtb_hash_bytes(h, b->pending.at[i].data, b->pending.at[i].n_bytes);
  return h;
}

static vtb_status write_parts(vtb_file_builder *b, vtb_artefact_writer *w, vtb_error *err) {
  vtb_status status = VTB_OK;
  for (size_t i = 0; i < b->pending.n && status == VTB_OK; i++)
    status = vtb_artefact_put(w, b->pending.at[i].data, b->pending.at[i].n_bytes,
                              b->pending.at[i].place, err);
  if (b->weights && status == VTB_OK)
    status = vtb_artefact_put_weights(w, b->weights, &b->manifest.weights, err);
  return status == VTB_OK ? vtb_artefact_finish(w, &b->manifest, err) : status;
}

/* The code, as what the rest of the file comes behind. */
static vtb_status begin_file(const vtb_file_builder *b, const char *path, vtb_artefact_writer *w,
                             vtb_error *err) {
  const char *name = b->options->linked;
  uint64_t size_at[2], build = b->manifest.build;
  int n_objects = (int)b->objects.n;
  char *code = NULL;
  size_t n = 0;
  vtb_status status =
      name ? vtb_link_static(b->objects.at, n_objects, build, name, &code, &n, size_at, err)
           : vtb_link_table(b->objects.at, n_objects, build, &code, &n, err);
  if (status == VTB_OK)
    status = name ? vtb_artefact_begin_linked(w, path, code, n, size_at, err)
                  : vtb_artefact_begin(w, path, code, n, err);
  vtb_free(code);
  return status;
}

vtb_status vtb_file_builder_write(vtb_file_builder *b, const char *path) {
  vtb_error *err = &b->report->error;
  vtb_artefact_writer w = {0};
  vtb_strbuf nvrtc = {0};
  b->manifest.build = build_number(b);
  b->manifest.meta = b->meta.at;
  b->manifest.n_meta = (int32_t)b->meta.n;
  if (b->targets.cuda && vtb_cuda_describe_nvrtc(&nvrtc)) b->manifest.nvrtc = nvrtc.at;
  vtb_status status = begin_file(b, path, &w, err);
  if (status == VTB_OK) status = write_parts(b, &w, err);
  if (status == VTB_OK && b->options->linked)
    status = vtb__linked_header(path, b->options->linked, err);
  vtb_artefact_abort(&w);
  vtb_strbuf_free(&nvrtc);
  return status;
}
