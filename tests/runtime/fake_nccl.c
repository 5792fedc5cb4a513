/* NCCL without a GPU, as a library of its own: every rank of a group has the same numbers, so that
 * a sum is the number of ranks times one's own. It refuses what the real one would: ids it did not
 * make, other types and operations than sums of floats. Calls can be made to fail by name. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

const char *fake_nccl_fail;
int fake_nccl_version = 22703, fake_nccl_groups;

enum { OK = 0, SYSTEM = 2, INVALID_ARGUMENT = 4, INVALID_USAGE = 5 };
typedef struct unique_id {
  char internal[128];
} unique_id;
static struct { int n_ranks; } group;

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
  group.n_ranks = n_ranks;
  fake_nccl_groups++;
  *communicator = &group;
  return OK;
}

int ncclCommDestroy(void *communicator);
int ncclCommDestroy(void *communicator) {
  if (communicator != &group) return INVALID_ARGUMENT;
  fake_nccl_groups--;
  return OK;
}

int ncclAllReduce(const void *from, void *to, size_t n, int type, int operation, void *communicator,
                  void *stream);
int ncclAllReduce(const void *from, void *to, size_t n, int type, int operation, void *communicator,
                  void *stream) {
  FAIL_IF_ASKED("ncclAllReduce");
  if (communicator != &group || type != 7 || operation != 0 || !stream) return INVALID_ARGUMENT;
  for (size_t i = 0; i < n; i++) ((float *)to)[i] = (float)group.n_ranks * ((const float *)from)[i];
  return OK;
}
