/* Modules as text; ir/parse.c reads it back and printing again gives the same bytes.
 *
 *   module "name"
 *   entry func @f(%x: f32[B, C=3] input "image", %w: f32[C=3] param "norm.weight" init "ones")
 *       -> (f32[B] "logits") {
 *
 * A signature is one line. Kinds of functions are `func`, `step` and `kernel`. Numbers are printed
 * with as few digits as read back exactly.
 */
#include "ir/internal.h"
#include "ir/ops.h"

#include <inttypes.h>

static const char *const kind_names[] = {[VTB_FUNC_PLAIN] = "func",
                                         [VTB_FUNC_STEP] = "step",
                                         [VTB_FUNC_KERNEL] = "kernel",
                                         [VTB_FUNC_RULE] = "rule"};
static const char *const role_names[] = {
    [VTB_ROLE_PLAIN] = "",         [VTB_ROLE_INPUT] = " input", [VTB_ROLE_PARAM] = " param",
    [VTB_ROLE_BUFFER] = " buffer", [VTB_ROLE_GRAD] = " grad",   [VTB_ROLE_STATE] = " state"};

static void put_string(vtb_strbuf *out, const char *s) {
  vtb_strbuf_putc(out, '"');
  for (; *s; s++) {
    unsigned char c = (unsigned char)*s;
    if (c == '"' || c == '\\')
      vtb_strbuf_printf(out, "\\%c", c);
    else if (c == '\n')
      vtb_strbuf_puts(out, "\\n");
    else if (c < 0x20 || c >= 0x7f)
      vtb_strbuf_printf(out, "\\x%02x", c);
    else
      vtb_strbuf_putc(out, (char)c);
  }
  vtb_strbuf_putc(out, '"');
}

static void put_attr(vtb_strbuf *out, const vtb_attr *a) {
  vtb_strbuf_printf(out, "%s = ", a->key);
  switch (a->kind) {
  case VTB_ATTR_INT:
    vtb_strbuf_printf(out, "%" PRId64, a->i);
    break;
  case VTB_ATTR_FLOAT:
    vtb_strbuf_double(out, a->f);
    break;
  case VTB_ATTR_STR:
    put_string(out, a->s);
    break;
  case VTB_ATTR_INTS:
  case VTB_ATTR_FLOATS:
    vtb_strbuf_putc(out, '[');
    for (int i = 0; i < a->n; i++) {
      if (i) vtb_strbuf_puts(out, ", ");
      if (a->kind == VTB_ATTR_INTS)
        vtb_strbuf_printf(out, "%" PRId64, a->ints[i]);
      else
        vtb_strbuf_double(out, a->floats[i]);
    }
    vtb_strbuf_putc(out, ']');
    break;
  }
}

/* ---- folded parameters ----------------------------------------------------------------------- */

/* The length of the block's part of an official name, "blocks.0" of blocks.0.norm.weight, "norm" of
 * norm.weight; 0 if it has one part. */
static size_t block_part(const char *official) {
  size_t n = strcspn(official, ".");
  if (!official[n]) return 0;
  bool numbered = official[n + 1] >= '0' && official[n + 1] <= '9';
  return numbered ? n + 1 + strcspn(official + n + 1, ".") : n;
}

static const char *weight_name(const vtb_value *v) {
  if (v->def) return NULL;
  const vtb_arg_info *info = &v->func->arg_info[v->index];
  return info->role == VTB_ROLE_INPUT || info->role == VTB_ROLE_GRAD ? NULL : info->official;
}

/* How many of n values are weights of one block; *prefix: the length of what their names share. */
static int fold_run(vtb_value *const *v, int n, size_t *prefix) {
  const char *first = weight_name(v[0]);
  size_t block = first ? block_part(first) : 0, shared = first ? strlen(first) : 0;
  int k = 1;
  if (!block) return 1;
  for (const char *name; k < n && (name = weight_name(v[k])); k++) {
    if (block_part(name) != block || strncmp(name, first, block) != 0) break;
    size_t same = 0;
    while (same < shared && name[same] == first[same]) same++;
    shared = same;
  }
  while (shared > block && first[shared] != '.') shared--;
  *prefix = shared;
  return k;
}

static void put_folded_args(vtb_strbuf *out, const vtb_func *f, int i, int n, size_t prefix) {
  int64_t elements = 0;
  for (int k = 0; k < n; k++) elements += vtb_type_count(&f->args[i + k]->type);
  vtb_strbuf_printf(out, "%%%.*s.*: %d parameters, %" PRId64 " elements", (int)prefix,
                    weight_name(f->args[i]), n, elements);
}

/* ---- instructions ---------------------------------------------------------------------------- */

