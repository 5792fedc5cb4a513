/* Checkpoints in a zip file, as PyTorch has written them since 1.6: the pickle NAME/data.pkl, whose
 * storages are the members NAME/data/KEY. Members are looked for in the file alone: no name of one
 * ever becomes a path.
 *
 * torch/csrc/jit/serialization and torch/serialization.py describe the layout. */
#include "runtime/base/library.h"
#include "runtime/weights/checkpoint.h"

#include <string.h>
#include <sys/mman.h>
#include <zip.h>

enum { KEPT_PAGES = 64 << 20, MOST_PICKLE = 256 << 20, MOST_MEMBERS = 1 << 20 };

/* ---- the library, opened with the first zip file --------------------------------------------- */

typedef struct zip_functions {
#define FUNCTION(name) __typeof__(&name) name;
#include "runtime/weights/zip_file.def"
#undef FUNCTION
} zip_functions;
static const vtb_symbol symbols[] = {
#define FUNCTION(name) {#name, offsetof(zip_functions, name)},
#include "runtime/weights/zip_file.def"
#undef FUNCTION
};
static const vtb_library where = {.what = "libzip",
                                  .environment = "VTB_LIBZIP",
                                  .remedy = "apt install libzip4",
                                  .names =
                                      (const char *const[]){"libzip.so.5", "libzip.so.4", NULL},
                                  .symbols = symbols,
                                  .n_symbols = sizeof symbols / sizeof *symbols,
                                  .of_system = true};
static zip_functions lib;
static vtb_late_library library = {.library = &where, .table = &lib};

/* ---- members --------------------------------------------------------------------------------- */

typedef struct archive {
  zip_t *zip;
  uint64_t mapped;  /* bytes read since the mapping's pages were given back */
  char prefix[256]; /* "archive/" */
} archive;

static vtb_status zip_fails(vtb_checkpoint *c, const char *what, zip_error_t *e) {
  return lib.zip_error_code_zip(e) == ZIP_ER_MEMORY
             ? vtb_no_memory(c->err, c->path)
             : vtb_fail(c->err, VTB_E_INPUT, "%s: damaged zip file: %s: %s", c->path, what,
                        lib.zip_error_strerror(e));
}

static bool find_member(const archive *a, const char *name, zip_stat_t *out) {
  char full[400];
  int n = snprintf(full, sizeof full, "%s%s", a->prefix, name);
  lib.zip_stat_init(out);
  return n > 0 && n < (int)sizeof full && lib.zip_stat(a->zip, full, ZIP_FL_ENC_RAW, out) == 0 &&
         (out->valid & ZIP_STAT_SIZE) && (out->valid & ZIP_STAT_INDEX);
}

/* Packed bytes count against what the whole file may unpack to. */
static vtb_status pay(vtb_checkpoint *c, const zip_stat_t *st) {
  bool stored = (st->valid & ZIP_STAT_COMP_METHOD) && st->comp_method == ZIP_CM_STORE;
  if (stored ? st->size > c->file.n : st->size > c->budget)
    return vtb_fail(c->err, VTB_E_INPUT,
                    "%s: its members claim to unpack to far more than the file could hold: refused",
                    c->path);
  if (!stored) c->budget -= st->size;
  return VTB_OK;
}

/* Bytes from..to of a member of exactly st->size, all of which is read: the sum of the whole is
 * checked at its end. */
static vtb_status read_range(vtb_checkpoint *c, const archive *a, const zip_stat_t *st,
                             uint64_t from, uint64_t to, unsigned char *out) {
  zip_file_t *f = lib.zip_fopen_index(a->zip, st->index, 0);
  if (!f) return zip_fails(c, "a member cannot be opened", lib.zip_get_error(a->zip));
  vtb_status status = VTB_OK;
  unsigned char *skipped = NULL;
  zip_int64_t got = 0;
  uint64_t at = 0;
  if ((from || to < st->size) && !(skipped = malloc(1 << 16)))
    status = vtb_no_memory(c->err, c->path);
  while (status == VTB_OK && at < st->size) {
    bool wanted = at >= from && at < to;
    uint64_t until = wanted ? to : at < from ? from : st->size, n = until - at;
    if (!wanted && n > 1 << 16) n = 1 << 16;
    got = lib.zip_fread(f, wanted ? out + (at - from) : skipped, n);
    if (got <= 0) break;
    at += (uint64_t)got;
  }
  char end;
  if (status == VTB_OK && at == st->size) got = lib.zip_fread(f, &end, 1);
  if (status == VTB_OK && got < 0)
    status = zip_fails(c, "a member cannot be read", lib.zip_file_get_error(f));
  else if (status == VTB_OK && (at != st->size || got))
    status = vtb_fail(c->err, VTB_E_INPUT,
                      "%s: damaged zip file: a member is not as long as the file says", c->path);
  free(skipped);
  lib.zip_fclose(f);
  return status;
}

/* A whole member, which the store of tensors keeps. */
static vtb_status read_kept(vtb_checkpoint *c, const zip_stat_t *st, uint64_t from, uint64_t to,
                            unsigned char **out) {
  VTB_TRY(pay(c, st));
  *out = vtb_aligned_alloc((size_t)(to - from) + 1);
  if (!*out || !vtb_weights_keep(c->w, *out, free)) return vtb_no_memory(c->err, c->path);
  return read_range(c, c->source, st, from, to, *out);
}

/* Bytes that were read are copied: the file need not stay in memory beside it. */
static void give_back_pages(vtb_checkpoint *c, archive *a, uint64_t n) {
  a->mapped += n;
  if (a->mapped < KEPT_PAGES) return;
  (void)madvise((void *)(uintptr_t)c->file.data, c->file.n, MADV_DONTNEED);
  a->mapped = 0;
}

