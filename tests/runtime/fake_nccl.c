/* NCCL without a GPU, as a library of its own: every rank of a group has the same numbers, so that
 * a sum is the number of ranks times one's own. It refuses what the real one would: ids it did not
 * make, other types and operations than sums of floats. Calls can be made to fail by name, errors
 * to come up later. Sums are work on their stream, which fake_cuda does when somebody waits for it.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

const char *fake_nccl_fail;
int fake_nccl_version = 22703, fake_nccl_groups, fake_nccl_aborts;
int fake_nccl_async; /* what ncclCommGetAsyncError finds */
/* fake_cuda's fake_cuda_call; NULL: sums are done at once */
int (*fake_nccl_put)(void *stream, const char *what, size_t n, void (*call)(void *), void *arg);

enum { OK = 0, SYSTEM = 2, INVALID_ARGUMENT = 4, INVALID_USAGE = 5 };
typedef struct unique_id {
  char internal[128];
} unique_id;
static struct { int n_ranks; } group;

typedef struct sum {
  float *at;
  size_t n;
} sum;

#define FAIL_IF_ASKED(name)                                                                        \
  if (fake_nccl_fail && strcmp(fake_nccl_fail, name) == 0) return SYSTEM

int ncclGetVersion(int *version);
int ncclGetVersion(int *version) {
  *version = fake_nccl_version;
  return OK;
}

const char *ncclGetErrorString(int result);
const char *ncclGetErrorString(int result) {
  return result == SYSTEM ? "unhandled system error" : "invalid argument";
}

int ncclGetUniqueId(unique_id *id);
int ncclGetUniqueId(unique_id *id) {
  FAIL_IF_ASKED("ncclGetUniqueId");
  memset(id, 0x5a, sizeof *id);
  return OK;
}

int ncclCommInitRank(void **communicator, int n_ranks, unique_id id, int rank);
int ncclCommInitRank(void **communicator, int n_ranks, unique_id id, int rank) {
  FAIL_IF_ASKED("ncclCommInitRank");
  for (size_t i = 0; i < sizeof id; i++)
    if (id.internal[i] != 0x5a) return INVALID_USAGE;
  if (rank < 0 || rank >= n_ranks) return INVALID_ARGUMENT;
  __atomic_store_n(&group.n_ranks, n_ranks, __ATOMIC_SEQ_CST); /* ranks are threads */
  __atomic_add_fetch(&fake_nccl_groups, 1, __ATOMIC_SEQ_CST);
  *communicator = &group;
  return OK;
}

static int end_group(const void *communicator) {
  if (communicator != &group) return INVALID_ARGUMENT;
  __atomic_sub_fetch(&fake_nccl_groups, 1, __ATOMIC_SEQ_CST);
  return OK;
}
int ncclCommDestroy(void *communicator);
int ncclCommDestroy(void *communicator) { return end_group(communicator); }
int ncclCommAbort(void *communicator);
int ncclCommAbort(void *communicator) {
  __atomic_add_fetch(&fake_nccl_aborts, 1, __ATOMIC_SEQ_CST);
  return end_group(communicator);
}

int ncclCommGetAsyncError(void *communicator, int *error);
int ncclCommGetAsyncError(void *communicator, int *error) {
  FAIL_IF_ASKED("ncclCommGetAsyncError");
  if (communicator != &group) return INVALID_ARGUMENT;
  *error = __atomic_load_n(&fake_nccl_async, __ATOMIC_SEQ_CST);
  return OK;
}

static void add_up(void *arg) {
  sum *s = arg;
  float n_ranks = (float)__atomic_load_n(&group.n_ranks, __ATOMIC_SEQ_CST);
  for (size_t i = 0; i < s->n; i++) s->at[i] *= n_ranks;
  free(s);
}

int ncclAllReduce(const void *from, void *to, size_t n, int type, int operation, void *communicator,
                  void *stream);
int ncclAllReduce(const void *from, void *to, size_t n, int type, int operation, void *communicator,
                  void *stream) {
  FAIL_IF_ASKED("ncclAllReduce");
  if (communicator != &group || type != 7 || operation != 0 || !stream || from != to)
    return INVALID_ARGUMENT;
  sum *s = malloc(sizeof *s);
  if (!s) return SYSTEM;
  *s = (sum){to, n};
  if (fake_nccl_put) return fake_nccl_put(stream, "sum", n, add_up, s);
  add_up(s);
  return OK;
}
