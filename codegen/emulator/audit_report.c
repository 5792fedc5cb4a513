/* Tables of an audit: see audit.h and docs/cuda_cost.md. */
#include "codegen/emulator/audit.h"

#include <string.h>

enum { NAME_WIDTH = 33, MOST_WORST = 5 };
/* A launch of this size is held to twice its ideal. */
static const double LARGE = 4e6, BOUND = 2;

static double ratio(int64_t is, int64_t least) { return least ? (double)is / (double)least : 1; }
double vtb_audit_sectors(const vtb_audit_row *r) {
  return ratio(r->counts.sectors, r->counts.ideal);
}
static double block_sectors(const vtb_audit_row *r) {
  return ratio(r->counts.block_sectors, r->counts.block_ideal);
}

static double banks(const vtb_audit_row *r) {
  return ratio(r->counts.wavefronts, r->counts.least_wavefronts);
}
static double partial(const vtb_audit_row *r) {
  int64_t all = r->counts.accesses - r->counts.boxes + r->counts.shared;
  return all ? 100 * (double)r->counts.partial / (double)all : 0;
}
static double idle(const vtb_audit_row *r) {
  return r->counts.threads ? 100 * (double)r->counts.idle / (double)r->counts.threads : 0;
}
static double moved(const vtb_audit_row *r) { return (double)(r->moved.read + r->moved.written); }

static double blocks_of(const vtb_audit *a, const vtb_audit_row *r) {
  return r->counts.blocks ? (double)a->plan->steps[r->step].grid / (double)r->counts.blocks : 0;
}
/* The blocks' sectors, were no block to share any with another, over what the plan says. */
static double passes(const vtb_audit *a, const vtb_audit_row *r) {
  return moved(r) > 0 ? 32 * (double)r->counts.block_sectors * blocks_of(a, r) / moved(r) : 0;
}
/* Bytes of a run that nobody asked for, of all launches of the row. */
static double wasted(const vtb_audit *a, const vtb_audit_row *r) {
  return 32 * (double)(r->counts.sectors - r->counts.ideal) * blocks_of(a, r) * r->launches;
}

static bool offends(const vtb_audit_row *r) {
  return r->counted && moved(r) >= LARGE &&
         (vtb_audit_sectors(r) > BOUND || block_sectors(r) > BOUND);
}

static const char *name_of(const vtb_audit *a, const vtb_audit_row *r) {
  const vtb_launch_step *s = &a->plan->steps[r->step];
  return s->kind == VTB_LAUNCH_KERNEL ? a->plan->kernels[s->index].name : "library product";
}

/* Both ends of a long name. */
static const char *short_name(const char *name, char text[NAME_WIDTH + 1]) {
  size_t n = strlen(name);
  if (n <= NAME_WIDTH) return name;
  snprintf(text, NAME_WIDTH + 1, "%.14s..%s", name, name + n - (NAME_WIDTH - 16));
  return text;
}

static void print_row(const vtb_audit *a, const vtb_audit_row *r, vtb_strbuf *out) {
  char text[NAME_WIDTH + 1];
  const char *name = short_name(name_of(a, r), text);
  vtb_strbuf_printf(out, "%c%4d %3d %7.2f ", offends(r) ? '!' : ' ', r->step, r->launches,
                    moved(r) / 1e6);
  if (!r->counted) {
    vtb_strbuf_printf(out, "%29s %s\n", "", name);
    return;
  }
  vtb_strbuf_printf(out, "%5.2f %5.2f %5.2f %5.2f %3.0f %3.0f %s\n", vtb_audit_sectors(r),
                    block_sectors(r), passes(a, r), banks(r), partial(r), idle(r), name);
  if (offends(r) && r->counts.worst[0])
    vtb_strbuf_printf(out, "      %.1f times the ideal: %s\n",
                      ratio(r->counts.worst_sectors, r->counts.worst_ideal), r->counts.worst);
}

/* The rows that waste most, the worst first; returns how many waste anything. */
static int worst_rows(const vtb_audit *a, const vtb_audit_row *worst[MOST_WORST]) {
  int n = 0;
  for (size_t i = 0; i < a->rows.n; i++) {
    const vtb_audit_row *r = &a->rows.at[i];
    if (wasted(a, r) <= 0) continue;
    int at = n;
    while (at > 0 && wasted(a, worst[at - 1]) < wasted(a, r)) at--;
    if (at == MOST_WORST) continue;
    if (n < MOST_WORST) n++;
    memmove(&worst[at + 1], &worst[at], (size_t)(n - 1 - at) * sizeof *worst);
    worst[at] = r;
  }
  return n;
}