static vtb_status load_member(vtb_checkpoint *c, py_storage *s) {
  char name[128];
  zip_stat_t st;
  unsigned char *data = NULL;
  snprintf(name, sizeof name, "data/%s", s->key);
  if (!find_member(c->source, name, &st))
    return vtb_fail(c->err, VTB_E_INPUT, "%s: damaged: it has no member data/%.40s", c->path,
                    s->key);
  if (st.size != (uint64_t)s->n_bytes)
    return vtb_fail(c->err, VTB_E_INPUT,
                    "%s: damaged: member data/%.40s has %llu bytes, its tensors need %lld", c->path,
                    s->key, (unsigned long long)st.size, (long long)s->n_bytes);
  vtb_status status = read_kept(c, &st, (uint64_t)s->from, (uint64_t)s->to, &data);
  s->data = data;
  give_back_pages(c, c->source, st.size);
  return status;
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Two members of one name: readers take different ones, and neither is taken here. */
static vtb_status check_names(vtb_checkpoint *c, const archive *a) {
  zip_int64_t n = lib.zip_get_num_entries(a->zip, 0);
  vtb_map seen = {0};
  vtb_status status = VTB_OK;
  for (zip_int64_t i = 0; i < n && status == VTB_OK; i++) {
    const char *name = lib.zip_get_name(a->zip, (zip_uint64_t)i, ZIP_FL_ENC_RAW);
    if (!name) continue;
    if (vtb_map_has(&seen, name))
      status = vtb_fail(c->err, VTB_E_INPUT, "%s: damaged zip file: it has two members %.100s",
                        c->path, name);
    else if (!vtb_map_try_set(&seen, name, c))
      status = vtb_no_memory(c->err, c->path);
  }
  vtb_map_free(&seen);
  return status;
}

/* The kind of file that the members say it is; its prefix if it is a checkpoint. */
static vtb_status find_pickle(vtb_checkpoint *c, archive *a) {
  static const char pickle[] = "data.pkl";
  zip_int64_t n = lib.zip_get_num_entries(a->zip, 0);
  bool arrays = false;
  if (n > MOST_MEMBERS)
    return vtb_fail(c->err, VTB_E_INPUT, "%s: a zip file of %lld members is no file of weights",
                    c->path, (long long)n);
  for (zip_int64_t i = 0; i < n; i++) {
    const char *name = lib.zip_get_name(a->zip, (zip_uint64_t)i, ZIP_FL_ENC_RAW);
    if (!name) continue;
    arrays = arrays || vtb_ends_with(name, ".npy");
    size_t before = strlen(name) - (sizeof pickle - 1);
    const char *slash = strchr(name, '/');
    if (!vtb_ends_with(name, pickle) || !slash || slash + 1 != name + before ||
        before >= sizeof a->prefix)
      continue;
    memcpy(a->prefix, name, before);
    a->prefix[before] = 0;
    return VTB_OK;
  }
  return vtb_fail(c->err, VTB_E_INPUT, "%s: a zip file, but not one of PyTorch's%s", c->path,
                  arrays ? ": arrays of NumPy (.npz) are not read"
                         : " (it has no member data.pkl)");
}

static vtb_status check_kind(vtb_checkpoint *c, const archive *a) {
  zip_stat_t st;
  char order[8] = "";
  if (find_member(a, "constants.pkl", &st))
    return vtb_fail(
        c->err, VTB_E_INPUT,
        "%s: a TorchScript program, not weights alone: save the model's state_dict() in "
        "Python and take that",
        c->path);
  if (!find_member(a, "byteorder", &st) || st.size >= sizeof order) return VTB_OK;
  VTB_TRY(read_range(c, a, &st, 0, st.size, (unsigned char *)order));
  if (!vtb_streq(order, "little"))
    return vtb_fail(c->err, VTB_E_INPUT, "%s: its numbers are in big-endian order", c->path);
  return VTB_OK;
}

static vtb_status read_archive(vtb_checkpoint *c, archive *a) {
  zip_stat_t st;
  unsigned char *data = NULL;
  py_value *root = NULL;
  VTB_TRY(find_pickle(c, a));
  VTB_TRY(check_names(c, a));
  VTB_TRY(check_kind(c, a));
  if (!find_member(a, "data.pkl", &st) || st.size > MOST_PICKLE)
    return vtb_fail(c->err, VTB_E_INPUT, "%s: data.pkl is too large for a file of weights",
                    c->path);
  c->source = a;
  c->load = load_member;
  VTB_TRY(read_kept(c, &st, 0, st.size, &data));
  vtb_py_begin(&c->machine, c->path, data, (size_t)st.size, &c->arena, c->err);
  c->machine.torch = true;
  vtb_status status = vtb_py_load(&c->machine, &root);
  return status == VTB_OK ? vtb__checkpoint_take(c, root) : status;
}

vtb_status vtb__read_zip(vtb_checkpoint *c) {
  zip_error_t e;
  archive a = {0};
  VTB_TRY(vtb_library_need(&library, c->err));
  lib.zip_error_init(&e);
  zip_source_t *source = lib.zip_source_buffer_create(c->file.data, c->file.n, 0, &e);
  if (source) a.zip = lib.zip_open_from_source(source, ZIP_RDONLY, &e);
  vtb_status status = a.zip ? read_archive(c, &a) : zip_fails(c, "it cannot be opened", &e);
  if (a.zip)
    lib.zip_discard(a.zip);
  else
    lib.zip_source_free(source);
  lib.zip_error_fini(&e);
  return status;
}
