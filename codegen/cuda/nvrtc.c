/* NVRTC: see nvrtc.h. */
#include "codegen/cuda/nvrtc.h"

#include <pthread.h>
#include <string.h>

#include "codegen/codegen.h"
#include "runtime/base/library.h"

typedef struct nvrtc_program *nvrtc_program;

/* The few functions used; their types have not changed since CUDA 11. */
static struct {
  int (*version)(int *, int *);
  const char *(*error)(int);
  int (*create)(nvrtc_program *, const char *, const char *, int, const char *const *, const char *const *);
  int (*destroy)(nvrtc_program *);
  int (*compile)(nvrtc_program, int, const char *const *);
  int (*log_size)(nvrtc_program, size_t *);
  int (*log)(nvrtc_program, char *);
  int (*cubin_size)(nvrtc_program, size_t *);
  int (*cubin)(nvrtc_program, char *);
  int (*ptx_size)(nvrtc_program, size_t *);
  int (*ptx)(nvrtc_program, char *);
} api;

static struct {
  bool ok;
  int major, minor;
  char *path;
  char why[160];
} state;

static const vtb_library_symbol symbols[] = {
    {"nvrtcVersion", &api.version},
    {"nvrtcGetErrorString", &api.error},
    {"nvrtcCreateProgram", &api.create},
    {"nvrtcDestroyProgram", &api.destroy},
    {"nvrtcCompileProgram", &api.compile},
    {"nvrtcGetProgramLogSize", &api.log_size},
    {"nvrtcGetProgramLog", &api.log},
    {"nvrtcGetCUBINSize", &api.cubin_size},
    {"nvrtcGetCUBIN", &api.cubin},
    {"nvrtcGetPTXSize", &api.ptx_size},
    {"nvrtcGetPTX", &api.ptx},
};

static void open_once(void) {
  static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", NULL};
  const char *missing = NULL;
  void *library = vtb_library_open(names, &state.path);
  if (!library)
    snprintf(state.why, sizeof state.why, "no libnvrtc.so.13 or .12 was found; set CUDA_HOME or install nvidia-cuda-nvrtc");
  else if (!vtb_library_bind(library, symbols, sizeof symbols / sizeof *symbols, &missing))
    snprintf(state.why, sizeof state.why, "%.100s has no function %s", state.path, missing);
  else if (api.version(&state.major, &state.minor) != 0)
    snprintf(state.why, sizeof state.why, "%.100s does not tell its version", state.path);
  else
    state.ok = true;
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
    vtb_strbuf_puts(out, state.why);
  return state.ok;
}

void vtb_cuda_image_free(vtb_cuda_image *image) {
  free(image->data);
  free(image->log);
  *image = (vtb_cuda_image){0};
}

/* ---- compiling -------------------------------------------------------------------------------------------- */

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
  free(bytes);
  return NULL;
}

/* The log names lines; so do we. */
static void print_failure(const char *source, const char *log) {
  int line = 1;
  for (const char *s = source; *s; line++) {
    size_t n = strcspn(s, "\n");
    fprintf(stderr, "%5d  %.*s\n", line, (int)n, s);
    s += n + (s[n] == '\n');
  }
  fprintf(stderr, "%s\n", log ? log : "NVRTC left no log");
}

static vtb_status run(nvrtc_program p, const char *source, const char *const *options, int n_options, bool ptx,
                      vtb_cuda_image *image, vtb_error *err) {
  size_t n = 0;
  int code = api.compile(p, n_options, options);
  image->log = fetch(p, api.log_size, api.log, &n);
  if (code != 0) {
    print_failure(source, image->log);
    return vtb_fail(err, VTB_E_INTERNAL, "NVRTC: %s (%s); its log and the source are above", api.error(code), options[0]);
  }
  image->data = ptx ? fetch(p, api.ptx_size, api.ptx, &image->n) : fetch(p, api.cubin_size, api.cubin, &image->n);
  if (!image->data) return vtb_fail(err, VTB_E_DEVICE, "NVRTC compiled for %s, but gave no code", options[0]);
  if (!image->log) image->log = vtb_xstrdup("");
  return VTB_OK;
}

static vtb_status compile(const char *source, const char *const *options, int n_options, bool ptx,
                          vtb_cuda_image *image, vtb_error *err) {
  nvrtc_program p = NULL;
  int code = api.create(&p, source, "vertebra.cu", 0, NULL, NULL);
  if (code != 0) return vtb_fail(err, VTB_E_DEVICE, "NVRTC: %s", api.error(code));
  vtb_status status = run(p, source, options, n_options, ptx, image, err);
  api.destroy(&p);
  if (status != VTB_OK) vtb_cuda_image_free(image);
  return status;
}

vtb_status vtb_cuda_compile(const char *source, const char *arch, vtb_cuda_image *image, vtb_error *err) {
  *image = (vtb_cuda_image){0};
  if (!is_open()) return vtb_fail(err, VTB_E_DEVICE, "CUDA code cannot be compiled: %s", state.why);
  char arch_option[64], version[32];
  bool ptx = vtb_starts_with(arch, "compute_");
  snprintf(arch_option, sizeof arch_option, "--gpu-architecture=%s", arch);
  snprintf(version, sizeof version, "nvrtc %d.%d", state.major, state.minor);
  /* 177: a function of the library that no kernel calls */
  const char *options[] = {arch_option, "--std=c++17", "-default-device", "-diag-suppress=177", "--ptxas-options=-v"};
  enum { N_OPTIONS = sizeof options / sizeof *options };
  vtb_strbuf text = {0};
  vtb_strbuf_printf(&text, "%s%s%s", vtb_cuda_intrinsics(), vtb_cuda_library(), source);
  const char *parts[N_OPTIONS + 3] = {VTB_VERSION, version, text.at};
  for (int i = 0; i < N_OPTIONS; i++) parts[3 + i] = options[i];
  vtb_cuda_key key = vtb__cuda_cache_key(parts, N_OPTIONS + 3);
  vtb_status status = VTB_OK;
  if (!vtb__cuda_cache_get(&key, image)) {
    status = compile(text.at, options, N_OPTIONS - ptx, ptx, image, err);
    if (status == VTB_OK) vtb__cuda_cache_put(&key, image);
  }
  vtb_strbuf_free(&text);
  return status;
}

/* ---- what ptxas says -------------------------------------------------------------------------------------- */

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
  const char *used = strstr(at, "Used "), *frame = strstr(at, " bytes stack frame"), *next = strstr(at + 1, "entry function '");
  if (!used || (next && used > next)) return false;
  if (frame && frame < used) {
    while (frame > at && frame[-1] >= '0' && frame[-1] <= '9') frame--;
    int stores = 0, loads = 0;
    if (sscanf(frame, "%d bytes stack frame, %d bytes spill stores, %d bytes spill loads", &out->stack_bytes, &stores,
               &loads) == 3)
      out->spill_bytes = stores + loads;
  }
  return sscanf(used, "Used %d registers", &out->registers) == 1;
}
