/* grow: groups of instructions become kernels, by the rows VTB_FUSION of ir/kernels.def.
 *
 *   %p = einsum %x, %w {spec = "abc,dc->abd"}
 *   %y = fused @gelu(%p, %r) {kind = "loop"}
 *   =>
 *   %y = fused @product(%x, %w, %r) {kind = "product"}
 *
 * A row has an anchor, and words for what may stand before, behind and beside it. Round each anchor
 * a group grows, the words in their order, until none finds more; what leaves it whole (group.h)
 * stays. Rows are tried in the order of the table, so that what two could have is the first's.
 *
 * Options: a stage, "of products", or names of rows joined by "+".
 */
#include "passes/fuse/words.h"

#include <stdio.h>
#include <string.h>

enum { MOST_WORDS = 4 };
enum { PLAIN = 0, ALONE = 1, VIEWS = 2, FACTORS = 4, SHARED = 8, WHOLE = 16, RULE = 32, BACK = 64 };

typedef enum stage { EVERYWHERE, OPS, CHANNELS, PRODUCTS, SCANS } stage;
static const char *const stages[] = {"everywhere", "ops", "channels", "products", "scans"};

/* Where words look, those that are first left out first. */
typedef enum side { BEFORE, BESIDE, BEHIND, N_SIDES } side;

typedef struct fusion {
  const char *name;
  stage stage;
  vtb_kernel_kind kind;
  vtb__anchor anchor;
  vtb__word words[N_SIDES][MOST_WORDS];
  unsigned flags;
} fusion;

#define NOTHING                                                                                    \
  { NULL }
#define WORDS(...)                                                                                 \
  { __VA_ARGS__ }
#define W(word) vtb__word_##word
static const fusion rows[] = {
#define VTB_FUSION(row, STAGE, KIND, anchored, before_words, behind_words, beside_words, set)      \
  {.name = row,                                                                                    \
   .stage = STAGE,                                                                                 \
   .kind = VTB_KERNEL_##KIND,                                                                      \
   .anchor = vtb__anchor_##anchored,                                                               \
   .words = {[BEFORE] = before_words, [BEHIND] = behind_words, [BESIDE] = beside_words},           \
   .flags = set},
#include "ir/kernels.def"
#undef VTB_FUSION
};
enum { N_FUSIONS = sizeof rows / sizeof *rows };

/* A group under way; how many of the row's words it may use, the first of each side. */
typedef struct growth {
  vtb__group g;
  const fusion *row;
  int words[N_SIDES];
} growth;

/* ---- taking ---------------------------------------------------------------------------------- */

static bool take(growth *w, side on, vtb_inst *i, const vtb_value *at, const vtb_inst *member) {
  for (int n = 0; n < w->words[on]; n++) {
    vtb__group before = w->g;
    if (w->row->words[on][n](&w->g, i, at, member) && vtb__group_is_whole(&w->g)) return true;
    w->g = before;
  }
  return false;
}

/* Readers of v, and of reshapes of it; what the group needs stands before it. */
static bool take_readers(growth *w, side on, const vtb_value *v, const vtb_inst *member) {
  bool took = false;
  for (vtb_inst **r = vtb__readers(v); *r && !took; r++) {
    vtb_inst *i = *r;
    if (vtb__group_has(&w->g, i)) continue;
    took = i->op == VTB_OP_reshape ? take_readers(w, on, i->results[0], member)
                                   : !vtb__group_needs(&w->g, i) && take(w, on, i, v, member);
  }
  return took;
}

/* What makes v, which a member reads, or else what reads it. */
static bool take_around(growth *w, side on, const vtb_value *v, const vtb_inst *member) {
  vtb_value *base = vtb_behind_reshapes(v);
  if (vtb__group_maker(&w->g, v)) return false;
  if (on == BESIDE) return take_readers(w, on, base, member);
  return base->def && take(w, on, base->def, v, member);
}

static bool grow_by(growth *w, side on) {
  for (int m = 0; m < w->g.n && w->words[on]; m++) {
    const vtb_inst *member = w->g.at[m];
    for (int r = 0; r < member->n_results && on == BEHIND; r++)
      if (take_readers(w, on, member->results[r], member)) return true;
    for (int o = 0; o < member->n_operands && on != BEHIND; o++)
      if (take_around(w, on, member->operands[o], member)) return true;
  }
  return false;
}

/* ---- the choice ------------------------------------------------------------------------------ */

/* The group round i without the last `without` words: those before it go first, those behind it
 * last. */
