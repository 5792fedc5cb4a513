/* NVRTC: see nvrtc.h. */
#include "codegen/cuda/compile/nvrtc.h"

#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "codegen/codegen.h"
#include "runtime/base/library.h"

typedef struct nvrtc_program *nvrtc_program;
enum { INVALID_OPTION = 5 }; /* nvrtcResult */

/* The few functions used; their types have not changed since CUDA 11. */
typedef struct nvrtc_api {
  int (*version)(int *, int *);
  const char *(*error)(int);
  int (*create)(nvrtc_program *, const char *, const char *, int, const char *const *,
                const char *const *);
  int (*destroy)(nvrtc_program *);
  int (*compile)(nvrtc_program, int, const char *const *);
  int (*log_size)(nvrtc_program, size_t *);
  int (*log)(nvrtc_program, char *);
  int (*cubin_size)(nvrtc_program, size_t *);
  int (*cubin)(nvrtc_program, char *);
  int (*ptx_size)(nvrtc_program, size_t *);
  int (*ptx)(nvrtc_program, char *);
} nvrtc_api;

static const vtb_symbol symbols[] = {
    {"nvrtcVersion", offsetof(nvrtc_api, version)},
    {"nvrtcGetErrorString", offsetof(nvrtc_api, error)},
    {"nvrtcCreateProgram", offsetof(nvrtc_api, create)},
    {"nvrtcDestroyProgram", offsetof(nvrtc_api, destroy)},
    {"nvrtcCompileProgram", offsetof(nvrtc_api, compile)},
    {"nvrtcGetProgramLogSize", offsetof(nvrtc_api, log_size)},
    {"nvrtcGetProgramLog", offsetof(nvrtc_api, log)},
    {"nvrtcGetCUBINSize", offsetof(nvrtc_api, cubin_size)},
    {"nvrtcGetCUBIN", offsetof(nvrtc_api, cubin)},
    {"nvrtcGetPTXSize", offsetof(nvrtc_api, ptx_size)},
    {"nvrtcGetPTX", offsetof(nvrtc_api, ptx)},
};
static const char *const file_names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", NULL};
static const vtb_library library = {
    .what = "NVRTC",
    .environment = "VTB_NVRTC",
    .remedy = "pip install nvidia-cuda-nvrtc, or nvidia-cuda-nvrtc-cu12 for CUDA 12",
    .names = file_names,
    .symbols = symbols,
    .n_symbols = sizeof symbols / sizeof *symbols};

static nvrtc_api api;
static struct { /* written once */
  bool ok;
  int major, minor;
  char *path;
  vtb_error why;
} state;

static void open_once(void) {
  if (vtb_library_open(&library, &api, &state.path, &state.why) != VTB_OK) return;
  state.ok = api.version(&state.major, &state.minor) == 0;
  if (!state.ok)
    vtb_fail(&state.why, VTB_E_DEVICE, "NVRTC in %s does not tell its version", state.path);
}

static bool is_open(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, open_once);
  return state.ok;
}

bool vtb_cuda_describe_nvrtc(vtb_strbuf *out) {
  if (is_open())
    vtb_strbuf_printf(out, "NVRTC %d.%d (%s)", state.major, state.minor, state.path);
  else
    vtb_strbuf_puts(out, state.why.text);
  return state.ok;
}

void vtb_cuda_code_free(vtb_cuda_code *code) {
  vtb_free(code->data);
  vtb_free(code->log);
  *code = (vtb_cuda_code){0};
}

/* ---- compiling ------------------------------------------------------------------------------- */

typedef int (*size_fn)(nvrtc_program, size_t *);
typedef int (*data_fn)(nvrtc_program, char *);

/* malloc'd and NUL-terminated; NULL if NVRTC refuses. */
static char *fetch(nvrtc_program p, size_fn size, data_fn data, size_t *n) {
  if (size(p, n) != 0) return NULL;
  char *bytes = vtb_xmalloc(*n + 1);
  if (data(p, bytes) == 0) {
    bytes[*n] = '\0';
    return bytes;
  }
  vtb_free(bytes);
  return NULL;
}