void vtb_audit_print(const vtb_audit *a, vtb_strbuf *out) {
  int launches = 0, offending = 0;
  double bytes = 0;
  vtb_strbuf_printf(out, "%5s %3s %7s %5s %5s %5s %5s %3s %3s %s\n", "step", "n", "MB", "warps",
                    "block", "pass", "banks", "p%", "i%", "kernel");
  for (size_t i = 0; i < a->rows.n; i++) {
    const vtb_audit_row *r = &a->rows.at[i];
    print_row(a, r, out);
    launches += r->launches;
    offending += offends(r) ? r->launches : 0;
    bytes += moved(r) * r->launches;
  }
  const vtb_audit_row *worst[MOST_WORST];
  int n = worst_rows(a, worst);
  for (int i = 0; i < n; i++) {
    char text[NAME_WIDTH + 1];
    vtb_strbuf_printf(out, "%s%10.2f MB  step %d %s\n",
                      i ? "         " : "wasted:  ", wasted(a, worst[i]) / 1e6, worst[i]->step,
                      short_name(name_of(a, worst[i]), text));
  }
  vtb_strbuf_printf(out, "%d launches of %.2f MB; %d of 4 MB and more above twice their ideal\n",
                    launches, bytes / 1e6, offending);
}

static void put_text(const char *text, vtb_strbuf *out) {
  vtb_strbuf_putc(out, '"');
  for (; *text; text++) {
    if (*text == '"' || *text == '\\') vtb_strbuf_putc(out, '\\');
    vtb_strbuf_putc(out, (unsigned char)*text < ' ' ? ' ' : *text);
  }
  vtb_strbuf_putc(out, '"');
}

static void put_row(const vtb_audit *a, const vtb_audit_row *r, vtb_strbuf *out) {
  const vtb_launch_step *s = &a->plan->steps[r->step];
  const vtb_emulator_counts *c = &r->counts;
  vtb_strbuf_printf(out, "    {\"step\": %d, \"launches\": %d, \"kernel\": ", r->step, r->launches);
  put_text(name_of(a, r), out);
  vtb_strbuf_printf(out, ", \"blocks\": %lld, \"read\": %lld, \"written\": %lld",
                    (long long)s->grid, (long long)r->moved.read, (long long)r->moved.written);
  if (r->counted) {
    vtb_strbuf_printf(out,
                      ", \"audited_blocks\": %lld, \"accesses\": %lld, \"useful\": %lld, "
                      "\"sectors\": %lld, \"lines\": %lld, \"ideal\": %lld",
                      (long long)c->blocks, (long long)c->accesses, (long long)c->useful,
                      (long long)c->sectors, (long long)c->lines, (long long)c->ideal);
    vtb_strbuf_printf(out,
                      ", \"block_useful\": %lld, \"block_sectors\": %lld, \"block_ideal\": %lld, "
                      "\"shared\": %lld, \"wavefronts\": %lld, \"least_wavefronts\": %lld",
                      (long long)c->block_useful, (long long)c->block_sectors,
                      (long long)c->block_ideal, (long long)c->shared, (long long)c->wavefronts,
                      (long long)c->least_wavefronts);
    vtb_strbuf_printf(out,
                      ", \"partial\": %lld, \"lanes\": %lld, \"threads\": %lld, \"idle\": %lld, "
                      "\"wasted\": %.0f, \"offends\": %s, \"worst\": ",
                      (long long)c->partial, (long long)c->lanes, (long long)c->threads,
                      (long long)c->idle, wasted(a, r), offends(r) ? "true" : "false");
    put_text(c->worst, out);
  }
  vtb_strbuf_puts(out, "}");
}

void vtb_audit_json(const vtb_audit *a, vtb_strbuf *out) {
  vtb_strbuf_puts(out, "{\n  \"audit\": [\n");
  for (size_t i = 0; i < a->rows.n; i++) {
    put_row(a, &a->rows.at[i], out);
    vtb_strbuf_puts(out, i + 1 < a->rows.n ? ",\n" : "\n");
  }
  vtb_strbuf_puts(out, "  ]\n}\n");
}
