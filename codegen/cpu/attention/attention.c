/* attention and attention_grad, with or without turns: text/attention.c, text/attention_grad.c. */
#include "ir/attention.h"
#include "codegen/cpu/text.h"
#include "ir/ops.h"

static vtb_cpu_text *open_text(vtb_cpu *c, const vtb_inst *inst, const vtb_attention *a,
                               const char *name) {
  vtb_cpu_text *x = vtb_cpu_text_open(c, name, c->width);
  vtb_cpu_text_fill(x, {"BATCH", a->n_batch}, {"QUERIES", a->n_queries}, {"KEYS", a->n_keys},
                    {"HEADS", a->n_heads}, {"KV_HEADS", a->kv_heads}, {"WIDTH", a->width},
                    {"VALUE_WIDTH", a->value_width}, {"CAUSAL", a->causal},
                    {"BIAS_BATCH", a->bias_batch}, {"BIAS_HEADS", a->bias_heads}, {"Q", a->q},
                    {"K", a->k}, {"V", a->v}, {"BIAS", a->bias},
                    {"BIAS_RANK", a->bias >= 0 ? inst->operands[a->bias]->type.rank : 2});
  vtb_cpu_text_real(x, "SCALE", a->scale);
  int64_t turns[2][4] = {{0}};
  for (int i = 0; i < 2; i++) {
    const vtb_turn *t = &a->turn[i];
    turns[i][0] = t->cosines, turns[i][1] = t->sines, turns[i][2] = t->width;
    turns[i][3] = t->width && inst->operands[t->cosines]->type.dim[1].size > 1;
  }
  vtb_cpu_text_numbers(x, "TURN", turns[0], 8);
  return x;
}

void vtb__cpu_attention(vtb_cpu *c, const vtb_inst *inst) {
  vtb_attention a = vtb_attention_of(inst);
  vtb_cpu_text *x = open_text(c, inst, &a, "attention");
  vtb_cpu_text_fill(x, {"Y", a.result[0]}, {"LSE", a.result[1]});
  vtb_cpu_text_run(x, inst);
}

void vtb__cpu_attention_grad(vtb_cpu *c, const vtb_inst *inst) {
  vtb_attention a = vtb_attention_of(inst);
  vtb_cpu_text *x = open_text(c, inst, &a, "attention_grad");
  vtb_cpu_text_fill(x, {"Y", a.y}, {"LSE", a.lse}, {"DY", a.dy}, {"DLSE", a.dlse},
                    {"DQ", a.result[0]}, {"DK", a.result[1]}, {"DV", a.result[2]},
                    {"DBIAS", a.wants_dbias ? a.result[3] : -1});
  vtb_cpu_text_run(x, inst);
}

void vtb__cpu_turned_attention(vtb_cpu *c, const vtb_inst *fused) {
  if (vtb_turned_attention(fused)->op == VTB_OP_attention)
    vtb__cpu_attention(c, fused);
  else
    vtb__cpu_attention_grad(c, fused);
}
