/* See launch_walk.h. */
#include "runtime/launch/launch_walk.h"

static int end_of(const vtb_launch_loop *l) { return l->first + l->n; }

static bool is_inside(const vtb_launch_loop *l, int step) {
  return step >= l->first && step < end_of(l);
}

/* The first loop that is not inside loop `loop`. */
static int loop_behind(const vtb_launch_plan *p, int loop) {
  int next = loop + 1;
  while (next < p->n_loops && is_inside(&p->loops[loop], p->loops[next].first)) next++;
  return next;
}

vtb_launch_range vtb_launch_range_of(const vtb_launch_plan *p, int first, int end) {
  int loop = 0;
  while (loop < p->n_loops && p->loops[loop].first < first) loop++;
  return (vtb_launch_range){first, end, loop};
}

static vtb_status walk_loop(const vtb_launch_walk *w, int loop, vtb_error *err) {
  const vtb_launch_loop *l = &w->plan->loops[loop];
  const vtb_launch_range turn = {l->first, end_of(l), loop + 1};
  int64_t left = w->most && w->most < l->times ? w->most : l->times;
  vtb_status status = VTB_OK;
  while (left > 0 && status == VTB_OK) {
    int32_t answer = INT32_MAX;
    if (l->condition && w->ask) status = w->ask(w->user, loop, &answer, err);
    int64_t turns = answer < 0 ? -(int64_t)answer : answer;
    if (turns > left) turns = left;
    left = answer > 0 ? left - turns : 0;
    while (turns-- > 0 && status == VTB_OK) status = vtb_launch_walk_range(w, turn, err);
  }
  return status;
}

vtb_status vtb_launch_walk_range(const vtb_launch_walk *w, vtb_launch_range range, vtb_error *err) {
  const vtb_launch_plan *p = w->plan;
  vtb_status status = VTB_OK;
  for (int at = range.first, loop = range.loop; status == VTB_OK; loop = loop_behind(p, loop)) {
    vtb_launch_range straight = {at, range.end, loop};
    while (w->whole && loop < p->n_loops && p->loops[loop].first < range.end &&
           w->whole(w->user, loop))
      loop = loop_behind(p, loop);
    bool inside = loop < p->n_loops && p->loops[loop].first < range.end;
    if (inside) straight.end = p->loops[loop].first;
    if (straight.first < straight.end) status = w->steps(w->user, straight, err);
    if (!inside) break;
    if (status == VTB_OK) status = walk_loop(w, loop, err);
    at = end_of(&p->loops[loop]);
  }
  return status;
}

bool vtb_launch_asks(const vtb_launch_plan *p, int loop) {
  bool asks = false;
  for (int i = loop, end = loop_behind(p, loop); i < end; i++) asks |= p->loops[i].condition != 0;
  return asks;
}

double vtb_launch_runs(const vtb_launch_plan *p, int step) {
  double runs = 1;
  for (int i = 0; i < p->n_loops; i++)
    if (is_inside(&p->loops[i], step)) runs *= (double)p->loops[i].times;
  return runs;
}

double vtb_launch_loop_launches(const vtb_launch_plan *p, int loop) {
  const vtb_launch_loop *l = &p->loops[loop];
  double all = l->n;
  for (int i = loop + 1; i < loop_behind(p, loop); i = loop_behind(p, i))
    all += vtb_launch_loop_launches(p, i) - p->loops[i].n;
  return (double)l->times * all;
}

double vtb_launch_count(const vtb_launch_plan *p) {
  double all = 0;
  for (int i = p->n_prepared; i < p->n_steps; i++) all += vtb_launch_runs(p, i);
  return all;
}
