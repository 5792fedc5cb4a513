/* Names of kernels for their readers: see label.h. */
#include "codegen/label.h"
#include "ir/ops.h"
#include "ir/product.h"

#include <ctype.h>
#include <string.h>

/* ---- merging --------------------------------------------------------------------------------- */

static bool parts_words(char c) { return c == '.' || c == '_' || c == ' ' || c == '\0'; }

/* Whole words that both begin with. */
static size_t common_head(const char *a, const char *b) {
  size_t n = 0;
  while (a[n] && a[n] == b[n]) n++;
  if (parts_words(a[n]) && parts_words(b[n])) return n;
  while (n && !parts_words(a[n - 1])) n--;
  return n;
}

/* Whole words that both end with, from a separator on; at most `most` characters. */
static size_t common_tail(const char *a, size_t n_a, const char *b, size_t n_b, size_t most) {
  size_t n = 0;
  while (n < most && a[n_a - n - 1] == b[n_b - n - 1]) n++;
  while (n && !parts_words(a[n_a - n])) n--;
  return n;
}

static const char *merge_words(const char *a, const char *b, vtb_arena *arena) {
  size_t n_a = strlen(a), n_b = strlen(b), head = common_head(a, b);
  size_t tail = common_tail(a, n_a, b, n_b, (n_a < n_b ? n_a : n_b) - head);
  if (strcmp(a, b) == 0) return a;
  return vtb_arena_printf(arena, "%.*s*%s", (int)head, a, a + n_a - tail);
}

static int count_parts(const char *s) {
  int n = 1;
  for (; *s; s++) n += *s == '.';
  return n;
}

/* Part by part if they have as many, else as two texts. */
const char *vtb_label_merge(const char *a, const char *b, vtb_arena *arena) {
  if (!a || !b || strcmp(a, b) == 0) return a ? a : b;
  if (count_parts(a) != count_parts(b)) return merge_words(a, b, arena);
  const char *all = "";
  for (const char *end = ""; end; a += strcspn(a, ".") + 1, b += strcspn(b, ".") + 1) {
    end = strchr(a, '.');
    const char *x = vtb_arena_strndup(arena, a, strcspn(a, "."));
    const char *y = vtb_arena_strndup(arena, b, strcspn(b, "."));
    const char *part = merge_words(x, y, arena);
    all = *all ? vtb_label_join(all, part, arena) : part;
  }
  return all;
}

/* ---- one instruction ------------------------------------------------------------------------- */

const char *vtb_label_join(const char *outer, const char *inner, vtb_arena *arena) {
  if (!*outer || !*inner) return *outer ? outer : inner;
  return vtb_arena_printf(arena, "%s.%s", outer, inner);
}

/* A kernel of a product and elementwise ops on it is about the product, which is its first. */
static const vtb_inst *core_of(const vtb_inst *inst) {
  bool whole = inst->op == VTB_OP_fused && inst->callee->first->op == VTB_OP_einsum;
  return whole ? inst->callee->first : inst;
}

/* " 64 -> 256" of x (..., 64) times weights (256, 64); nothing of sums over images. */
static const char *widths(const vtb_inst *einsum, vtb_arena *arena) {
  vtb_product p = vtb_product_of(einsum);
  if (!p.rank[0] || vtb_product_at(&p, 0, 0)->at[VTB_IN_RESULT] < 0) return "";
  return vtb_arena_printf(arena, " %lld -> %lld",
                          (long long)vtb_product_size(&p, VTB_LETTER_SUM, VTB_DYN),
                          (long long)vtb_product_size(&p, VTB_LETTER_COLUMNS, VTB_DYN));
}

/* The result without what the path says already: "d_weight" of d_layer.proj_up.weight. */
static const char *result_of(const vtb_inst *inst, const char *scope, vtb_arena *arena) {
  const vtb_value *v = inst->results[inst->op == VTB_OP_fused ? inst->n_results - 1 : 0];
  const char *name = v->name, *parts[] = {scope, vtb_scope_end(scope)};
  bool adjoint = vtb_starts_with(name, "d_");
  if (adjoint) name += 2;
  for (int i = 0; i < 2; i++) {
    size_t n = strlen(parts[i]);
    if (!n || !vtb_starts_with(name, parts[i]) || name[n] != '.') continue;
    name += n + 1;
    break;
  }
  return vtb_arena_printf(arena, "%s%.*s", adjoint ? "d_" : "", (int)vtb_name_stem(name), name);
}

const char *vtb_label_of(const vtb_inst *inst, const char *path, vtb_arena *arena) {
  const vtb_inst *core = core_of(inst);
  const char *scope = inst->span.scope ? inst->span.scope : "";
  const char *place = vtb_label_join(path, scope, arena), *result = result_of(inst, scope, arena);
  bool forward = !vtb_starts_with(result, "d_");
  bool named = *scope && forward && (core->op == VTB_OP_einsum || core->op == VTB_OP_dwconv);
  if (!named) place = vtb_label_join(place, result, arena);
  if (core->op != VTB_OP_einsum) return place;
  return vtb_arena_printf(arena, "%s%s", place, widths(core, arena));
}

void vtb_label_identifier(const char *label, vtb_strbuf *out) {
  for (const char *p = label; *p && *p != ' '; p++)
    vtb_strbuf_putc(out, *p == '*' ? 'x' : isalnum((unsigned char)*p) ? *p : '_');
}
