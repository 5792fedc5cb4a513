/* The audit of a plan's launches: see audit.h. */
#include "runtime/launch/launch_walk.h"
#include "codegen/emulator/audit.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- memory that costs nothing --------------------------------------------------------------- */

enum { ALIGNMENT = 256, LEAST_PIECE = 4 << 20, MOST_PIECES = 16384 };
/* Two bf16 of 1, and a float near it: decays that keep, weights that do not overflow. */
static const uint32_t ONES = 0x3f803f80u;

typedef struct reserve {
  char *base;
  size_t bytes;
  char **tensors; /* one a tensor; of those in the state, there */
  char *workspace, *state, *constants;
} reserve;

static size_t aligned(int64_t bytes) {
  return ((size_t)bytes + 2 * ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static int64_t tensor_bytes(const vtb_tensor_info *t) { return vtb_tensor_info_count(t) * 4; }

/* A file in memory that holds ones. */
static int file_of_ones(size_t bytes) {
  int fd = memfd_create("ones", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) {
    if (fd >= 0) close(fd);
    return -1;
  }
  uint32_t *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) {
    close(fd);
    return -1;
  }
  for (size_t i = 0; i < bytes / sizeof *at; i++) at[i] = ONES;
  munmap(at, bytes);
  return fd;
}

/* Addresses as many as are needed, all backed by one small file; what is written is copied. */
static vtb_status reserve_bytes(reserve *r, size_t bytes, vtb_error *err) {
  size_t piece = LEAST_PIECE;
  while (bytes / piece >= MOST_PIECES) piece *= 2;
  bytes = (bytes + piece - 1) / piece * piece;
  int fd = file_of_ones(piece), kind = MAP_PRIVATE | MAP_NORESERVE;
  if (fd < 0) return vtb_fail(err, VTB_E_MEMORY, "no memory for the audit: %s", strerror(errno));
  r->base = mmap(NULL, bytes, PROT_NONE, kind | MAP_ANONYMOUS, -1, 0);
  bool ok = r->base != MAP_FAILED;
  if (ok) r->bytes = bytes;
  for (size_t at = 0; ok && at < bytes; at += piece)
    ok = mmap(r->base + at, piece, PROT_READ | PROT_WRITE, kind | MAP_FIXED, fd, 0) != MAP_FAILED;
  close(fd);
  return ok ? VTB_OK
            : vtb_fail(err, VTB_E_MEMORY, "%zu bytes of addresses for the audit: %s", bytes,
                       strerror(errno));
}

static vtb_status reserve_plan(reserve *r, const vtb_launch_plan *p, vtb_error *err) {
  size_t bytes = aligned(p->workspace_bytes) + aligned(p->state_bytes) + aligned(p->constant_bytes);
  for (int i = 0; i < p->n_tensors; i++)
    if (vtb_launch_place(p, i) < 0) bytes += aligned(tensor_bytes(&p->tensors[i]));
  VTB_TRY(reserve_bytes(r, bytes, err));
  char *at = r->base;
  r->workspace = at;
  r->state = at += aligned(p->workspace_bytes);
  r->constants = at += aligned(p->state_bytes);
  at += aligned(p->constant_bytes);
  if (p->constant_bytes) memcpy(r->constants, p->constants, (size_t)p->constant_bytes);
  r->tensors = vtb_xcalloc((size_t)p->n_tensors + 1, sizeof *r->tensors);
  for (int i = 0; i < p->n_tensors; i++) {
    int64_t place = vtb_launch_place(p, i), n = tensor_bytes(&p->tensors[i]);
    r->tensors[i] = place >= 0 ? r->state + place : at;
    if (p->tensors[i].is_int) memset(r->tensors[i], 0, (size_t)n);
    if (place < 0) at += aligned(n);
  }
  return VTB_OK;
}

static void release(reserve *r) {
  if (r->bytes) munmap(r->base, r->bytes);
  vtb_free(r->tensors);
}

/* ---- which launches are the same ------------------------------------------------------------- */

static void put_key(const vtb_launch_plan *p, const vtb_launch_step *s, vtb_strbuf *key) {
  key->n = 0;
  vtb_strbuf_printf(key, "%d %d %lld", s->kind, s->index, (long long)s->grid);
  for (int i = 0; i < s->n_args; i++)
    vtb_strbuf_printf(key, " %lld", (long long)(p->args[s->first_arg + i].offset % 128));
}

static void list_rows(vtb_audit *a, int64_t least_bytes) {
  const vtb_launch_plan *p = a->plan;
  vtb_map known = {0};
  vtb_strbuf key = {0};
  for (int i = p->n_prepared; i < p->n_steps; i++) {
    put_key(p, &p->steps[i], &key);
    size_t row = (size_t)(uintptr_t)vtb_map_get(&known, key.at);
    if (row) {
      a->rows.at[row - 1].launches += (int)vtb_launch_runs(p, i);
      continue;
    }
    vtb_audit_row r = {.step = i,
                       .launches = (int)vtb_launch_runs(p, i),
                       .moved = vtb_launch_traffic_of(p, &p->steps[i])};
    r.counted =
        p->steps[i].kind == VTB_LAUNCH_KERNEL && r.moved.read + r.moved.written >= least_bytes;
    vtb_vec_push(&a->rows, r);
    vtb_map_set(&known, key.at, (void *)(uintptr_t)a->rows.n);
  }
  vtb_map_free(&known);
  vtb_strbuf_free(&key);
}

/* ---- counting -------------------------------------------------------------------------------- */

/* The first, the last, the middle one, and two that the grid's size decides. */
enum { MOST_BLOCKS = 5 };
static int choose_blocks(int64_t grid, int64_t blocks[MOST_BLOCKS]) {
  uint64_t hash = vtb_hash_bytes(VTB_HASH_INIT, &grid, sizeof grid);
  const int64_t wanted[MOST_BLOCKS] = {0, grid - 1, grid / 2, (int64_t)(hash % (uint64_t)grid),
                                       (int64_t)((hash >> 20) % (uint64_t)grid)};
  int n = 0;
  for (int i = 0; i < MOST_BLOCKS; i++) {
    bool again = false;
    for (int k = 0; k < n; k++) again |= blocks[k] == wanted[i];
    if (!again) blocks[n++] = wanted[i];
  }
  return n;
}

static vtb_emu_arg address(const reserve *r, const vtb_launch_arg *a) {
  char *base = a->space == VTB_LAUNCH_TENSOR      ? r->tensors[a->tensor]
               : a->space == VTB_LAUNCH_WORKSPACE ? r->workspace
               : a->space == VTB_LAUNCH_STATE     ? r->state
                                                  : r->constants;
  return (vtb_emu_arg){.begin = base + a->offset, .end = base + a->offset + a->bytes};
}

static vtb_status count_row(const vtb_audit *a, const reserve *r, vtb_emulator *e,
                            vtb_audit_row *row, vtb_error *err) {
  const vtb_launch_plan *p = a->plan;
  const vtb_launch_step *s = &p->steps[row->step];
  const vtb_launch_kernel *k = &p->kernels[s->index];
  vtb_emu_arg *args = vtb_xcalloc((size_t)s->n_args + 1, sizeof *args);
  for (int i = 0; i < s->n_args; i++) args[i] = address(r, &p->args[s->first_arg + i]);
  vtb_emulator_launch l = {.kernel = k->name,
                           .grid = s->grid,
                           .threads = k->threads,
                           .cluster = k->cluster,
                           .shared_bytes = k->shared_bytes,
                           .n_args = s->n_args,
                           .args = args};
  int64_t *blocks = vtb_xcalloc((size_t)(a->whole ? s->grid : MOST_BLOCKS), sizeof *blocks);
  int n = a->whole ? (int)s->grid : choose_blocks(s->grid, blocks);
  for (int i = 0; i < n && a->whole; i++) blocks[i] = i;
  row->counts.whole = a->whole;
  vtb_status status = vtb_emulator_count(e, &l, blocks, n, &row->counts, err);
  vtb_free(blocks);
  vtb_free(args);
  return status;
}

/* The line of the source that errors and counts call kernels.cu:NUMBER. */
static void quote_line(const char *text, vtb_emulator_counts *c) {
  const char *number = strrchr(c->worst, ' ');
  number = number ? number + 1 : strchr(c->worst, ':') ? strchr(c->worst, ':') + 1 : NULL;
  long line = number ? strtol(number, NULL, 10) : 0;
  if (line < 1) return;
  while (--line && text) text = (text = strchr(text, '\n')) ? text + 1 : NULL;
  if (!text) return;
  text += strspn(text, " ");
  size_t n = strcspn(text, "\n");
  snprintf(c->worst, sizeof c->worst, "%.*s", (int)(n < 72 ? n : 72), text);
}

static vtb_status count_source(vtb_audit *a, const reserve *r, int source, vtb_error *err) {
  const vtb_launch_plan *p = a->plan;
  const char **names = vtb_xcalloc((size_t)p->n_kernels + 1, sizeof *names);
  vtb_emulator *e = NULL;
  vtb_strbuf text = {0};
  int n = 0;
  vtb_status status = VTB_OK;
  for (int i = 0; i < p->n_kernels; i++)
    if (p->kernels[i].source == source) names[n++] = p->kernels[i].name;
  vtb_strbuf_printf(&text, "%s%s\n", p->common ? p->common : "", p->sources[source].text);
  for (size_t i = 0; i < a->rows.n && status == VTB_OK; i++) {
    vtb_audit_row *row = &a->rows.at[i];
    if (!row->counted || p->kernels[p->steps[row->step].index].source != source) continue;
    if (!e)
      status =
          vtb_emulator_new(text.at, names, n, &(vtb_emulator_options){.counted = true}, &e, err);
    if (status == VTB_OK) status = count_row(a, r, e, row, err);
    if (status == VTB_OK) quote_line(text.at, &row->counts);
  }
  vtb_emulator_free(e);
  vtb_strbuf_free(&text);
  vtb_free(names);
  return status;
}

vtb_status vtb_audit_plan(const vtb_launch_plan *plan, int64_t least_bytes, bool whole,
                          vtb_audit *out, vtb_error *err) {
  reserve r = {0};
  *out = (vtb_audit){.plan = plan, .whole = whole};
  list_rows(out, least_bytes);
  vtb_status status = reserve_plan(&r, plan, err);
  for (int i = 0; i < plan->n_sources && status == VTB_OK; i++)
    status = count_source(out, &r, i, err);
  release(&r);
  if (status != VTB_OK) vtb_audit_free(out);
  return status;
}

void vtb_audit_free(vtb_audit *a) { vtb_vec_free(&a->rows); }
