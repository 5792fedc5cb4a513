/* Foundation shared by the compiler and the runtime: status, arena, vectors, strings, hash, files,
 * log.
 *
 * Ownership: an arena owns everything allocated from it until vtb_arena_free(); a vtb_strbuf owns
 * its bytes until vtb_strbuf_free(). No function here keeps a pointer to its arguments unless it
 * says so.
 * Threads: objects may be used from one thread at a time; distinct objects are independent.
 */
#ifndef VTB_BASE_H
#define VTB_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- status ---------------------------------------------------------------------------------- */

/* As in runtime/vertebra.h, which applications include alone; tests/runtime/header.sh holds the two
 * texts equal. */
#ifndef VTB_STATUS_DEFINED
#define VTB_STATUS_DEFINED
/* The outcome of a call. The value is also the exit status of a command that returns it. */
typedef enum vtb_status {
  VTB_OK = 0,
  VTB_E_INPUT = 1,    /* a file or what the user gave is at fault; the text says why */
  VTB_E_USAGE = 2,    /* wrong use of a function or of the command line */
  VTB_E_MEMORY = 3,   /* out of memory */
  VTB_E_DEVICE = 4,   /* device or driver */
  VTB_E_NUMBERS = 5,  /* numbers differ */
  VTB_E_INTERNAL = 70 /* our bug */
} vtb_status;

/* The first error of a chain of calls. `text` is empty while there is none. */
typedef struct vtb_error {
  vtb_status status;
  char text[1024];
} vtb_error;

#if defined(__GNUC__)
#define VTB_MUST_USE __attribute__((warn_unused_result))
#else
#define VTB_MUST_USE
#endif
#endif

#if defined(__GNUC__)
#define VTB_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define VTB_NORETURN __attribute__((noreturn))
#else
#define VTB_PRINTF(fmt, args)
#define VTB_NORETURN
#endif

/* Records the error if `err` (may be NULL) has none yet; returns `status` always. */
vtb_status vtb_fail(vtb_error *err, vtb_status status, const char *fmt, ...) VTB_PRINTF(3, 4);

/* A call that fails ends the function that makes it, with the same status: for functions that have
 * nothing to give back yet. Those that have chain `status` up to the one place that frees. */
#define VTB_TRY(call)                                                                              \
  do {                                                                                             \
    vtb_status vtb_tried = (call);                                                                 \
    if (vtb_tried != VTB_OK) return vtb_tried;                                                     \
  } while (0)

/* Leaves to the guard (see below) with VTB_E_INTERNAL, "internal error at" the place. For broken
 * invariants only, and not in the runtime. */
VTB_NORETURN void vtb_bug_at(const char *file, int line, const char *fmt, ...) VTB_PRINTF(3, 4);
#define vtb_bug(...) vtb_bug_at(__FILE__, __LINE__, __VA_ARGS__)
#define vtb_check(cond, ...) ((cond) ? (void)0 : vtb_bug(__VA_ARGS__))

/* ---- memory ---------------------------------------------------------------------------------- */

/* Two families, because two kinds of code take memory:
 *
 * The runtime runs inside somebody's server for weeks. It checks every allocation: malloc() and its
 * like, and of this header what says "NULL", "false" or `failed` when out of memory. It never
 * leaves to a guard.
 *
 * The compiler and the command line make thousands of small things for one short piece of work.
 * They use the functions that never fail, and run inside a guard, the one place where "out of
 * memory" becomes a status:
 *
 *   static vtb_status compile(void *arg, vtb_error *err) { ... vtb_xcalloc(n, size) ... }
 *   status = vtb_guard(compile, &request, err);
 *
 * What the functions that never fail take inside a guard is given back with vtb_free(), never with
 * free(): the guard keeps a list of it. Without a guard they end the process when memory runs out;
 * who calls them sees to it that there is one. docs/architecture.md, "Memory and errors". */
/* "out of memory for <what>" */
vtb_status vtb_no_memory(vtb_error *err, const char *what);

