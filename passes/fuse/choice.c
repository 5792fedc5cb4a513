/* See choice.h. */
#include "passes/fuse/choice.h"

#include <string.h>

/* Those that stand on others come first: without it they would be asked about twice. */
const char *const vtb_choice_names[VTB_N_CHOICES] = {
    "fuse_mixer_grad", "fuse_mixer", "fuse_conv_take", "fuse_conv_grad", "split_thin",
    "fuse_local",      "fuse_norms", "fuse_scans",     "fuse_products"};

int vtb_choice_find(const char *pass) {
  for (int i = 0; i < VTB_N_CHOICES; i++)
    if (strcmp(vtb_choice_names[i], pass) == 0) return i;
  return -1;
}

vtb_status vtb_choose(vtb_choice_price price, void *user, vtb_choices *out, vtb_error *err) {
  unsigned formed = 0;
  double best = 0;
  *out = (vtb_choices){0};
  vtb_status status = price(user, 0, &formed, &best, err);
  for (int i = 0; i < VTB_N_CHOICES && status == VTB_OK; i++) {
    unsigned also = 0;
    if (!(formed >> i & 1)) continue;
    vtb_choice c = {.pass = i, .with = best};
    status = price(user, out->declined | 1u << i, &also, &c.without, err);
    if (status != VTB_OK) return status;
    c.fused = c.without >= (1 - VTB_CHOICE_MARGIN) * c.with;
    out->at[out->n++] = c;
    if (c.fused) continue;
    out->declined |= 1u << i;
    best = c.without;
    formed |= also; /* what it took away from others */
  }
  return status;
}

static vtb_status unknown(const char *name, size_t n, vtb_error *err) {
  vtb_strbuf names = {0};
  for (int i = 0; i < VTB_N_CHOICES; i++)
    vtb_strbuf_printf(&names, "%s%s", i ? ", " : "", vtb_choice_names[i]);
  vtb_fail(err, VTB_E_USAGE, "'%.*s' names no fusion: say all, or -NAME of %s", (int)n, name,
           names.at);
  vtb_strbuf_free(&names);
  return VTB_E_USAGE;
}

vtb_status vtb_choices_parse(const char *text, vtb_choices *out, vtb_error *err) {
  *out = (vtb_choices){.asked = true};
  if (strcmp(text, "all") == 0) return VTB_OK;
  for (const char *at = text;;) {
    size_t n = strcspn(at, ",");
    int found = -1;
    for (int i = 0; i < VTB_N_CHOICES && *at == '-'; i++)
      if (strlen(vtb_choice_names[i]) == n - 1 && !strncmp(vtb_choice_names[i], at + 1, n - 1))
        found = i;
    if (found < 0) return unknown(at, n, err);
    out->declined |= 1u << found;
    if (!at[n]) return VTB_OK;
    at += n + 1;
  }
}

static void print_asked(const vtb_choices *c, vtb_strbuf *out) {
  vtb_strbuf_puts(out, "VTB_FUSIONS decides: all fusions that the rules allow\n");
  for (int i = 0; i < VTB_N_CHOICES; i++)
    if (c->declined >> i & 1) vtb_strbuf_printf(out, "but %s\n", vtb_choice_names[i]);
}

void vtb_choices_print(const vtb_choices *c, const char *machine, vtb_strbuf *out) {
  if (c->asked) {
    print_asked(c, out);
    return;
  }
  vtb_strbuf_printf(out, "fusion            ms with    without        by  is (%.0f %% decides)\n",
                    100 * VTB_CHOICE_MARGIN);
  for (int i = 0; i < c->n; i++) {
    const vtb_choice *d = &c->at[i];
    vtb_strbuf_printf(out, "%-16s %8.3f   %8.3f   %+6.1f %%  %s\n", vtb_choice_names[d->pass],
                      1e3 * d->with, 1e3 * d->without, 100 * (d->without / d->with - 1),
                      d->fused ? "fused" : "left out");
  }
  if (!c->n)
    vtb_strbuf_puts(out, "nothing to decide: no fusion that could cost more than it saves\n");
  vtb_strbuf_printf(out, "by the estimate on %s, each beside the decisions above it\n", machine);
}
