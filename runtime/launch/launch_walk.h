/* Along the steps of a launch plan, loops as often as they run: for whoever runs a plan, captures
 * or checks it.
 *
 * Threads: plans are read. Errors: those of the functions that are called; nothing after the first.
 */
#ifndef VTB_LAUNCH_WALK_H
#define VTB_LAUNCH_WALK_H

#include "runtime/launch/launch_plan.h"

/* Steps [first, end), and the number of the first loop that begins among them and is not around
 * them. */
typedef struct vtb_launch_range {
  int first, end, loop;
} vtb_launch_range;

typedef struct vtb_launch_walk {
  const vtb_launch_plan *plan;
  void *user;
  /* steps that follow one another, and in them the loops that are taken whole */
  vtb_status (*steps)(void *user, vtb_launch_range range, vtb_error *err);
  /* NULL: no loop is taken whole */
  bool (*whole)(void *user, int loop);
  /* What the condition of a loop says; NULL: all turns run. */
  vtb_status (*ask)(void *user, int loop, int32_t *turns, vtb_error *err);
  int64_t most; /* turns that are walked; 0: all */
} vtb_launch_walk;

/* The range must not begin or end inside a loop. */
vtb_launch_range vtb_launch_range_of(const vtb_launch_plan *p, int first, int end);
VTB_MUST_USE vtb_status vtb_launch_walk_range(const vtb_launch_walk *w, vtb_launch_range range,
                                              vtb_error *err);

/* True if loop `loop`, or one inside it, has a condition. */
bool vtb_launch_asks(const vtb_launch_plan *p, int loop);
/* How often a step runs in one run of the plan, at most; launches of a loop; launches behind what
 * is prepared. */
double vtb_launch_runs(const vtb_launch_plan *p, int step);
double vtb_launch_loop_launches(const vtb_launch_plan *p, int loop);
double vtb_launch_count(const vtb_launch_plan *p);

#endif