/* Runs body(arg, err) and returns its status. Where a function that never fails finds no memory
 * inside it, or vtb_bug() a broken invariant, what was taken inside it and not given back is freed,
 * after everything deferred was undone, the latest first; the guard then returns VTB_E_MEMORY or
 * VTB_E_INTERNAL with a sentence in *err. What was there before and what `body` writes to through
 * `arg` must be usable at any moment. If body returns, with any status, what it took belongs to
 * whom it gave it. Guards nest: a failing inner one leaves the outer one's work alone. Threads: a
 * guard is of its thread; a thread that is started inside one needs its own around its work. */
typedef vtb_status (*vtb_guarded_fn)(void *arg, vtb_error *err);
VTB_MUST_USE vtb_status vtb_guard(vtb_guarded_fn body, void *arg, vtb_error *err);
/* For what is not memory (a file, an object of another library): undo(what) if the guard fails
 * before vtb_forget(what), while the frames that are being left still stand. Outside of guards both
 * do nothing. */
void vtb_defer(void (*undo)(void *what), void *what);
void vtb_forget(const void *what);

/* Leaves to the guard with VTB_E_MEMORY: where a function that checks has found none, of so many
 * bytes. */
VTB_NORETURN void vtb_out_of_memory(size_t size_bytes);

/* Never fail. Size products are checked. */
void *vtb_xmalloc(size_t size_bytes);
void *vtb_xcalloc(size_t count, size_t size_bytes);
void *vtb_xrealloc(void *p, size_t count, size_t size_bytes);
char *vtb_xstrdup(const char *s);
void vtb_free(void *p);  /* takes any malloc'd memory, and NULL */
void *vtb_need(void *p); /* p; NULL is out of memory: for what the runtime makes */

/* Cache-line (64 byte) aligned; NULL when out of memory. Free with free(). */
void *vtb_aligned_alloc(size_t size_bytes);
/* malloc'd; NULL when out of memory. */
char *vtb_strprintf(const char *fmt, ...) VTB_PRINTF(1, 2);

typedef struct vtb_arena {
  struct vtb_arena_block *head;
  size_t used_bytes;
} vtb_arena;

/* Memory of an arena is 16-byte aligned and zeroed. */
void vtb_arena_init(vtb_arena *a);
void vtb_arena_free(vtb_arena *a);
void *vtb_arena_try(vtb_arena *a, size_t count, size_t size_bytes); /* NULL when out of memory */
/* Never fail. */
void *vtb_arena_alloc(vtb_arena *a, size_t size_bytes);
void *vtb_arena_array(vtb_arena *a, size_t count, size_t size_bytes);
char *vtb_arena_strdup(vtb_arena *a, const char *s);
char *vtb_arena_strndup(vtb_arena *a, const char *s, size_t n);
char *vtb_arena_printf(vtb_arena *a, const char *fmt, ...) VTB_PRINTF(2, 3);
void *vtb_arena_memdup(vtb_arena *a, const void *p, size_t size_bytes);
#define VTB_NEW(arena, T) ((T *)vtb_arena_alloc((arena), sizeof(T)))
#define VTB_NEW_ARRAY(arena, T, n) ((T *)vtb_arena_array((arena), (size_t)(n), sizeof(T)))

/* ---- growable vector ------------------------------------------------------------------------- */

/* VTB_VEC(int) v = {0}; vtb_vec_push(&v, 3); v.at[0]; v.n; vtb_vec_free(&v) */
#define VTB_VEC(T)                                                                                 \
  struct {                                                                                         \
    T *at;                                                                                         \
    size_t n, cap;                                                                                 \
  }
void *vtb__vec_grow(void *at, size_t *cap, size_t need, size_t elem_bytes);
bool vtb__vec_try_grow(void *address_of_at, size_t *cap, size_t need, size_t elem_bytes);
/* Never fails. */
#define vtb_vec_push(v, x)                                                                         \
  ((v)->n == (v)->cap                                                                              \
       ? (void)((v)->at = vtb__vec_grow((v)->at, &(v)->cap, (v)->n + 1, sizeof *(v)->at))          \
       : (void)0,                                                                                  \
   (v)->at[(v)->n++] = (x))
