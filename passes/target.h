/* A target is one row: what the compiler must know of a machine before it makes code for it. Passes
 * read the row from their context; the functions that make code of a module are in the row that
 * codegen/targets.h adds under the same name. Nothing else asks for a target by name.
 *
 * Rows are constant and outlive everything.
 */
#ifndef VTB_TARGET_H
#define VTB_TARGET_H

#include "runtime/base/base.h"

/* How factors of products are rounded; sums are fp32, and so is everything else
 * (passes/memory/precision.c). */
typedef enum vtb_precision {
  VTB_PRECISION_FP32,
  VTB_PRECISION_TF32,
  VTB_PRECISION_BF16,
  VTB_PRECISION_FP16,
  VTB_PRECISION_BF16_ALL, /* no product is spared */
  VTB_N_PRECISIONS
} vtb_precision;
extern const char *const vtb_precision_names[VTB_N_PRECISIONS];

/* Prices of recurrences, a token and head, in multiply-adds of a product of matrices; K and V are
 * the rows and columns of the state (passes/recurrence/select_mode.c has the formulas). */
typedef struct vtb_scan_costs {
  double own;    /* a row or column, whatever the form: decays inside sub-blocks */
  double pair;   /* a row or column, a pair of tokens */
  double state;  /* a number of the state, where it enters and leaves a chunk */
  double turn;   /* a number of the state, once a chunk */
  double step;   /* a number of the state, step by step; 0: never that */
  int64_t chunk; /* tokens; 0: the power of two from 16 on that is cheapest */
  bool chunks;   /* never all tokens in one piece */
} vtb_scan_costs;

/* Recurrences that run step after step, a few samples at a time (passes/recurrence/fold_tile.c). */
typedef struct vtb_fold_costs {
  int64_t samples; /* of a tile, at most; 0: never */
  int64_t tiles;   /* fewer do not pay where one step of a tile is more than `work` operations */
  double work;
  bool one_body; /* a block of a GPU: the step is one kernel's body, in shared memory */
} vtb_fold_costs;

typedef struct vtb_costs {
  bool by_launches; /* a decay a head: by what its launches take on the GPU (passes/cost/gpu.h) */
  vtb_scan_costs matrix, matrix_grad; /* one decay a head: products of matrices */
  vtb_scan_costs vector, vector_grad; /* a decay a key or value */
  vtb_scan_costs delta, delta_vector; /* corrections (op delta), a row: likewise */
  vtb_fold_costs fold;
} vtb_costs;

/* How fast a thread of a CPU is, for predictions (codegen/estimate.h). */
typedef struct vtb_speeds {
  double flops[VTB_N_PRECISIONS]; /* a second, of products */
  double bytes;                   /* a second, where the caches help as they do inside a model */
  double launch;                  /* seconds, of a kernel beside its work */
} vtb_speeds;

/* Columns of a panel, where a target has them: whole vectors of 4, 8 and 16 and whole tiles of the
 * product on each (codegen/cpu/text/product.c). */
enum { VTB_PANEL = 48 };

/* Weights of products as panels of so many columns that lie side by side; 0: as they are. Products
 * of fewer rows or terms do not pay for the copy. */
typedef struct vtb_panels {
  int64_t columns, rows, terms;
} vtb_panels;

/* A target's demands on places. */
typedef struct vtb_places {
  int64_t frame_align;  /* bytes: what frames, copies and temporaries start at multiples of */
  int64_t tensor_align; /* bytes: what arguments of functions start at multiples of */
  bool strided_rows;    /* adjoints of attention and scans may be parts of a concatenation */
  bool channels_last;   /* images of patches may lie with their channels as neighbours */
  int64_t small_bytes;  /* in a training step, values of at most so many bytes keep their places */
  bool kept;            /* what is prepared lies in memory beside the workspace, for many runs */
} vtb_places;

typedef struct vtb_target {
  const char *name, *summary;
  /* behind vtb_pipeline_graph and before autodiff, if there is any; NULL: nothing */
  const char *graph;
  /* from a module of the graph, differentiated or not, to what code is made of */
  const char *pipeline;
  const char *needs;   /* besides this program, as a text for people; NULL: nothing */
  unsigned precisions; /* 1u << each vtb_precision it knows */
  vtb_places places;
  vtb_costs costs;
  vtb_speeds speeds;
  vtb_panels panels;
  bool memory_bound;    /* kernels take in all they can (passes/fuse): launches share no caches */
  bool tells_gradients; /* runs tell when gradients are whole, for whoever sums them over ranks */
  bool int8;            /* products of numbers of 8 bits (passes/memory/quantize.c) */
  bool in_double;       /* computes in double precision: equal to the reference but for order */
} vtb_target;
const vtb_target *vtb_targets(size_t *n);
const vtb_target *vtb_target_find(const char *name); /* NULL: no target has the name */

#endif
