/* Taking linscan instructions apart; their tensors as C expressions: see linscan.h. */
#include "codegen/cuda/linscan.h"

#include <stdlib.h>

/* A decay below this is taken for it in adjoints of the matmul forms, so that it divides out:
 * codegen/cpu/linscan_grad.c has the reason. */
#define FLOOR "1e-18f"

vtb__cuda_scan vtb__cuda_scan_make(vtb_cuda *c, const vtb_inst *inst) {
  const vtb_type *q = &inst->operands[0]->type, *v = &inst->operands[2]->type;
  vtb__cuda_scan s = {.c = c, .inst = inst, .grad = inst->op == VTB_OP_linscan_grad};
  s.B = q->dim[0].size, s.N = q->dim[1].size, s.heads = q->dim[2].size, s.K = q->dim[3].size, s.V = v->dim[3].size;
  vtb_check(vtb_decay_class_find(vtb_attr_str(inst, "class", ""), &s.decay), "linscan without a class");
  s.normalizer = vtb_attr_int(inst, "normalizer", 0) != 0;
  s.init = vtb_attr_int(inst, "init", 0) != 0;
  s.last = vtb_attr_int(inst, "last", 1) != 0;
  s.dlast = vtb_attr_int(inst, "dlast", 0) != 0;
  s.path = vtb_attr_str(inst, "path", NULL);
  s.V1 = s.V + s.normalizer;
  s.state_pitch = (s.V1 + 3) / 4 * 4;
  s.at = vtb_scan_number(inst);
  const char *mode = vtb_attr_str(inst, "mode", "auto");
  bool matmul = s.decay == VTB_DECAY_CONSTANT || s.decay == VTB_DECAY_SCALAR, recurrent = vtb_streq(mode, "recurrent");
  s.by_steps = !matmul || (recurrent && !s.grad);
  int64_t chunk = recurrent ? 64 : vtb_streq(mode, "chunkwise") ? vtb_attr_int(inst, "chunk", 64) : s.N;
  s.chunk = chunk < s.N ? chunk : s.N;
  s.n_chunks = (s.N + s.chunk - 1) / s.chunk;
  int64_t rest = s.N - (s.n_chunks - 1) * s.chunk;
  s.row_tiles = (s.n_chunks - 1) * ((s.chunk + 63) / 64) + (rest + 63) / 64;
  return s;
}

const char *vtb__cuda_scan_at(const vtb__cuda_scan *s, int tensor, const char *x) {
  return vtb_cuda_offset(s->c, tensor, (const char *const[]){"b", "pos", "h", x});
}

const char *vtb__cuda_state_at(const vtb__cuda_scan *s, int tensor, bool vector) {
  return vtb_cuda_offset(s->c, tensor, (const char *const[]){"b", "h", "key", vector ? NULL : "x"});
}

void vtb__hole_row(vtb__cuda_holes *h, const vtb__cuda_scan *s, vtb_cuda_kernel *k, vtb__cuda_row row,
                   const char *hole) {
  static const char *const names[] = {"q", "k", "v", "dy"};
  const int tensors[] = {s->at.q, s->at.k, s->at.v, s->at.dy};
  const char *at = vtb__cuda_scan_at(s, tensors[row], "x");
  vtb_cuda_in(k, tensors[row], names[row]);
  if (!s->normalizer || row == VTB__ROW_Q || row == VTB__ROW_K) {
    vtb__hole_text(h, hole, "%s[%s]", names[row], at);
  } else if (row == VTB__ROW_V) {
    vtb__hole_text(h, hole, "(x < V ? v[%s] : 1.0f)", at);
  } else {
    vtb_cuda_in(k, s->at.dz, "dz");
    vtb__hole_text(h, hole, "(x < V ? dy[%s] : dz[%s])", at, vtb__cuda_scan_at(s, s->at.dz, NULL));
  }
}

void vtb__hole_source(vtb__cuda_holes *h, const vtb__cuda_scan *s, vtb_cuda_kernel *k, vtb__cuda_row row,
                      const char *hole) {
  static const char *const names[] = {"q", "k", "v", "dy"};
  const int tensors[] = {s->at.q, s->at.k, s->at.v, s->at.dy};
  bool values = row == VTB__ROW_V || row == VTB__ROW_DY;
  vtb_cuda_in(k, tensors[row], names[row]);
  vtb__hole_text(h, vtb_arena_printf(&h->texts, "%s_from", hole), "%s + (%s)", names[row],
                 vtb__cuda_scan_at(s, tensors[row], NULL));
  if (!values) return;
  const char *extra = vtb_arena_printf(&h->texts, "%s_extra", hole);
  if (s->normalizer && row == VTB__ROW_DY) {
    vtb_cuda_in(k, s->at.dz, "dz");
    vtb__hole_text(h, extra, "dz[%s]", vtb__cuda_scan_at(s, s->at.dz, NULL));
  } else {
    vtb__hole_text(h, extra, s->normalizer ? "1.0f" : "0.0f");
  }
}

bool vtb__cuda_rows_four(const vtb__cuda_scan *s, const vtb__cuda_row *rows, int n) {
  const int tensors[] = {s->at.q, s->at.k, s->at.v, s->at.dy};
  bool four = true;
  for (int i = 0; i < n; i++) four = four && vtb_cuda_rows_of_four(s->c, tensors[rows[i]]);
  return four;
}

static bool has_paths(const vtb_module *m) {
  for (const vtb_func *f = m->first; f; f = f->next)
    for (const vtb_inst *i = f->first; i; i = i->next)
      if ((i->op == VTB_OP_linscan || i->op == VTB_OP_linscan_grad) && vtb_attr_find(i, "path")) return true;
  return false;
}

/* A table even where the path has a formula: then all scans of a model share one kernel and its compilation. */
void vtb__hole_place(vtb__cuda_holes *h, const vtb__cuda_scan *s, vtb_cuda_kernel *k) {
  vtb_path p = {0};
  vtb_error err = {0};
  if (!has_paths(s->inst->func->module)) {
    vtb__hole_text(h, "place", "t");
    return;
  }
  if (s->path)
    vtb_check(vtb_path_parse(s->path, &p, &err) == VTB_OK && p.n == s->N, "path '%s': %s", s->path, err.text);
  int64_t *steps = vtb_xcalloc((size_t)s->N, sizeof *steps);
  int32_t *table = vtb_xcalloc((size_t)s->N, sizeof *table);
  if (s->path) vtb_path_indices(&p, steps);
  for (int64_t t = 0; t < s->N; t++) table[t] = (int32_t)(s->path ? steps[t] : t);
  vtb_cuda_table_i32(k, table, (size_t)s->N, "order");
  vtb__hole_text(h, "place", "order[t]");
  free(table);
  free(steps);
  if (s->path) vtb_path_free(&p);
}

void vtb__hole_decay(vtb__cuda_holes *h, const vtb__cuda_scan *s, vtb_cuda_kernel *k) {
  bool constant = s->decay == VTB_DECAY_CONSTANT;
  const char *at =
      constant ? vtb_cuda_offset(s->c, s->at.d, (const char *const[]){"h"}) : vtb__cuda_scan_at(s, s->at.d, NULL);
  vtb_cuda_in(k, s->at.d, "d");
  vtb__hole_text(h, "decay", s->grad ? "vtb_max(d[%s], " FLOOR ")" : "d[%s]", at);
}