/* False, and nothing changed, when out of memory. */
#define vtb_vec_try_push(v, x)                                                                     \
  (((v)->n < (v)->cap || vtb__vec_try_grow(&(v)->at, &(v)->cap, (v)->n + 1, sizeof *(v)->at)) &&   \
   ((v)->at[(v)->n++] = (x), true))
/* Behind one in an arena, of which nothing is freed: not to be mixed with the others. */
#define vtb_vec_put(a, v, x) (vtb__vec_room(a, v, (v)->n + 1), (v)->at[(v)->n++] = (x))
/* At least `count` elements, zeroed where there were none. */
#define vtb_vec_extend(a, v, count)                                                                \
  (vtb__vec_room(a, v, count), (v)->n = (v)->n < (size_t)(count) ? (size_t)(count) : (v)->n)
void *vtb__vec_grow_in(vtb_arena *a, const void *at, size_t *cap, size_t n, size_t need,
                       size_t elem_bytes);
#define vtb__vec_room(a, v, need)                                                                  \
  ((v)->cap < (size_t)(need) ? (void)((v)->at = vtb__vec_grow_in(a, (v)->at, &(v)->cap, (v)->n,    \
                                                                 (size_t)(need), sizeof *(v)->at)) \
                             : (void)0)
#define vtb_vec_free(v) (vtb_free((v)->at), (v)->at = NULL, (v)->n = (v)->cap = 0)

/* ---- strings --------------------------------------------------------------------------------- */

/* Appending to a strbuf never fails; to one that begins as VTB_CHECKED_STRBUF it does nothing from
 * the first time on that there is no memory, and `failed` says so: for the runtime. */
typedef struct vtb_strbuf {
  char *at; /* NUL-terminated once anything was appended; NULL before */
  size_t n, cap;
  bool checked, failed;
} vtb_strbuf;
#define VTB_CHECKED_STRBUF ((vtb_strbuf){.checked = true})

void vtb_strbuf_putc(vtb_strbuf *s, char c);
void vtb_strbuf_puts(vtb_strbuf *s, const char *text);
void vtb_strbuf_write(vtb_strbuf *s, const char *bytes, size_t n);
void vtb_strbuf_printf(vtb_strbuf *s, const char *fmt, ...) VTB_PRINTF(2, 3);
void vtb_strbuf_vprintf(vtb_strbuf *s, const char *fmt, va_list ap);
/* The shortest decimal text that reads back as the same number: 1e-5, 0.1, 3, nan. The second form
 * as few digits as a float needs. */
void vtb_strbuf_double(vtb_strbuf *s, double x);
void vtb_strbuf_float(vtb_strbuf *s, float x);
void vtb_strbuf_json(vtb_strbuf *s, const char *text); /* as a string of JSON */
/* As one word of a command line that a shell reads; behind others with a blank between. */
void vtb_strbuf_word(vtb_strbuf *s, const char *text);
/* As text or an attribute of XML, HTML, SVG; only what those read otherwise is escaped. */
void vtb_strbuf_xml(vtb_strbuf *s, const char *text);
/* As a field of CSV (RFC 4180) on one line: an end of line within it becomes a blank. */
void vtb_strbuf_csv(vtb_strbuf *s, const char *text);
void vtb_strbuf_free(vtb_strbuf *s);
/* Replaces what is in it; the text, NULL if there was no memory. */
const char *vtb_strbuf_format(vtb_strbuf *s, const char *fmt, ...) VTB_PRINTF(2, 3);
const char *vtb_strbuf_text(const vtb_strbuf *s); /* never NULL */
/* VTB_E_MEMORY if it failed. */
vtb_status vtb_strbuf_check(const vtb_strbuf *s, vtb_error *err);

bool vtb_streq(const char *a, const char *b); /* NULL equals only NULL */
bool vtb_starts_with(const char *s, const char *prefix);
bool vtb_ends_with(const char *s, const char *suffix);
/* Levenshtein distance with transpositions, capped at `limit` + 1. */
int vtb_edit_distance(const char *a, const char *b, int limit);
/* The candidate nearest to `name` if it is near enough to suggest, else NULL. */
const char *vtb_suggest(const char *name, const char *const *candidates, size_t n);

