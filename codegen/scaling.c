/* See scaling.h. */
#include "codegen/scaling.h"

#include <math.h>
#include <string.h>

/* Sources. Data sheets: NVLink 450 GB/s one way on Hopper, 300 on Ampere, 900 on Blackwell; eight
 * adapters a node of 400 Gb/s (Hopper, Blackwell) or 200 Gb/s (Ampere), one a GPU. Taken, until
 * they are measured: that sums reach 0.8 of it, 3 us a hop inside a node and 10 us between nodes,
 * that the kernels of the sums take a tenth of the machine, and steps differ by 1 %. */
#define NODE .per_node = 8, .near_latency = 3e-6, .far_latency = 10e-6, .share = 0.1, .spread = 0.01
static const vtb_links table[] = {
    {.name = "h200",
     .what = "8 H200 a node, NVLink 450 GB/s, 400 Gb/s a GPU between nodes",
     NODE,
     .near_bytes = 0.8 * 450e9,
     .far_bytes = 0.8 * 50e9},
    {.name = "h100",
     .what = "8 H100 a node, NVLink 450 GB/s, 400 Gb/s a GPU between nodes",
     NODE,
     .near_bytes = 0.8 * 450e9,
     .far_bytes = 0.8 * 50e9},
    {.name = "a100",
     .what = "8 A100 a node, NVLink 300 GB/s, 200 Gb/s a GPU between nodes",
     NODE,
     .near_bytes = 0.8 * 300e9,
     .far_bytes = 0.8 * 25e9},
    {.name = "b200",
     .what = "8 B200 a node, NVLink 900 GB/s, 400 Gb/s a GPU between nodes",
     NODE,
     .near_bytes = 0.8 * 900e9,
     .far_bytes = 0.8 * 50e9}};

const vtb_links *vtb_links_find(const char *name) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (strcmp(table[i].name, name) == 0) return &table[i];
  return NULL;
}

const char *const vtb_scaling_limit_names[VTB_N_SCALING_LIMITS] = {
    [VTB_SCALING_WORK] = "work",
    [VTB_SCALING_LATENCY] = "latency",
    [VTB_SCALING_NEAR] = "links in nodes",
    [VTB_SCALING_FAR] = "network",
    [VTB_SCALING_SPREAD] = "slowest rank"};

/* ---- one sum --------------------------------------------------------------------------------- */

typedef struct sum_cost {
  double latency, near, far;
} sum_cost;

static double hops(double n) { return n > 1 ? ceil(log2(n)) : 0; }

/* Shares are sent to who sums them up, and sums back: twice (n - 1) / n of the bytes. Through a
 * node's own links first, then each rank of a node its part of them; or all of it directly. */
static sum_cost cost_of(const vtb_links *l, double ranks, double bytes) {
  double in_node = fmin(ranks, l->per_node), nodes = ceil(ranks / l->per_node);
  double near = l->direct ? (in_node - 1) / ranks : (in_node - 1) / in_node;
  double far = l->direct ? (ranks - in_node) / ranks : (nodes - 1) / nodes / in_node;
  return (sum_cost){.latency = 2 * (hops(in_node) * l->near_latency + hops(nodes) * l->far_latency),
                    .near = 2 * near * bytes / l->near_bytes,
                    .far = nodes > 1 ? 2 * far * bytes / l->far_bytes : 0};
}

/* Pieces of a bucket are in a node and between nodes at the same time. */
static double seconds_of(const sum_cost *c) { return c->latency + fmax(c->near, c->far); }

double vtb_links_sum(const vtb_links *l, double ranks, double bytes) {
  if (ranks <= 1) return 0;
  sum_cost c = cost_of(l, ranks, bytes);
  return seconds_of(&c);
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* Work and sums side by side. */
typedef struct course {
  double now, done; /* seconds since the beginning; work that is done by then */
  double busy;      /* until when sums are under way */
  double share;
} course;

static void work_until(course *c, double done) {
  double slowed = 1 - c->share, meanwhile = c->busy > c->now ? (c->busy - c->now) * slowed : 0;
  double left = done - c->done;
  if (left <= 0) return;
  if (left <= meanwhile)
    c->now += left / slowed;
  else
    c->now = fmax(c->now, c->busy) + left - meanwhile;
  c->done = done;
}

/* The slowest of n whose times are normally distributed. */
static double slowest(double n) { return n > 1 ? sqrt(2 * log(n)) : 0; }

static vtb_scaling_limit limit_of(const vtb_scaling_point *p, const sum_cost *all) {
  double waits = p->exposed + p->slowed;
  if (fmax(waits, p->spread) < 0.02 * p->seconds) return VTB_SCALING_WORK;
  if (p->spread > waits) return VTB_SCALING_SPREAD;
  if (all->latency > fmax(all->near, all->far)) return VTB_SCALING_LATENCY;
  return all->far > all->near ? VTB_SCALING_FAR : VTB_SCALING_NEAR;
}

vtb_scaling_point vtb_scaling_at(const vtb_scaling_step *s, const vtb_links *l, double ranks) {
  vtb_scaling_point p = {
      .ranks = ranks, .nodes = ceil(ranks / l->per_node), .images = ranks * s->images};
  course c = {.share = ranks > 1 ? l->share : 0};
  sum_cost all = {0};
  for (int i = 0; i < s->n_buckets && ranks > 1; i++) {
    sum_cost one = cost_of(l, ranks, s->buckets[i].bytes);
    work_until(&c, fmin(s->buckets[i].ready, s->work));
    c.busy = fmax(c.busy, c.now) + seconds_of(&one);
    if (s->buckets[i].wait) p.exposed += c.busy - c.now, c.now = c.busy;
    p.exchange += seconds_of(&one);
    all = (sum_cost){all.latency + one.latency, all.near + one.near, all.far + one.far};
  }
  work_until(&c, s->work);
  p.slowed = c.now - s->work - p.exposed;
  double last = fmax(0, c.busy - c.now);
  p.exposed += last;
  p.spread = (s->work + s->rest) * l->spread * slowest(ranks);
  p.seconds = c.now + last + s->rest + p.spread;
  p.limit = limit_of(&p, &all);
  return p;
}

/* ---- plans ----------------------------------------------------------------------------------- */

vtb_scaling_step vtb_scaling_of_plan(const vtb_launch_plan *p, const vtb_launch_estimates *each,
                                     vtb_scaling_bucket **buckets) {
  int last = -1;
  *buckets = vtb_xcalloc((size_t)p->n_buckets + 1, sizeof **buckets);
  vtb_scaling_step s = {.images = (double)p->batch, .buckets = *buckets, .n_buckets = p->n_buckets};
  for (int b = 0; b < p->n_buckets; b++) {
    (*buckets)[b].bytes = (double)p->buckets[b].bytes;
    (*buckets)[b].wait = p->buckets[b].where != VTB_BUCKET_STATE;
    if (p->buckets[b].step > last) last = p->buckets[b].step;
  }
  for (size_t i = 0; i < each->n; i++) {
    const vtb_launch_estimate *l = &each->at[i];
    if (last >= 0 && l->step > last)
      s.rest += l->runs * l->time.seconds;
    else
      s.work += l->runs * l->time.seconds;
    for (int b = 0; b < p->n_buckets; b++)
      if (l->step <= p->buckets[b].step) (*buckets)[b].ready = s.work;
  }
  return s;
}