/* Lines `from` to `to` with their numbers, which the log names. */
static void write_lines(const char *source, int from, int to, vtb_strbuf *out) {
  for (int line = 1; *source && line <= to; line++) {
    size_t n = strcspn(source, "\n");
    if (line >= from) vtb_strbuf_printf(out, "\n%5d  %.*s", line, (int)n, source);
    source += n + (source[n] == '\n');
  }
}

/* The error is the first of the log, over the lines about it; all of both is for the verbose. */
static vtb_status wrong_source(int result, const char *option, const char *source, const char *log,
                               vtb_error *err) {
  enum { ABOUT = 2 };
  vtb_strbuf excerpt = {0}, all = {0};
  const char *first = log ? strstr(log, "): error") : NULL;
  int line = 0;
  while (first && first > log && first[-1] != '\n') first--;
  if (first && sscanf(first, "%*[^(](%d)", &line) == 1) {
    vtb_strbuf_printf(&excerpt, "\n%.*s", (int)strcspn(first, "\n"), first);
    write_lines(source, line - ABOUT, line + ABOUT, &excerpt);
  }
  write_lines(source, 1, INT_MAX, &all);
  vtb_log("%s\n%s", all.at ? all.at : "", log ? log : "NVRTC left no log");
  vtb_fail(err, VTB_E_INTERNAL, "NVRTC: %s (%s); VTB_VERBOSE=1 shows its log and the source%s",
           api.error(result), option, excerpt.at ? excerpt.at : "");
  vtb_strbuf_free(&excerpt);
  vtb_strbuf_free(&all);
  return VTB_E_INTERNAL;
}

static vtb_status run(nvrtc_program p, const char *source, const char *const *options,
                      int n_options, bool ptx, vtb_cuda_code *code, vtb_error *err) {
  size_t n = 0;
  int result = api.compile(p, n_options, options);
  code->log = fetch(p, api.log_size, api.log, &n);
  if (result == INVALID_OPTION) /* all others are as old as the versions that are looked for */
    return vtb_fail(err, VTB_E_DEVICE,
                    "NVRTC %d.%d (%s) does not know %s: a newer NVRTC is needed, or an "
                    "architecture from sm_80 on",
                    state.major, state.minor, state.path, options[0]);
  if (result != 0) return wrong_source(result, options[0], source, code->log, err);
  code->data = ptx ? fetch(p, api.ptx_size, api.ptx, &code->n_bytes)
                   : fetch(p, api.cubin_size, api.cubin, &code->n_bytes);
  if (!code->data)
    return vtb_fail(err, VTB_E_DEVICE, "NVRTC compiled for %s, but gave no code", options[0]);
  if (!code->log) code->log = vtb_xstrdup("");
  return VTB_OK;
}

static vtb_status compile(const char *source, const char *const *options, int n_options, bool ptx,
                          vtb_cuda_code *code, vtb_error *err) {
  nvrtc_program p = NULL;
  int result = api.create(&p, source, "vertebra.cu", 0, NULL, NULL);
  if (result != 0) return vtb_fail(err, VTB_E_DEVICE, "NVRTC: %s", api.error(result));
  vtb_status status = run(p, source, options, n_options, ptx, code, err);
  api.destroy(&p);
  if (status != VTB_OK) vtb_cuda_code_free(code);
  return status;
}

static int spills_in(const char *log) {
  int total = 0, stores, loads;
  for (const char *at = log; (at = strstr(at, " bytes stack frame, ")); at++)
    if (sscanf(at, " bytes stack frame, %d bytes spill stores, %d bytes spill loads", &stores,
               &loads) == 2)
      total += stores + loads;
  return total;
}