static growth grow(vtb_func *f, const fusion *row, vtb_inst *i, int without) {
  growth w = {.g = vtb__group_round(f, i), .row = row};
  for (int s = 0; s < N_SIDES; s++) {
    int *n = &w.words[s];
    while (*n < MOST_WORDS && row->words[s][*n]) ++*n;
    int less = without < *n ? without : *n;
    *n -= less;
    without -= less;
  }
  w.g.views = row->flags & VIEWS;
  w.g.factors = row->flags & FACTORS;
  w.g.shared = row->flags & SHARED;
  w.g.whole = row->flags & WHOLE;
  while (grow_by(&w, BEHIND) || grow_by(&w, BEFORE) || grow_by(&w, BESIDE)) continue;
  return w;
}

/* Nobody asks what kernels take. */
static bool takes_anything(const vtb_pass_context *c) {
  return !c->asker || (c->decisions && c->decisions->all);
}

/* A smaller group, where a larger one pays, moves more bytes, and neither's estimate is better than
 * the margin: it has to be quicker by both. */
static bool is_quicker(vtb_decision *part, const vtb_decision *whole) {
  snprintf(part->why, sizeof part->why, "all of it in one kernel would take %.4f ms",
           1e3 * whole->fused);
  return part->fused < (1 - 2 * VTB_FUSION_MARGIN) * whole->fused;
}

/* With what adjoints go on to, whose time by itself and in the kernel is known when that is there;
 * sums over samples that are left for later are not counted. */
static vtb_inst *join_with_back(vtb_pass_context *c, vtb_decision *d, vtb__group *g,
                                vtb_kernel_kind kind) {
  d->apart += vtb__group_take_back(g, c->asker);
  vtb_inst *kernel = vtb__group_join(g, kind);
  d->fused = vtb_ask(c->asker, kernel).seconds;
  vtb__group_decided(c, d);
  return kernel;
}

/* The kernel that grew round i; NULL: none. Of what the words allow it is all that pays, or all but
 * what some of the words bring. */
static vtb_inst *visit(vtb_pass_context *c, vtb_func *f, const fusion *row, vtb_inst *i) {
  growth all = grow(f, row, i, 0), best = all;
  int words = all.words[BEFORE] + all.words[BESIDE] + all.words[BEHIND], size = all.g.n;
  if (size == 1 && !(row->flags & ALONE)) return NULL;
  if (row->flags & RULE) return vtb__group_join(&all.g, row->kind);
  vtb_decision d = {.fusion = row->name};
  bool taken = vtb__group_pays(c, &d, &best.g, row->kind, &all.g);
  if (taken && takes_anything(c)) words = 0;
  for (int without = 1; without < words; without++) {
    growth some = grow(f, row, i, without);
    vtb_decision part = d;
    if (some.g.n == 1) break;
    if (some.g.n == size) continue;
    size = some.g.n;
    bool pays = vtb__group_pays(c, &part, &some.g, row->kind, &all.g);
    if (taken && !(pays && is_quicker(&part, &d))) continue;
    d = part;
    if (pays) best = some, taken = true;
  }
  if (taken && (row->flags & BACK)) return join_with_back(c, &d, &best.g, row->kind);
  vtb__group_decided(c, &d);
  return taken ? vtb__group_join(&best.g, row->kind) : NULL;
}

/* ---- the pass -------------------------------------------------------------------------------- */

static void run_row(vtb_pass_context *c, const fusion *row) {
  for (vtb_func *f = c->module->first; f; f = f->next) {
    VTB_VEC(vtb_inst *) anchors = {0};
    if (f->kind != VTB_FUNC_PLAIN) continue;
    vtb_func_number(f);
    for (vtb_inst *i = f->first; i; i = i->next)
      if (row->anchor(i)) vtb__put(f, &anchors, i);
    for (size_t a = 0; a < anchors.n; a++) /* one may have been taken by another's group */
      if (vtb_is_linked(anchors.at[a]) && row->anchor(anchors.at[a]))
        visit(c, f, row, anchors.at[a]);
  }
}

/* The options are the row's stage, "of products", or name it among others, "local+scans". */
static bool is_wanted(const char *options, const fusion *row) {
  size_t n = strlen(row->name);
  if (!options || strncmp(options, "of ", 3) == 0)
    return !options || strcmp(options + 3, stages[row->stage]) == 0;
  for (const char *s = options; s; s = strchr(s, '+') ? strchr(s, '+') + 1 : NULL)
    if (strncmp(s, row->name, n) == 0 && (s[n] == '+' || s[n] == '\0')) return true;
  return false;
}

void vtb__change_grow(vtb_pass_context *c) {
  for (int r = 0; r < N_FUSIONS; r++)
    if (is_wanted(c->options, &rows[r]) && !vtb__fusion_declined(c, rows[r].name))
      run_row(c, &rows[r]);
}
