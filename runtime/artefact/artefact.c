/* Opening built files, and native programs from them. */
#include "runtime/artefact/artefact.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/artefact/artefact_file.h"
#include "runtime/artefact/artefact_internal.h"
#include "runtime/artefact/cpu_level.h"
#include "runtime/launch/launch_plan_file.h"
#include "runtime/artefact/safetensors.h"
#include "runtime/base/library.h"
#include "runtime/base/prepare.h"

struct vtb_artefact {
  char *path; /* absolute: the dynamic loader searches for names without a slash */
  vtb_mapped_file file;
  const unsigned char *data; /* of the file all, or the image of an object: offsets count from */
  size_t n;
  bool is_object; /* for static linking, and a file */
  vtb__trailer trailer;
  vtb_manifest manifest;
  vtb_arena arena; /* of the manifest */
  vtb_weights *weights;
  void *library; /* NULL until native code is wanted */
  const vtb_artefact_table *table;
  atomic_int users; /* the caller, and native programs */
};

static void release(vtb_artefact *a) {
  if (atomic_fetch_sub(&a->users, 1) > 1) return;
  if (a->library) dlclose(a->library);
  vtb_weights_free(a->weights);
  vtb_unmap_file(&a->file);
  vtb_arena_free(&a->arena);
  free(a->path);
  free(a);
}

void vtb_artefact_close(vtb_artefact *a) {
  if (a) release(a);
}

bool vtb_artefact_recognise(const char *path) {
  char head[4] = "", tail[8] = "";
  struct stat st; /* reading a pipe would take from what comes after */
  FILE *f = stat(path, &st) == 0 && S_ISREG(st.st_mode) ? fopen(path, "rb") : NULL;
  if (!f) return false;
  bool elf = fread(head, 1, sizeof head, f) == sizeof head && memcmp(head, "\177ELF", 4) == 0;
  bool built = fseek(f, -(long)sizeof tail, SEEK_END) == 0 &&
               fread(tail, 1, sizeof tail, f) == sizeof tail &&
               memcmp(tail, VTB__TRAILER_MAGIC, sizeof tail) == 0;
  fclose(f);
  return elf || built;
}

static vtb_status check_services(const vtb_artefact *a, vtb_error *err) {
  if (a->manifest.services_bytes <= (int)sizeof(vtb_services)) return VTB_OK;
  return vtb_fail(err, VTB_E_INPUT,
                  "%s was built by vertebra %s, whose code needs a newer runtime than this %s",
                  a->path, a->manifest.compiler, VTB_VERSION);
}

static vtb_status take_table(vtb_artefact *a, const vtb_artefact_table *table, vtb_error *err) {
  VTB_TRY(check_services(a, err));
  if (table->size != sizeof *table || table->build != a->manifest.build)
    return vtb_fail(
        err, VTB_E_INPUT,
        "%s: code and manifest are of different builds (an older one may still be open)", a->path);
  a->table = table;
  return VTB_OK;
}

static vtb_status read_all(vtb_artefact *a, vtb_error *err) {
  const unsigned char *data = a->data;
  VTB_TRY(vtb__trailer_read(a->path, data, a->n, &a->trailer, err));
  uint64_t limit = a->trailer.manifest.offset; /* the manifest is behind all blobs */
  vtb_status status = vtb__manifest_read(a->path, data + limit, (size_t)a->trailer.manifest.bytes,
                                         limit, &a->arena, &a->manifest, err);
  const vtb_blob *w = &a->manifest.weights;
  if (status != VTB_OK || !w->bytes) return status;
  status = vtb_safetensors_parse(a->path, data + w->offset, (size_t)w->bytes, &a->weights, err);
  return status == VTB_OK ? vtb_weights_widen(&a->weights, err) : status;
}

/* Takes the name; NULL without memory. */
static vtb_artefact *make(char *name) {
  vtb_artefact *a = name ? calloc(1, sizeof *a) : NULL;
  if (!a) {
    free(name);
    return NULL;
  }
  a->path = name;
  atomic_init(&a->users, 1);
  vtb_arena_init(&a->arena);
  return a;
}

vtb_status vtb_artefact_open_linked(const vtb_artefact_linked *l, vtb_artefact **out,
                                    vtb_error *err) {
  if (l->size < sizeof *l || l->format != VTB_ARTEFACT_FORMAT)
    return vtb_fail(err, VTB_E_INPUT,
                    "the model that is linked in has format %u; this is vertebra %s, which reads "
                    "format %d: build it again",
                    l->size < sizeof *l ? 0 : l->format, VTB_VERSION, VTB_ARTEFACT_FORMAT);
  vtb_artefact *a = make(strdup(l->name));
  if (!a) return vtb_no_memory(err, l->name);
  a->data = l->image;
  a->n = (size_t)*l->bytes;
  vtb_status status = read_all(a, err);
  if (status == VTB_OK) status = take_table(a, l->table, err);
  if (status == VTB_OK)
    *out = a;
  else
    release(a);
  return status;
}