char *vtb__cuda_give_room(const char *text, const char *log) {
  static const char plain[] = "VTB_KERNEL";
  enum { TWO_WORDS = 16 }; /* stored and loaded */
  vtb_strbuf out = {0};
  bool changed = false;
  for (const char *at; (at = strstr(text, plain));) {
    char name[128];
    vtb_cuda_resources r;
    size_t n = strcspn(at, "(");
    bool few = n > strlen(plain), roomy = vtb_starts_with(at, "VTB_KERNEL_ROOMY");
    bool spills = !roomy && sscanf(at + n, "(%*d, %127[^)])", name) == 1 &&
                  vtb_cuda_resources_of(log, name, &r) && r.spill_bytes > (few ? TWO_WORDS : 0);
    vtb_strbuf_write(&out, text, (size_t)(at - text));
    if (spills)
      vtb_strbuf_puts(&out, "VTB_KERNEL_ROOMY");
    else
      vtb_strbuf_write(&out, at, n);
    changed |= spills;
    text = at + n;
  }
  vtb_strbuf_puts(&out, text);
  if (changed) return out.at;
  vtb_strbuf_free(&out);
  return NULL;
}

/* Serial wgmmas, setmaxnreg without effect: right numbers at a fraction of the speed. */
static vtb_status check_speed(const char *log, vtb_error *err) {
  const char *loss = strstr(log, "Potential Performance Loss");
  if (!loss) return VTB_OK;
  return vtb_fail(err, VTB_E_INTERNAL, "ptxas: %.*s", (int)strcspn(loss, "\n"), loss);
}

/* A part of the cache's key: changes with what is done about spills. */
static const char policy[] = "once more with room";

/* Once more, with room for the kernels that spill, if that helps. */
static vtb_status compile_without_spills(const char *source, const char *const *options,
                                         int n_options, bool ptx, vtb_cuda_code *code,
                                         vtb_error *err) {
  vtb_status status = compile(source, options, n_options, ptx, code, err);
  char *roomy = status == VTB_OK && !ptx ? vtb__cuda_give_room(source, code->log) : NULL;
  vtb_cuda_code second = {0};
  vtb_error ignored = {0};
  if (roomy && compile(roomy, options, n_options, ptx, &second, &ignored) == VTB_OK &&
      spills_in(second.log) < spills_in(code->log)) {
    vtb_cuda_code_free(code);
    *code = second;
  } else {
    vtb_cuda_code_free(&second);
  }
  vtb_free(roomy);
  return status;
}

vtb_status vtb_cuda_compile(const char *common, const char *source, const char *arch,
                            const vtb_behaviour *how, vtb_cuda_code *code, vtb_error *err) {
  *code = (vtb_cuda_code){0};
  if (!is_open())
    return vtb_fail(err, VTB_E_DEVICE, "CUDA code cannot be compiled: %s", state.why.text);
  char arch_option[64], version[32];
  bool ptx = vtb_starts_with(arch, "compute_");
  snprintf(arch_option, sizeof arch_option, "--gpu-architecture=%s", arch);
  snprintf(version, sizeof version, "nvrtc %d.%d", state.major, state.minor);
  /* 177: a function of the library that no kernel calls. Division and square root to 2 ulp: the
   * exact ones are calls */
  const char *options[] = {arch_option,          "--std=c++17",      "-default-device",
                           "-diag-suppress=177", "--prec-div=false", "--prec-sqrt=false",
                           "--ptxas-options=-v"};
  enum { N_OPTIONS = sizeof options / sizeof *options };
  vtb_strbuf text = {0};
  vtb_strbuf_printf(&text, "%s%s%s%s", vtb_cuda_intrinsics(), vtb_cuda_library(), common, source);
  enum { FIRST = 4 };
  const char *parts[N_OPTIONS + FIRST] = {VTB_VERSION, version, policy, text.at};
  for (int i = 0; i < N_OPTIONS; i++) parts[FIRST + i] = options[i];
  vtb_cuda_key key = vtb__cuda_cache_key(parts, N_OPTIONS + FIRST);
  vtb_status status = VTB_OK;
  bool cached = !how || how->cuda_cache != VTB_NO;
  if (!cached || !vtb__cuda_cache_get(&key, code)) {
    status = compile_without_spills(text.at, options, N_OPTIONS - ptx, ptx, code, err);
    if (status == VTB_OK) status = check_speed(code->log, err);
    if (status == VTB_OK && cached) vtb__cuda_cache_put(&key, code, how ? how->cuda_cache_mb : 0);
    if (status != VTB_OK) vtb_cuda_code_free(code);
  }
  vtb_strbuf_free(&text);
  return status;
}

