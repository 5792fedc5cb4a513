/* The time of a training step on many ranks, predicted: the model behind `vertebra train
 * --plan-scale`. docs/scaling_model.md has its formulas and how far to believe them.
 *
 * A rank works through forward and backward; buckets of gradients become whole on the way, and are
 * summed one after the other beside the rest of the work; the update waits for the last.
 *
 * Units: bytes, seconds. Pure functions of their arguments; any thread.
 */
#ifndef VTB_CODEGEN_SCALING_H
#define VTB_CODEGEN_SCALING_H

#include "codegen/estimate.h"

/* Links between ranks as a rank sees them: `near` inside a node, `far` between. */
typedef struct vtb_links {
  char name[32], what[96];
  double per_node; /* ranks of a node */
  double near_bytes, near_latency;
  double far_bytes, far_latency;
  /* every rank sends its shares to all others itself (MPI here); else ranks of a node sum up first,
   * and each of them hands on its share between nodes (NCCL) */
  bool direct;
  double share; /* of a rank's speed that sums take while they are under way, at most 1 */
  /* standard deviation of a rank's time for the same step, by its mean */
  double spread;
} vtb_links;

/* The links of the nodes that GPUs of passes/cost/gpu.h come in; NULL: none has the name. */
const vtb_links *vtb_links_find(const char *name);

typedef struct vtb_scaling_bucket {
  double ready, bytes; /* whole after so many seconds of work */
  bool wait;           /* work goes on behind its sum: statistics of a batch, say */
} vtb_scaling_bucket;

/* A step of one rank, alone. */
typedef struct vtb_scaling_step {
  double images;
  double work, rest; /* forward and backward; what waits for all sums */
  const vtb_scaling_bucket *buckets;
  int n_buckets;
} vtb_scaling_step;

/* The largest cost beside the work of the rank. */
typedef enum vtb_scaling_limit {
  VTB_SCALING_WORK, /* nothing of weight */
  VTB_SCALING_LATENCY,
  VTB_SCALING_NEAR,
  VTB_SCALING_FAR,
  VTB_SCALING_SPREAD,
  VTB_N_SCALING_LIMITS
} vtb_scaling_limit;
extern const char *const vtb_scaling_limit_names[VTB_N_SCALING_LIMITS];

typedef struct vtb_scaling_point {
  double ranks, nodes, images; /* of a step, all ranks */
  double seconds;              /* work + slowed + exposed + rest + spread */
  double slowed;               /* work took longer while sums were under way */
  double exposed;              /* nothing to do but to wait for sums */
  double spread;               /* for the slowest rank */
  double exchange;             /* sums in all, hidden or not */
  vtb_scaling_limit limit;
} vtb_scaling_point;

/* A sum of that many bytes over the ranks. */
double vtb_links_sum(const vtb_links *l, double ranks, double bytes);
vtb_scaling_point vtb_scaling_at(const vtb_scaling_step *s, const vtb_links *l, double ranks);

/* The step of a plan that was estimated launch by launch; *buckets is the caller's to free. */
vtb_scaling_step vtb_scaling_of_plan(const vtb_launch_plan *p, const vtb_launch_estimates *each,
                                     vtb_scaling_bucket **buckets);

#endif
