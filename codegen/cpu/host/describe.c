/* A compiled program's description of itself: its tensors and its kernels, in memory of the
 * program's own. */
#include "codegen/describe.h"
#include "codegen/cpu/host/host.h"
#include "ir/key.h"
#include "ir/ops.h"

static void key_operand(const vtb_func *entry, const vtb_value *v, const int *number,
                        vtb_strbuf *out) {
  const char *official = v->def ? NULL : entry->arg_info[v->index].official;
  if (!v->def)
    vtb_strbuf_printf(out, " '%s':", official ? official : v->name);
  else if (v->def->op == VTB_OP_constant)
    vtb_key_op(v->def, out);
  else
    vtb_strbuf_printf(out, " %%%d", number[v->id]);
  vtb_key_type(&v->type, out);
}

/* What the prepared steps make of which parameters, and where they put it, whatever the rest of the
 * program and its batch. */
static uint64_t key_of_kept(const vtb_steps *s, const vtb_func *entry) {
  const vtb_frame *frame = vtb_plan_frame(&s->plan, entry);
  int *number = vtb_xcalloc((size_t)entry->n_values + 1, sizeof *number), next = 0;
  vtb_strbuf text = {0};
  for (const vtb_inst *i = entry->first; i; i = i->next) {
    if (!vtb_attr_int(i, "prepared", 0)) continue;
    vtb_key_op(i, &text);
    for (int o = 0; o < i->n_operands; o++) key_operand(entry, i->operands[o], number, &text);
    if (i->callee) vtb_key_body(i->callee, &text);
    for (int r = 0; r < i->n_results; r++) {
      const vtb_slot *slot = &frame->slots[i->results[r]->id];
      number[i->results[r]->id] = next++;
      vtb_strbuf_printf(&text, " -> %lld",
                        slot->place == VTB_PLACE_KEPT ? (long long)slot->offset : -1LL);
    }
    vtb_strbuf_putc(&text, '\n');
  }
  uint64_t key = vtb_hash64(text.at, text.n);
  vtb_strbuf_free(&text);
  vtb_free(number);
  return key;
}

void vtb__describe_program(vtb_host *h, vtb_func *entry, vtb_program *p, vtb_arena *arena) {
  vtb__describe_tensors(entry, p, arena);
  p->kept_bytes = h->steps.plan.kept_bytes;
  p->kept_key = p->kept_bytes ? key_of_kept(&h->steps, entry) : 0;
  p->workspace_bytes = h->funcs[vtb_steps_find(&h->steps, entry)].total_bytes + p->kept_bytes;
  p->n_kernels = (int)h->kernel_list.n;
  p->kernels = VTB_NEW_ARRAY(arena, vtb_kernel_info, p->n_kernels + 1);
  for (int i = 0; i < p->n_kernels; i++) {
    const vtb_cpu_kernel *k = h->kernel_list.at[i];
    p->kernels[i] = (vtb_kernel_info){vtb_arena_strdup(arena, k->name),
                                      vtb_arena_strdup(arena, k->label),
                                      vtb_arena_strdup(arena, k->ops),
                                      vtb_arena_strdup(arena, k->origin),
                                      k->flops,
                                      k->bytes,
                                      k->launches};
  }
}
