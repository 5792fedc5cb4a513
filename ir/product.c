/* See product.h: the only reader of einsum's attribute `spec`. */
#include "ir/internal.h"
#include "ir/ops.h"

static const char key[] = "spec";

/* ---- taking apart ---------------------------------------------------------------------------- */

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static int number_of(const vtb_product *p, char name) {
  for (int l = 0; l < p->n; l++)
    if (p->letters[l].name == name) return l;
  return -1;
}

/* Errors of a text, the worst first. */
enum { FORM, TWICE, NOWHERE, RIGHT };
static const char *const wrongs[] = {"want \"ab,bc->ac\"",
                                     "a letter comes twice in one place, or too many letters",
                                     "a letter of the result is in no operand", NULL};

/* Letters of one place, from *text on. */
static int read_place(vtb_product *p, int place, const char **text) {
  int wrong = RIGHT;
  for (; is_letter(**text); ++*text) {
    int l = number_of(p, **text);
    if (p->rank[place] == VTB_MAX_RANK || (l >= 0 && p->letters[l].at[place] >= 0)) {
      wrong = TWICE;
    } else if (l < 0 && place == VTB_IN_RESULT) {
      if (wrong == RIGHT) wrong = NOWHERE;
    } else {
      if (l < 0)
        p->letters[l = p->n++] = (vtb_letter){.name = **text, .at = {-1, -1, -1}, .size = 1};
      p->letters[l].at[place] = p->rank[place];
      p->of[place][p->rank[place]++] = l;
    }
  }
  return wrong;
}

static vtb_letter_role role_of(const vtb_letter *l) {
  bool kept = l->at[VTB_IN_RESULT] >= 0;
  if (l->at[0] >= 0 && l->at[1] >= 0) return kept ? VTB_LETTER_BATCH : VTB_LETTER_SUM;
  if (!kept) return VTB_LETTER_ALONE;
  return l->at[0] >= 0 ? VTB_LETTER_ROWS : VTB_LETTER_COLUMNS;
}

const char *vtb__product_parse(const char *spec, vtb_product *p) {
  static const char *const behind[VTB_LETTER_PLACES] = {",", "->", ""};
  int wrong = RIGHT;
  *p = (vtb_product){0};
  for (int place = 0; place < VTB_LETTER_PLACES && wrong != FORM; place++) {
    int found = read_place(p, place, &spec);
    size_t n = strlen(behind[place]);
    if (found < wrong) wrong = found;
    if (strncmp(spec, behind[place], n) != 0)
      wrong = FORM;
    else
      spec += n;
  }
  if (wrong != FORM && *spec) wrong = FORM;
  for (int l = 0; l < p->n; l++) p->count[p->letters[l].role = role_of(&p->letters[l])]++;
  return wrongs[wrong];
}

/* Equal texts of a module share what they say. */
void vtb__product_read(vtb_inst *einsum) {
  vtb__module *m = (vtb__module *)einsum->func->module;
  const char *spec = vtb_einsum_text(einsum);
  vtb_product p, *known = vtb_map_get(&m->products, spec);
  if (!known && !vtb__product_parse(spec, &p)) {
    known = VTB_NEW(&m->base.arena, vtb_product);
    *known = p;
    vtb_map_set(&m->products, spec, known);
  }
  einsum->product = known;
}

vtb_product vtb_product_of(const vtb_inst *einsum) {
  vtb_check(einsum->product != NULL, "%s is no product", vtb_op_get(einsum->op)->name);
  vtb_product p = *einsum->product;
  for (int place = VTB_IN_RESULT; place-- > 0;)
    for (int axis = 0; axis < p.rank[place]; axis++)
      p.letters[p.of[place][axis]].size = einsum->operands[place]->type.dim[axis].size;
  return p;
}

/* ---- questions ------------------------------------------------------------------------------- */

const vtb_letter *vtb_product_at(const vtb_product *p, int place, int axis) {
  return &p->letters[p->of[place][axis]];
}

const vtb_letter *vtb_product_only(const vtb_product *p, vtb_letter_role role) {
  if (p->count[role] != 1) return NULL;
  const vtb_letter *l = p->letters;
  while (l->role != role) l++;
  return l;
}

int64_t vtb_product_size(const vtb_product *p, vtb_letter_role role, int64_t batch) {
  int64_t size = 1;
  for (int l = 0; l < p->n; l++)
    if (p->letters[l].role == role) size *= vtb_bound_size(p->letters[l].size, batch);
  return size;
}

/* Factor 0's axes before `n` are those of `place`. */
static bool begin_alike(const vtb_product *p, int place, int n) {
  for (int a = 0; a < n; a++)
    if (p->of[0][a] != p->of[place][a]) return false;
  return true;
}