/* ---- a plan ---------------------------------------------------------------------------------- */

typedef struct batch {
  const vtb_launch_plan *plan;
  const char *arch;
  const vtb_behaviour *how;
  vtb_cuda_code *codes;
  pthread_mutex_t lock; /* of the rest */
  int next;
  vtb_status status;
  vtb_error *err;
} batch;

typedef struct one_source {
  batch *b;
  int i;
} one_source;

static vtb_status compile_one(void *arg, vtb_error *err) {
  const one_source *s = arg;
  const vtb_launch_plan *p = s->b->plan;
  return vtb_cuda_compile(p->common, p->sources[s->i].text, s->b->arch, s->b->how,
                          &s->b->codes[s->i], err);
}

/* With a guard a source: nobody may leave while other threads work on the batch. */
static void *worker(void *user) {
  batch *b = user;
  for (;;) {
    pthread_mutex_lock(&b->lock);
    int i = b->status == VTB_OK ? b->next++ : b->plan->n_sources;
    pthread_mutex_unlock(&b->lock);
    if (i >= b->plan->n_sources) return NULL;
    vtb_error err = {0};
    one_source s = {b, i};
    vtb_status status = vtb_guard(compile_one, &s, &err);
    if (status == VTB_OK) continue;
    pthread_mutex_lock(&b->lock);
    if (b->status == VTB_OK) b->status = vtb_fail(b->err, status, "%s", err.text);
    pthread_mutex_unlock(&b->lock);
  }
}

vtb_status vtb_cuda_compile_plan(const vtb_launch_plan *plan, const char *arch,
                                 const vtb_behaviour *how, vtb_cuda_code *codes, vtb_error *err) {
  enum { MOST_THREADS = 16 };
  pthread_t threads[MOST_THREADS];
  batch b = {.plan = plan, .arch = arch, .how = how, .codes = codes, .err = err};
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  int n = 0, want = plan->n_sources - 1 < cores - 1 ? plan->n_sources - 1 : (int)cores - 1;
  memset(codes, 0, sizeof *codes * (size_t)plan->n_sources);
  pthread_mutex_init(&b.lock, NULL);
  while (n < want && n < MOST_THREADS && pthread_create(&threads[n], NULL, worker, &b) == 0) n++;
  worker(&b);
  for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
  pthread_mutex_destroy(&b.lock);
  for (int i = 0; b.status != VTB_OK && i < plan->n_sources; i++) vtb_cuda_code_free(&codes[i]);
  return b.status;
}

/* ---- what ptxas says ------------------------------------------------------------------------- */

/*   ptxas info    : Compiling entry function 'row_1' for 'sm_90a'
 *   ptxas info    : Function properties for row_1
 *       0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
 *   ptxas info    : Used 24 registers, ... */
bool vtb_cuda_resources_of(const char *log, const char *kernel, vtb_cuda_resources *out) {
  vtb_strbuf quoted = {0};
  *out = (vtb_cuda_resources){0};
  vtb_strbuf_printf(&quoted, "entry function '%s'", kernel);
  const char *at = strstr(log, quoted.at);
  vtb_strbuf_free(&quoted);
  if (!at) return false;
  const char *used = strstr(at, "Used "), *frame = strstr(at, " bytes stack frame"),
             *next = strstr(at + 1, "entry function '");
  if (!used || (next && used > next)) return false;
  if (frame && frame < used) {
    while (frame > at && frame[-1] >= '0' && frame[-1] <= '9') frame--;
    int stores = 0, loads = 0;
    if (sscanf(frame, "%d bytes stack frame, %d bytes spill stores, %d bytes spill loads",
               &out->stack_bytes, &stores, &loads) == 3)
      out->spill_bytes = stores + loads;
  }
  return sscanf(used, "Used %d registers", &out->registers) == 1;
}
