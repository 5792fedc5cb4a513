/* Fusions as people say them, and are told of them: see fusions.h. */
#include "frontend/compile/fusions.h"

#include <math.h>
#include <string.h>

static vtb_status unknown(const char *name, size_t n, vtb_error *err) {
  vtb_strbuf all = {0};
  for (int i = 0; vtb_fusion_name(i); i++)
    vtb_strbuf_printf(&all, "%s%s", i ? ", " : "", vtb_fusion_name(i));
  vtb_fail(err, VTB_E_USAGE, "'%.*s' names no fusion: say all, or -NAME of %s", (int)n, name,
           all.at);
  vtb_strbuf_free(&all);
  return VTB_E_USAGE;
}

vtb_status vtb_decisions_parse(const char *text, vtb_decisions *out, vtb_error *err) {
  *out = (vtb_decisions){.all = true};
  if (strcmp(text, "all") == 0) return VTB_OK;
  for (const char *at = text;;) {
    size_t n = strcspn(at, ",");
    int found = -1;
    const char *name;
    for (int i = 0; *at == '-' && (name = vtb_fusion_name(i)); i++)
      if (strlen(name) == n - 1 && !strncmp(name, at + 1, n - 1)) found = i;
    if (found < 0) return unknown(at, n, err);
    out->declined |= 1u << found;
    if (!at[n]) return VTB_OK;
    at += n + 1;
  }
}

/* A time in 8 columns; none where it is refused. */
static void put_ms(double seconds, vtb_strbuf *out) {
  if (seconds < INFINITY)
    vtb_strbuf_printf(out, " %8.4f", 1e3 * seconds);
  else
    vtb_strbuf_printf(out, " %8s", "-");
}

/* In lines of 78 columns behind two blanks, broken between words. */
static void put_why(const char *why, vtb_strbuf *out) {
  while (*why) {
    size_t n = strlen(why), end = n > 78 ? 78 : n;
    while (n > 78 && end > 40 && why[end] != ' ') end--;
    vtb_strbuf_printf(out, "  %.*s\n", (int)end, why);
    why += end + (why[end] == ' ');
  }
}

void vtb_decisions_print(const vtb_decisions *d, const char *machine, vtb_strbuf *out) {
  static const char *const words[] = {
      [VTB_FUSED] = "fused", [VTB_FUSED_IN_PART] = "in part", [VTB_LEFT_OUT] = "left out"};
  if (d->all) {
    vtb_strbuf_puts(out, "VTB_FUSIONS decides: all fusions that kernels take\n");
    for (int i = 0; vtb_fusion_name(i); i++)
      if (d->declined >> i & 1) vtb_strbuf_printf(out, "but %s\n", vtb_fusion_name(i));
  }
  if (!d->at.n) {
    if (!d->all) vtb_strbuf_puts(out, "nothing to decide: no kernel could take in others\n");
    return;
  }
  vtb_strbuf_printf(out, "%-16s %-24s %8s %8s  is\n", "fusion", "at", "ms apart", "ms fused");
  for (size_t i = 0; i < d->at.n; i++) {
    const vtb_decision *x = &d->at.at[i];
    vtb_strbuf_printf(out, "%-16s %-24.24s", x->fusion, x->place);
    put_ms(x->apart, out);
    put_ms(x->fused, out);
    vtb_strbuf_printf(out, "  %s\n", words[x->verdict]);
    put_why(x->why, out);
  }
  vtb_strbuf_printf(out, "by the estimate on %.20s; what costs up to %.0f %% more stays fused\n",
                    machine, 100 * VTB_FUSION_MARGIN);
}