static void put_operands(vtb_strbuf *out, const vtb_inst *inst, bool fold) {
  if (inst->callee)
    vtb_strbuf_printf(out, " @%s(", inst->callee->name);
  else if (inst->n_operands)
    vtb_strbuf_putc(out, ' ');
  for (int i = 0, n; i < inst->n_operands; i += n) {
    size_t prefix = 0;
    n = fold ? fold_run(inst->operands + i, inst->n_operands - i, &prefix) : 1;
    const char *name = n > 1 ? weight_name(inst->operands[i]) : inst->operands[i]->name;
    vtb_strbuf_printf(out, n > 1 ? "%s%%%.*s.*" : "%s%%%.*s", i ? ", " : "",
                      n > 1 ? (int)prefix : (int)strlen(name), name);
  }
  if (inst->callee) vtb_strbuf_putc(out, ')');
}

static void put_inst(const vtb_inst *inst, bool fold, vtb_strbuf *out) {
  for (int i = 0; i < inst->n_results; i++)
    vtb_strbuf_printf(out, "%s%%%s", i ? ", " : "", inst->results[i]->name);
  if (inst->n_results) vtb_strbuf_puts(out, " = ");
  vtb_strbuf_puts(out, vtb_op_get(inst->op)->name);
  put_operands(out, inst, fold && inst->op == VTB_OP_call);
  for (int i = 0; i < inst->n_attrs; i++) {
    vtb_strbuf_puts(out, i ? ", " : " {");
    put_attr(out, &inst->attrs[i]);
  }
  if (inst->n_attrs) vtb_strbuf_putc(out, '}');
  for (int i = 0; i < inst->n_results; i++) {
    vtb_strbuf_puts(out, i ? ", " : " : ");
    vtb_type_print(&inst->results[i]->type, out);
  }
}

void vtb_inst_print(const vtb_inst *inst, vtb_strbuf *out) { put_inst(inst, false, out); }

static void put_arg(vtb_strbuf *out, const vtb_func *f, int i) {
  const vtb_arg_info *info = &f->arg_info[i];
  vtb_strbuf_printf(out, "%%%s: ", f->args[i]->name);
  vtb_type_print(&f->args[i]->type, out);
  vtb_strbuf_puts(out, role_names[info->role]);
  if (info->official) {
    vtb_strbuf_puts(out, info->role == VTB_ROLE_PLAIN ? " named " : " ");
    put_string(out, info->official);
  }
  if (info->init) {
    vtb_strbuf_puts(out, " init ");
    put_string(out, info->init);
  }
  if (info->decay) vtb_strbuf_puts(out, " decay");
  if (info->frozen) vtb_strbuf_puts(out, " frozen");
}

#define ARGS_ON_A_LINE 4

static void put_header(vtb_strbuf *out, const vtb_func *f, bool fold) {
  bool wide = f->n_args > ARGS_ON_A_LINE;
  vtb_strbuf_printf(out, "%s%s @%s(", f->module->entry == f ? "entry " : "", kind_names[f->kind],
                    f->name);
  for (int i = 0, n; i < f->n_args; i += n) {
    size_t prefix = 0;
    n = fold && wide ? fold_run(f->args + i, f->n_args - i, &prefix) : 1;
    vtb_strbuf_puts(out, wide ? (i ? ",\n    " : "\n    ") : i ? ", " : "");
    if (n > 1)
      put_folded_args(out, f, i, n, prefix);
    else
      put_arg(out, f, i);
  }
  vtb_strbuf_puts(out, wide ? "\n  ) -> (" : ") -> (");
  for (int i = 0; i < f->n_returns; i++) {
    if (i) vtb_strbuf_puts(out, ", ");
    vtb_type_print(&f->returns[i]->type, out);
    if (!f->return_names[i]) continue;
    vtb_strbuf_putc(out, ' ');
    put_string(out, f->return_names[i]);
  }
  vtb_strbuf_puts(out, ") {");
}

static void put_span(vtb_strbuf *out, const vtb_print_options *o, vtb_span span) {
  if (o && o->spans && span.source) {
    char place[1024];
    vtb_strbuf_printf(out, "  // %s", vtb_span_text(span, place, sizeof place));
  }
  vtb_strbuf_putc(out, '\n');
}

void vtb_func_print(const vtb_func *f, const vtb_print_options *o, vtb_strbuf *out) {
  bool fold = o && o->fold;
  put_header(out, f, fold);
  put_span(out, o, f->span);
  for (const vtb_inst *inst = f->first; inst; inst = inst->next) {
    vtb_strbuf_puts(out, "  ");
    put_inst(inst, fold, out);
    put_span(out, o, inst->span);
  }
  vtb_strbuf_puts(out, "  return");
  for (int i = 0; i < f->n_returns; i++)
    vtb_strbuf_printf(out, "%s%%%s", i ? ", " : " ", f->returns[i]->name);
  vtb_strbuf_puts(out, "\n}\n");
}

void vtb_module_print(const vtb_module *m, const vtb_print_options *o, vtb_strbuf *out) {
  vtb_strbuf_puts(out, "module ");
  put_string(out, m->name);
  vtb_strbuf_putc(out, '\n');
  for (const vtb_func *f = m->first; f; f = f->next) {
    vtb_strbuf_putc(out, '\n');
    vtb_func_print(f, o, out);
  }
}
