/* Ranks joined by Open MPI, which is opened at run time: its binary interface has been the same
 * since version 3 (libmpi.so.40), so that its headers are not needed. One thread makes all calls
 * (MPI_THREAD_FUNNELED). */
#include "runtime/base/library.h"
#include "runtime/ranks/link.h"
#include "runtime/ranks/ranks.h"

#include <dlfcn.h>
#include <string.h>

typedef struct mpi_status { /* Open MPI's */
  int source, tag, error, cancelled;
  size_t bytes;
} mpi_status;

typedef struct mpi_api {
  int (*MPI_Initialized)(int *flag);
  int (*MPI_Init_thread)(int *argc, char ***argv, int wanted, int *provided);
  int (*MPI_Finalize)(void);
  int (*MPI_Get_library_version)(char *text, int *length);
  int (*MPI_Error_string)(int error, char *text, int *length);
  int (*MPI_Comm_set_errhandler)(void *comm, void *handler);
  int (*MPI_Comm_rank)(void *comm, int *rank);
  int (*MPI_Comm_size)(void *comm, int *size);
  int (*MPI_Isend)(const void *at, int n, void *type, int to, int tag, void *comm, void **request);
  int (*MPI_Irecv)(void *at, int n, void *type, int from, int tag, void *comm, void **request);
  int (*MPI_Testall)(int n, void **requests, int *flag, mpi_status *statuses);
  int (*MPI_Iprobe)(int from, int tag, void *comm, int *flag, mpi_status *status);
  int (*MPI_Recv)(void *at, int n, void *type, int from, int tag, void *comm, mpi_status *status);
  void *ompi_mpi_comm_world, *ompi_mpi_byte, *ompi_mpi_errors_return, *ompi_request_null;
} mpi_api;

enum { FUNNELED = 1, ANY_SOURCE = -1, VERSION_TEXT = 256, ERROR_TEXT = 256 };