bool vtb_product_keeps_rows(const vtb_product *p) {
  int last = p->rank[0] - 1;
  return last >= 0 && p->rank[VTB_IN_RESULT] == last + 1 && begin_alike(p, VTB_IN_RESULT, last) &&
         p->count[VTB_LETTER_ALONE] == 0 && vtb_product_at(p, 0, last)->role == VTB_LETTER_SUM &&
         vtb_product_at(p, VTB_IN_RESULT, last)->role == VTB_LETTER_COLUMNS;
}

bool vtb_blocks_of(const vtb_inst *inst, vtb_blocks *out) {
  if (inst->op != VTB_OP_einsum) return false;
  vtb_product p = vtb_product_of(inst);
  const vtb_letter *g = vtb_product_only(&p, VTB_LETTER_BATCH);
  if (!g || !vtb_product_keeps_rows(&p) || p.rank[0] < 3 || g->at[0] != p.rank[0] - 2) return false;
  const vtb_letter *i = vtb_product_only(&p, VTB_LETTER_SUM),
                   *o = vtb_product_only(&p, VTB_LETTER_COLUMNS);
  *out = (vtb_blocks){.groups = g->size, .inner = i->size, .outer = o->size};
  out->at_group = g->at[1], out->at_inner = i->at[1], out->at_outer = o->at[1];
  return true;
}

int64_t vtb_blocks_joined(int64_t size) {
  static const int sizes[] = {2, 4, 8, 16, 32, 48};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes && size > 0; i++)
    if (sizes[i] % size == 0 && (size == 1 || sizes[i] > 8 || sizes[i] == size)) return sizes[i];
  return 0;
}

bool vtb_is_blocks_gradient(const vtb_inst *inst) {
  if (inst->op != VTB_OP_einsum) return false;
  vtb_product p = vtb_product_of(inst);
  int n = p.rank[0];
  const int *out = p.of[VTB_IN_RESULT];
  return n >= 3 && p.rank[1] == n && begin_alike(&p, 1, n - 1) && p.rank[VTB_IN_RESULT] == 3 &&
         p.of[0][n - 1] != p.of[1][n - 1] && out[0] == p.of[0][n - 2] && out[1] == p.of[0][n - 1] &&
         out[2] == p.of[1][n - 1];
}

/* ---- letters that are to be ------------------------------------------------------------------ */

void vtb_spec_put(vtb_spec *s, int place, char name) {
  size_t n = strlen(s->of[place]);
  vtb_check(n < VTB_MAX_RANK, "a product of more than %d axes", VTB_MAX_RANK);
  s->of[place][n] = name;
  s->of[place][n + 1] = 0;
}

vtb_spec vtb_spec_of(const vtb_product *p) {
  vtb_spec s = {0};
  for (int place = 0; place < VTB_LETTER_PLACES; place++)
    for (int a = 0; a < p->rank[place]; a++) s.of[place][a] = vtb_product_at(p, place, a)->name;
  return s;
}

void vtb_unused_letters(const vtb_product *p, const char *wishes, int n, char *out) {
  for (; n > 0 && *wishes; wishes++)
    if (number_of(p, *wishes) < 0) *out++ = *wishes, n--;
  vtb_check(n == 0, "a product has no letter left");
  *out = 0;
}

const char *vtb__spec_text(const vtb_spec *s, char buf[VTB_SPEC_SIZE]) {
  snprintf(buf, VTB_SPEC_SIZE, "%s,%s->%s", s->of[0], s->of[1], s->of[VTB_IN_RESULT]);
  return buf;
}

/* ---- the text -------------------------------------------------------------------------------- */

vtb_attr vtb__spec_attr(const char *text) { return VTB_A_STR(key, text); }

const char *vtb_einsum_text(const vtb_inst *inst) {
  return inst->op == VTB_OP_einsum ? vtb_attr_str(inst, key, "") : "";
}

bool vtb_einsum_alike(const vtb_inst *a, const vtb_inst *b) {
  return vtb_attr_equal(vtb_attr_find(a, key), vtb_attr_find(b, key));
}

const char *vtb_attr_text(const vtb_attr *a, char buf[VTB_SPEC_SIZE]) {
  vtb_product p;
  if (strcmp(a->key, key) != 0 || vtb__product_parse(a->s, &p)) return a->s;
  for (int l = 0; l < p.n; l++) p.letters[l].name = (char)('a' + l);
  vtb_spec s = vtb_spec_of(&p);
  return vtb__spec_text(&s, buf);
}

bool vtb_ends_in_parameter(const vtb_inst *einsum) {
  vtb_product p = vtb_product_of(einsum);
  if (!p.rank[0]) return false;
  const vtb_letter *first = vtb_product_at(&p, 0, 0);
  return first->role == VTB_LETTER_SUM && first->at[1] == 0;
}
