/* See key.h. */
#include "ir/key.h"

void vtb_key_type(const vtb_type *t, vtb_strbuf *out) {
  vtb_strbuf_puts(out, vtb_dtype_name(t->dtype));
  for (int a = 0; a < t->rank; a++)
    vtb_strbuf_printf(out, "%c%lld", a ? 'x' : ' ', (long long)t->dim[a].size);
}

static void key_attr(const vtb_attr *a, vtb_strbuf *out) {
  char spec[VTB_SPEC_SIZE];
  vtb_strbuf_printf(out, " %s=", a->key);
  switch (a->kind) {
  case VTB_ATTR_INT:
    vtb_strbuf_printf(out, "%lld", (long long)a->i);
    break;
  case VTB_ATTR_FLOAT:
    vtb_strbuf_printf(out, "%a", a->f);
    break;
  case VTB_ATTR_STR:
    vtb_strbuf_puts(out, vtb_attr_text(a, spec));
    break;
  case VTB_ATTR_INTS:
    for (int i = 0; i < a->n; i++) vtb_strbuf_printf(out, "%lld,", (long long)a->ints[i]);
    break;
  case VTB_ATTR_FLOATS: /* by content address: tables may be long */
    vtb_strbuf_printf(out, "%d:%llx", a->n,
                      (unsigned long long)vtb_hash_bytes(VTB_HASH_INIT, a->floats,
                                                         (size_t)a->n * sizeof *a->floats));
    for (int i = 0; i < a->n && i < 64; i++) vtb_strbuf_printf(out, ",%a", a->floats[i]);
    break;
  }
}

void vtb_key_op(const vtb_inst *inst, vtb_strbuf *out) {
  vtb_strbuf_puts(out, vtb_op_get(inst->op)->name);
  for (int a = 0; a < inst->n_attrs; a++) key_attr(&inst->attrs[a], out);
}

void vtb_key_body(const vtb_func *f, vtb_strbuf *out) {
  int *number = vtb_xcalloc((size_t)f->n_values + 1, sizeof *number), next = 0;
  vtb_strbuf_puts(out, " {");
  for (int a = 0; a < f->n_args; a++) {
    number[f->args[a]->id] = next++;
    vtb_strbuf_putc(out, ':');
    vtb_key_type(&f->args[a]->type, out);
  }
  for (const vtb_inst *i = f->first; i; i = i->next) {
    vtb_strbuf_puts(out, "; ");
    vtb_key_op(i, out);
    for (int o = 0; o < i->n_operands; o++)
      vtb_strbuf_printf(out, " %%%d", number[i->operands[o]->id]);
    for (int r = 0; r < i->n_results; r++) {
      number[i->results[r]->id] = next++;
      vtb_strbuf_putc(out, ':');
      vtb_key_type(&i->results[r]->type, out);
    }
    if (i->callee) vtb_key_body(i->callee, out);
  }
  vtb_strbuf_puts(out, "; return");
  for (int r = 0; r < f->n_returns; r++) vtb_strbuf_printf(out, " %%%d", number[f->returns[r]->id]);
  vtb_strbuf_putc(out, '}');
  vtb_free(number);
}