#define SYMBOL(name)                                                                               \
  { #name, offsetof(mpi_api, name) }
static const vtb_symbol symbols[] = {
    SYMBOL(MPI_Initialized),   SYMBOL(MPI_Init_thread),
    SYMBOL(MPI_Finalize),      SYMBOL(MPI_Get_library_version),
    SYMBOL(MPI_Error_string),  SYMBOL(MPI_Comm_set_errhandler),
    SYMBOL(MPI_Comm_rank),     SYMBOL(MPI_Comm_size),
    SYMBOL(MPI_Isend),         SYMBOL(MPI_Irecv),
    SYMBOL(MPI_Testall),       SYMBOL(MPI_Iprobe),
    SYMBOL(MPI_Recv),          SYMBOL(ompi_mpi_comm_world),
    SYMBOL(ompi_mpi_byte),     SYMBOL(ompi_mpi_errors_return),
    SYMBOL(ompi_request_null),
};
static const char *const names[] = {"libmpi.so.40", "libmpi.so", NULL};
static const vtb_library mpi = {.what = "Open MPI",
                                .environment = "VTB_MPI",
                                .remedy = "apt install openmpi-bin libopenmpi3",
                                .names = names,
                                .symbols = symbols,
                                .n_symbols = sizeof symbols / sizeof *symbols};

typedef struct mpi_link {
  vtb__link link;
  mpi_api api;
} mpi_link;

/* The ranks that a message of this link can be lost on are named by whoever asks. */
static bool check_mpi(mpi_link *m, int result, const char *call, int other) {
  if (result == 0) return true;
  char text[ERROR_TEXT] = "";
  int n = 0;
  if (m->api.MPI_Error_string(result, text, &n) != 0 || !*text) snprintf(text, 16, "%d", result);
  if (other >= 0)
    snprintf(m->link.error, sizeof m->link.error, "MPI: %.150s in %s, rank %d", text, call, other);
  else
    snprintf(m->link.error, sizeof m->link.error, "MPI: %.150s in %s", text, call);
  return false;
}

static bool send(vtb__link *l, int to, int tag, const void *at, int64_t bytes, void **request) {
  mpi_link *m = (mpi_link *)l;
  const mpi_api *a = &m->api;
  return check_mpi(
      m, a->MPI_Isend(at, (int)bytes, a->ompi_mpi_byte, to, tag, a->ompi_mpi_comm_world, request),
      "MPI_Isend", to);
}

static bool receive(vtb__link *l, int from, int tag, void *at, int64_t bytes, void **request) {
  mpi_link *m = (mpi_link *)l;
  const mpi_api *a = &m->api;
  return check_mpi(
      m, a->MPI_Irecv(at, (int)bytes, a->ompi_mpi_byte, from, tag, a->ompi_mpi_comm_world, request),
      "MPI_Irecv", from);
}

static int test(vtb__link *l, int n, void **requests) {
  mpi_link *m = (mpi_link *)l;
  int all = 0;
  if (!check_mpi(m, m->api.MPI_Testall(n, requests, &all, NULL), "MPI_Testall", -1)) return -1;
  return all != 0;
}

static int take_message(vtb__link *l, int tag, void *at, int64_t bytes) {
  mpi_link *m = (mpi_link *)l;
  const mpi_api *a = &m->api;
  mpi_status s = {0};
  int there = 0;
  if (!check_mpi(m, a->MPI_Iprobe(ANY_SOURCE, tag, a->ompi_mpi_comm_world, &there, &s),
                 "MPI_Iprobe", -1))
    return -2;
  if (!there) return -1;
  int result =
      a->MPI_Recv(at, (int)bytes, a->ompi_mpi_byte, s.source, tag, a->ompi_mpi_comm_world, NULL);
  return check_mpi(m, result, "MPI_Recv", s.source) ? s.source : -2;
}

/* Behind an error the others may not be there to finalize, which waits for them. */
static void close_link(vtb__link *l, bool orderly) {
  mpi_link *m = (mpi_link *)l;
  if (orderly) (void)m->api.MPI_Finalize();
  free(m);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* "Open MPI v4.1.4, package: ..., ident: ..." */
static void describe_mpi(const mpi_api *a, char out[VERSION_TEXT]) {
  char text[8192] = ""; /* MPI_MAX_LIBRARY_VERSION_STRING of any MPI */
  int n = 0;
  (void)a->MPI_Get_library_version(text, &n);
  text[strcspn(text, ",\n")] = '\0';
  snprintf(out, VERSION_TEXT, "%.*s", VERSION_TEXT - 1, text);
}

/* Libraries of other MPIs have names of their own, and other handles behind the same functions. */
static bool other_mpi(vtb_error *err) {
  static const char *const others[] = {"libmpi.so.12", "libmpich.so.12", "libmpi_cray.so.12", NULL};
  for (const char *const *name = others; *name; name++) {
    void *handle = dlopen(*name, RTLD_LAZY | RTLD_LOCAL);
    if (!handle) continue;
    dlclose(handle);
    (void)vtb_fail(err, VTB_E_DEVICE,
                   "the MPI here is %s, MPICH's or one of its kind; Vertebra speaks to Open MPI: "
                   "%s, and start the ranks by its mpirun",
                   *name, mpi.remedy);
    return true;
  }
  return false;
}

static vtb_status open_library(mpi_api *api, char **path, vtb_error *err) {
  vtb_error own = {0};
  vtb_status status = vtb_library_open(&mpi, api, path, &own);
  if (status == VTB_OK || (strstr(own.text, "was not found") && other_mpi(err))) return status;
  if (strstr(own.text, "too old"))
    return vtb_fail(err, status, "%s: it is no Open MPI; %s, and VTB_MPI=its libmpi.so.40",
                    own.text, mpi.remedy);
  return vtb_fail(err, status, "%s", own.text);
}

static vtb_status begin_mpi(mpi_link *m, int launched, vtb_error *err) {
  const mpi_api *a = &m->api;
  int before = 0, provided = 0;
  if (a->MPI_Initialized(&before) != 0 || before)
    return vtb_fail(err, VTB_E_USAGE, "this process has begun MPI already, for something else");
  if (!check_mpi(m, a->MPI_Init_thread(NULL, NULL, FUNNELED, &provided), "MPI_Init_thread", -1))
    return vtb_fail(err, VTB_E_DEVICE, "%s", m->link.error);
  (void)a->MPI_Comm_set_errhandler(a->ompi_mpi_comm_world, a->ompi_mpi_errors_return);
  if (!check_mpi(m, a->MPI_Comm_rank(a->ompi_mpi_comm_world, &m->link.rank), "MPI_Comm_rank", -1) ||
      !check_mpi(m, a->MPI_Comm_size(a->ompi_mpi_comm_world, &m->link.n), "MPI_Comm_size", -1))
    return vtb_fail(err, VTB_E_DEVICE, "%s", m->link.error);
  if (provided < FUNNELED || (launched && launched != m->link.n)) {
    int n = m->link.n;
    (void)a->MPI_Finalize();
    return provided < FUNNELED
               ? vtb_fail(err, VTB_E_DEVICE, "this MPI cannot be used by programs with threads")
               : vtb_fail(err, VTB_E_DEVICE,
                          "the launcher has started %d processes, but MPI knows of %d: it does not "
                          "speak with this launcher; `srun --mpi=pmix`, or Open MPI's own mpirun",
                          launched, n);
  }
  return VTB_OK;
}

vtb__link *vtb__link_open_mpi(void *arg, vtb_error *err) {
  mpi_link *m = calloc(1, sizeof *m);
  if (!m) {
    (void)vtb_no_memory(err, "MPI");
    return NULL;
  }
  vtb_status status = open_library(&m->api, NULL, err);
  if (status == VTB_OK) status = begin_mpi(m, *(const int *)arg, err);
  if (status != VTB_OK) {
    free(m);
    return NULL;
  }
  m->link.none = m->api.ompi_request_null;
  m->link.meets = true;
  m->link.send = send;
  m->link.receive = receive;
  m->link.test = test;
  m->link.take = take_message;
  m->link.close = close_link;
  return &m->link;
}

bool vtb_ranks_probe_mpi(vtb_strbuf *out) {
  mpi_api api;
  vtb_error err = {0};
  char *path = NULL, version[VERSION_TEXT];
  if (open_library(&api, &path, &err) != VTB_OK) {
    vtb_strbuf_puts(out, err.text);
    return false;
  }
  describe_mpi(&api, version);
  vtb_strbuf_printf(out, "%s (%s)", version, path);
  free(path);
  return true;
}