/* Insertion-ordered map from string to pointer. Keys are copied. */
typedef struct vtb_map {
  struct vtb_map_entry {
    char *key;
    void *value;
  } * at;
  size_t n, cap;
  uint32_t *slots;
  size_t n_slots;
} vtb_map;
void *vtb_map_get(const vtb_map *m, const char *key); /* NULL if absent */
bool vtb_map_has(const vtb_map *m, const char *key);
void vtb_map_set(vtb_map *m, const char *key, void *value);     /* never fails */
bool vtb_map_try_set(vtb_map *m, const char *key, void *value); /* false when out of memory */
void vtb_map_free(vtb_map *m);                                  /* frees keys, not values */

/* ---- hashes ---------------------------------------------------------------------------------- */

/* XXH3 of contents: of files, caches, weights. */
uint64_t vtb_hash64(const void *data, size_t n);
/* Its 128 bits as 32 hexadecimal digits: a name for contents. */
void vtb_hash128(const void *data, size_t n, char text[33]);
/* FNV-1a 64, for tables and short keys. */
#define VTB_HASH_INIT UINT64_C(0xcbf29ce484222325)
uint64_t vtb_hash_bytes(uint64_t h, const void *p, size_t n);
uint64_t vtb_hash_str(uint64_t h, const char *s);

/* ---- files ----------------------------------------------------------------------------------- */

/* After a call that failed: "cannot <doing> <path>: <errno in words>"; VTB_E_MEMORY if that was the
 * reason. */
vtb_status vtb_file_fail(vtb_error *err, const char *doing, const char *path);
/* Reads a whole file; *data is malloc'd, NUL-terminated beyond *n. Limit guards against absurd
 * sizes. */
VTB_MUST_USE vtb_status vtb_file_read(const char *path, size_t limit_bytes, char **data, size_t *n,
                                      vtb_error *err);
/* Writes to a temporary name beside `path`, syncs, renames: readers see the old file or the new
 * one. */
VTB_MUST_USE vtb_status vtb_file_write_atomic(const char *path, const void *data, size_t n,
                                              vtb_error *err);

/* The same for large content written in pieces. Between begin and commit only `file` is used. */
typedef struct vtb_atomic_file {
  FILE *file;
  char *path, *temp_path;
} vtb_atomic_file;
VTB_MUST_USE vtb_status vtb_atomic_begin(vtb_atomic_file *f, const char *path, vtb_error *err);
VTB_MUST_USE vtb_status vtb_atomic_commit(vtb_atomic_file *f, vtb_error *err);
void vtb_atomic_abort(vtb_atomic_file *f); /* harmless after commit */

typedef struct vtb_mapped_file {
  const unsigned char *data;
  size_t n;
} vtb_mapped_file;
/* read only */
VTB_MUST_USE vtb_status vtb_map_file(const char *path, vtb_mapped_file *f, vtb_error *err);
void vtb_unmap_file(vtb_mapped_file *f);

bool vtb_path_exists(const char *path);
bool vtb_path_is_dir(const char *path);
VTB_MUST_USE vtb_status vtb_make_dirs(const char *path, vtb_error *err);
/* $XDG_CACHE_HOME/vertebra or ~/.cache/vertebra; caller frees. cache.c */
char *vtb_cache_dir(void);
/* Its sub-folder `part`, made if needed, into which nobody else can write: VTB_E_INPUT if it is
 * another user's. The caller frees *folder. */
VTB_MUST_USE vtb_status vtb_cache_make(const char *part, char **folder, vtb_error *err);

/* ---- time, terminal, log --------------------------------------------------------------------- */

double vtb_now(void);            /* monotonic seconds */
bool vtb_color_enabled(FILE *f); /* terminal, and NO_COLOR unset */
void vtb_log_verbose(bool on);
void vtb_log(const char *fmt, ...) VTB_PRINTF(1, 2); /* stderr, only when verbose */
void vtb_warn(const char *text);                     /* stderr; a program's `warn` */

#endif