vtb_status vtb_artefact_open(const char *path, vtb_artefact **out, vtb_error *err) {
  char *absolute = realpath(path, NULL);
  if (!absolute) return vtb_file_fail(err, "open", path);
  vtb_artefact *a = make(absolute);
  if (!a) return vtb_no_memory(err, path);
  vtb_status status = vtb_map_file(a->path, &a->file, err);
  a->data = a->file.data;
  a->n = a->file.n;
  if (status == VTB_OK) a->is_object = vtb__trailer_find_linked(&a->data, &a->n);
  if (status == VTB_OK) status = read_all(a, err);
  if (status == VTB_OK)
    *out = a;
  else
    release(a);
  return status;
}

vtb_status vtb_artefact_verify(const vtb_artefact *a, vtb_error *err) {
  size_t n = a->n - VTB__TRAILER_BYTES + VTB__TRAILER_HASHED;
  if (vtb_hash64(a->data, n) == a->trailer.hash) return VTB_OK;
  return vtb_fail(err, VTB_E_INPUT, "%s is damaged: its contents are not those it was built with",
                  a->path);
}

/* ---- queries --------------------------------------------------------------------------------- */

const vtb_manifest *vtb_artefact_manifest(const vtb_artefact *a) { return &a->manifest; }
const vtb_weights *vtb_artefact_weights(const vtb_artefact *a) { return a->weights; }
const char *vtb__artefact_path(const vtb_artefact *a) { return a->path; }
const void *vtb__artefact_bytes(const vtb_artefact *a, const vtb_blob *b) {
  return a->data + b->offset;
}

const vtb_artefact_program *vtb_artefact_find(const vtb_artefact *a, vtb_artefact_role role) {
  for (int i = 0; i < a->manifest.n_programs; i++)
    if (a->manifest.programs[i].role == role) return &a->manifest.programs[i];
  return NULL;
}

const char *vtb_artefact_target(const vtb_artefact *a) {
  for (int i = 0; i < a->manifest.n_programs; i++)
    if (a->manifest.programs[i].n_codes) return "cpu";
  return "cuda";
}

vtb_status vtb_artefact_need(const vtb_artefact *a, vtb_artefact_role role,
                             const vtb_artefact_program **p, vtb_error *err) {
  *p = vtb_artefact_find(a, role);
  if (*p) return VTB_OK;
  return vtb_fail(err, VTB_E_INPUT, "%s has no %s%s", a->path, vtb_artefact_role_names[role],
                  role == VTB_ARTEFACT_INFERENCE  ? ""
                  : role == VTB_ARTEFACT_GRADIENT ? ": build it with --vjp"
                                                  : ": build it with --train");
}

int vtb_artefact_plan_for(const vtb_artefact_program *p, const char *arch) {
  for (int i = 1; i < p->n_plans; i++)
    if (arch && strcmp(p->plans[i].arch, arch) == 0) return i;
  return 0;
}

vtb_status vtb_artefact_read_plan(const vtb_artefact *a, const vtb_artefact_program *p, int number,
                                  vtb_launch_plan **plan, vtb_error *err) {
  if (number >= p->n_plans)
    return vtb_fail(err, VTB_E_DEVICE, "%s has no code for CUDA: build it with --target cuda",
                    a->path);
  const vtb_blob *b = &p->plans[number].bytes;
  vtb_error inner = {0};
  vtb_status status =
      vtb_launch_plan_read(vtb__artefact_bytes(a, b), (size_t)b->bytes, plan, &inner);
  return status == VTB_OK ? VTB_OK : vtb_fail(err, status, "%s: %s", a->path, inner.text);
}

/* ---- native programs ------------------------------------------------------------------------- */

typedef struct native {
  vtb_program program;
  vtb_artefact *file;
} native;

static void free_native(void *owner) {
  native *n = owner;
  release(n->file);
  free(n);
}

