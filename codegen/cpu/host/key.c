/* When two instructions may share a kernel: the text of everything its code depends on. */
#include "codegen/cpu/host/host.h"

#include <stdlib.h>
#include <string.h>

static void key_type(const vtb_type *t, vtb_strbuf *out) {
  vtb_strbuf_putc(out, t->dtype == VTB_F32 ? 'f' : 'i');
  for (int a = 0; a < t->rank; a++)
    vtb_strbuf_printf(out, "%s%lld", a ? "x" : "", (long long)t->dim[a].size);
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

static void key_op(const vtb_inst *i, vtb_strbuf *out) {
  vtb_strbuf_puts(out, vtb_op_get(i->op)->name);
  for (int a = 0; a < i->n_attrs; a++) key_attr(&i->attrs[a], out);
}

/* Values are numbered in order of appearance: names do not count. */
static void key_body(const vtb_func *f, vtb_strbuf *out) {
  int *number = vtb_xcalloc((size_t)f->n_values + 1, sizeof *number), next = 0;
  for (int a = 0; a < f->n_args; a++) number[f->args[a]->id] = next++;
  for (const vtb_inst *i = f->first; i; i = i->next) {
    vtb_strbuf_puts(out, "; ");
    key_op(i, out);
    for (int o = 0; o < i->n_operands; o++)
      vtb_strbuf_printf(out, " %%%d", number[i->operands[o]->id]);
    for (int r = 0; r < i->n_results; r++) {
      number[i->results[r]->id] = next++;
      vtb_strbuf_putc(out, ':');
      key_type(&i->results[r]->type, out);
    }
  }
  vtb_strbuf_puts(out, "; return");
  for (int r = 0; r < f->n_returns; r++) vtb_strbuf_printf(out, " %%%d", number[f->returns[r]->id]);
  vtb_free(number);
}

void vtb__kernel_key(const vtb_inst *inst, const vtb_cpu_kernel *k, vtb_strbuf *out) {
  if (inst)
    key_op(inst, out);
  else
    vtb_strbuf_puts(out, "copy");
  for (int i = 0; i < k->n_operands + k->n_results; i++) {
    vtb_strbuf_puts(out, i == k->n_operands ? " -> " : " ");
    key_type(k->types[i], out);
    for (int a = 0; a < k->types[i]->rank; a++)
      vtb_strbuf_printf(out, "%c%lld", a ? ',' : '@',
                        (long long)(k->types[i]->dim[a].size == 1 ? 0 : k->stride[i][a]));
  }
  for (int i = 0; inst && i < inst->n_operands; i++) /* the same value twice */
    for (int j = 0; j < i; j++)
      if (inst->operands[i] == inst->operands[j]) vtb_strbuf_printf(out, " %d=%d", i, j);
  if (inst && inst->op == VTB_OP_fold) /* a function with kernels of its own */
    vtb_strbuf_printf(out, " @%s", inst->callee->name);
  else if (inst && inst->callee)
    key_body(inst->callee, out);
}
