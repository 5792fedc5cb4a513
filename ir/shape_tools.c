/* The tools of shape rules: operands, attributes, failures. */
#include "ir/internal.h"

#include <inttypes.h>

static const char *op_name(const vtb__shape *s) { return vtb_op_get(s->inst->op)->name; }

bool vtb__shape_fail(vtb__shape *s, int code, const char *fmt, ...) {
  if (s->code) return false;
  vtb_strbuf text = {0};
  va_list ap;
  va_start(ap, fmt);
  vtb_strbuf_vprintf(&text, fmt, ap);
  va_end(ap);
  s->code = code;
  s->text = text.at ? text.at : vtb_xstrdup("");
  return false;
}

void vtb__shape_push(vtb__shape *s, vtb_type t) { vtb_vec_push(&s->results, t); }

const vtb_type *vtb__shape_operand(const vtb__shape *s, int i) {
  const vtb_type *stored = &s->inst->operands[i]->type;
  return vtb_is_half(stored->dtype) ? &s->wide[i] : stored;
}

const char *vtb__shape_text(vtb__shape *s, const vtb_type *t) {
  return vtb__type_text(&s->scratch, t);
}

bool vtb__shape_axis(vtb__shape *s, const vtb_type *t, int64_t axis) {
  if (axis >= 0 && axis < t->rank) return true;
  return vtb__shape_fail(s, VTB_DIAG_IR_AXIS, "%s: axis %" PRId64 " of %s, which has %d axes",
                         op_name(s), axis, vtb__shape_text(s, t), t->rank);
}

const int64_t *vtb__shape_list(vtb__shape *s, const char *key, int n) {
  int len;
  const int64_t *list = vtb_attr_ints(s->inst, key, &len);
  if (list && len == n) return list;
  vtb__shape_fail(s, VTB_DIAG_IR_ATTR, "%s: attribute %s has %d entries, not %d", op_name(s), key,
                  len, n);
  return NULL;
}

bool vtb__shape_f32(vtb__shape *s) {
  for (int i = 0; i < s->inst->n_operands; i++)
    if (vtb__shape_operand(s, i)->dtype != VTB_F32)
      return vtb__shape_fail(s, VTB_DIAG_IR_DTYPE, "%s takes f32, operand %d is %s", op_name(s),
                             i + 1, vtb__shape_text(s, vtb__shape_operand(s, i)));
  return true;
}

static bool layout_fits(vtb__shape *s, int64_t n) {
  const char *text = vtb_attr_str(s->inst, "layout", NULL);
  vtb_path layout;
  vtb_error err = {0};
  if (!text) return true;
  if (vtb_layout_parse(text, &layout, &err))
    return vtb__shape_fail(s, VTB_DIAG_IR_PATH, "%s: %s", op_name(s), err.text);
  if (layout.n == n) return true;
  return vtb__shape_fail(s, VTB_DIAG_IR_PATH,
                         "%s: layout %s has %" PRId64 " tokens, the sequence has %" PRId64,
                         op_name(s), text, layout.n, n);
}

bool vtb__shape_path(vtb__shape *s, int64_t n) {
  const char *text = vtb_attr_str(s->inst, "path", NULL);
  if (!layout_fits(s, n)) return false;
  if (!text) return true;
  vtb_path path;
  vtb_error err = {0};
  if (vtb_path_parse(text, &path, &err))
    return vtb__shape_fail(s, VTB_DIAG_IR_PATH, "%s: %s", op_name(s), err.text);
  int64_t length = path.n;
  vtb_path_free(&path);
  if (length == n) return true;
  if (vtb_is_batch(n))
    return vtb__shape_fail(s, VTB_DIAG_IR_PATH, "%s: path %s along the batch axis", op_name(s),
                           text);
  return vtb__shape_fail(s, VTB_DIAG_IR_PATH,
                         "%s: path %s orders %" PRId64 " positions, the sequence has %" PRId64,
                         op_name(s), text, length, n);
}