/* The best that this machine can run. */
static vtb_status choose_code(const vtb_artefact *a, const vtb_artefact_program *p,
                              const vtb_artefact_code **out, vtb_error *err) {
  int here = vtb_cpu_level_here(), best = -1;
  vtb_strbuf there = VTB_CHECKED_STRBUF;
  for (int i = 0; i < p->n_codes; i++) {
    int level = vtb_cpu_level_find(p->codes[i].cpu);
    vtb_strbuf_printf(&there, "%s%s", i ? ", " : "", p->codes[i].cpu);
    if (!vtb_cpu_level_runs(here, level) || level <= best) continue;
    best = level;
    *out = &p->codes[i];
  }
  vtb_status status = VTB_OK;
  if (!p->n_codes)
    status = vtb_fail(err, VTB_E_DEVICE,
                      "%s has no code for processors: build it with --target cpu", a->path);
  else if (here < 0)
    status = vtb_fail(err, VTB_E_DEVICE,
                      "%s has code for %s, and none is made for this machine's "
                      "kind of processor",
                      a->path, vtb_strbuf_text(&there));
  else if (best < 0)
    status = vtb_fail(
        err, VTB_E_DEVICE, "%s has code for %s; this machine has %s: build it with --target cpu:%s",
        a->path, vtb_strbuf_text(&there), vtb_cpu_level_names[here], vtb_cpu_level_names[here]);
  vtb_strbuf_free(&there);
  return status;
}

static vtb_status open_library(vtb_artefact *a, vtb_error *err) {
  if (a->table) return VTB_OK;
  if (a->is_object)
    return vtb_fail(err, VTB_E_INPUT,
                    "%s is an object, whose code runs in programs that it is linked into: build a "
                    "file called .so to run it by itself",
                    a->path);
  if (!vtb_library_loads())
    return vtb_fail(err, VTB_E_INPUT,
                    "%s: this program is linked statically, and such programs load no code: link "
                    "the model into it (vertebra build -o NAME.o)",
                    a->path);
  VTB_TRY(check_services(a, err));
  errno = 0;
  if (!a->library) a->library = dlopen(a->path, RTLD_NOW | RTLD_LOCAL);
  if (!a->library)
    return vtb_fail(err, errno == ENOMEM ? VTB_E_MEMORY : VTB_E_INPUT, "cannot load %s: %s",
                    a->path, dlerror());
  const vtb_artefact_table *table = dlsym(a->library, VTB_ARTEFACT_SYMBOL);
  if (!table) return vtb_fail(err, VTB_E_INPUT, "%s has no symbol " VTB_ARTEFACT_SYMBOL, a->path);
  return take_table(a, table, err);
}

static vtb_status load_native(vtb_artefact *a, const vtb_artefact_program *p, vtb_program **program,
                              vtb_error *err) {
  const vtb_artefact_code *code = NULL;
  VTB_TRY(choose_code(a, p, &code, err));
  VTB_TRY(open_library(a, err));
  if ((uint32_t)code->entry >= a->table->n)
    return vtb_fail(err, VTB_E_INPUT, "%s: its code has no entry %d", a->path, code->entry);
  native *n = calloc(1, sizeof *n);
  if (!n) return vtb_no_memory(err, a->path);
  atomic_fetch_add(&a->users, 1);
  n->file = a;
  n->program = (vtb_program){.entry = a->table->at[code->entry],
                             .n_tensors = p->n_tensors,
                             .tensors = p->tensors,
                             .batch = p->batch,
                             .workspace_bytes = code->workspace_bytes,
                             .kept_bytes = code->kept_bytes,
                             .kept_key = code->kept_key,
                             .n_kernels = code->n_kernels,
                             .kernels = code->kernels,
                             .owner = n,
                             .free = free_native};
  *program = &n->program;
  return VTB_OK;
}

vtb_status vtb_artefact_load_program(vtb_artefact *a, const vtb_artefact_program *p,
                                     const char *target, vtb_program **program, vtb_error *err) {
  return vtb_artefact_load_on(a, p, target, NULL, program, err);
}

vtb_status vtb_artefact_load_on(vtb_artefact *a, const vtb_artefact_program *p, const char *target,
                                const vtb_device_choice *where, vtb_program **program,
                                vtb_error *err) {
  vtb_status status;
  if (vtb_streq(target, "cuda"))
    status = vtb__artefact_load_cuda(a, p, where, program, err);
  else if (vtb_streq(target, "cpu"))
    status = load_native(a, p, program, err);
  else
    return vtb_fail(err, VTB_E_USAGE, "built files run on cpu and cuda, not on %s", target);
  if (status != VTB_OK) return status;
  const char *prepare = vtb_manifest_meta(&a->manifest, VTB_META_PREPARE);
  if (prepare) snprintf((*program)->prepare, sizeof(*program)->prepare, "%s", prepare);
  return VTB_OK;
}

vtb_status vtb_artefact_load(vtb_artefact *a, vtb_artefact_role role, const char *target,
                             vtb_program **program, vtb_error *err) {
  const vtb_artefact_program *p;
  vtb_status status = vtb_artefact_need(a, role, &p, err);
  return status == VTB_OK ? vtb_artefact_load_program(a, p, target, program, err) : status;
}
