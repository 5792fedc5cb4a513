/* Which part of a checkpoint are the weights. Tools for training wrap them in a dict of their own,
 * beside the optimiser's state, settings, and sometimes averaged weights. */
#include "runtime/weights/checkpoint.h"

#include <string.h>

enum { MOST_NESTED = 4, MOST_LISTED = 8, MOST_TEXT = 4000 };

/* Tools' names of the weights; the first that is there is taken. */
static const char *const wrappers[] = {"model",   "state_dict", "model_state_dict", "module",
                                       "network", "net",        "weights",          "params"};
static const char *const averages[] = {"model_ema",      "state_dict_ema", "ema",
                                       "ema_state_dict", "ema_model",      "model_ema_state_dict"};
#define COUNT(names) (sizeof(names) / sizeof *(names))

/* A line of a copy of these, with what a terminal would obey shown as '?'. */
static void put_key(const py_value *key, vtb_strbuf *out) {
  if (key->kind != PY_TEXT && key->kind != PY_BYTES) {
    vtb_py_print(key, out);
    return;
  }
  size_t n = key->text.n < 60 ? key->text.n : 60;
  vtb_strbuf_putc(out, '"');
  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)key->text.at[i];
    vtb_strbuf_putc(out, c < ' ' || c > '~' ? '?' : (char)c);
  }
  vtb_strbuf_putc(out, '"');
}

/* Entries of a dict that `wanted` says yes to: "a", "b" and 3 more. */
typedef bool (*test_fn)(const py_value *key, const py_value *value);
static size_t list_keys(const py_value *dict, test_fn wanted, vtb_strbuf *out) {
  size_t n = 0;
  for (size_t i = 0; i + 1 < dict->items.n; i += 2) {
    if (!wanted(dict->items.at[i], dict->items.at[i + 1])) continue;
    if (n++ >= MOST_LISTED) continue;
    if (n > 1) vtb_strbuf_puts(out, ", ");
    put_key(dict->items.at[i], out);
  }
  if (n > MOST_LISTED) vtb_strbuf_printf(out, " and %zu more", n - MOST_LISTED);
  return n;
}

static bool any(const py_value *key, const py_value *value) {
  (void)key, (void)value;
  return true;
}

/* ---- the weights ----------------------------------------------------------------------------- */

static bool has_tensors(const py_value *v) {
  if (!v || v->kind != PY_DICT) return false;
  for (size_t i = 1; i < v->items.n; i += 2)
    if (v->items.at[i]->kind == PY_TENSOR) return true;
  return false;
}

/* True of an optimiser's: what it keeps for each parameter, and its groups. */
static bool is_optimiser(const py_value *v) {
  return vtb_py_member(v, "param_groups") && vtb_py_member(v, "state");
}

/* Tensors, or a dict of tensors in a few wrappings. */
static bool leads_to_tensors(const py_value *v, int depth) {
  if (!v || v->kind != PY_DICT || is_optimiser(v) || depth == MOST_NESTED) return false;
  if (has_tensors(v)) return true;
  for (size_t k = 0; k < COUNT(wrappers); k++)
    if (leads_to_tensors(vtb_py_member(v, wrappers[k]), depth + 1)) return true;
  return false;
}

static bool is_candidate(const py_value *key, const py_value *value) {
  return (key->kind == PY_TEXT || key->kind == PY_BYTES) && leads_to_tensors(value, 1);
}

static const char *first_of(const py_value *v, const char *const *names, size_t n) {
  for (size_t k = 0; k < n; k++)
    if (leads_to_tensors(vtb_py_member(v, names[k]), 1)) return names[k];
  return NULL;
}

/* The one entry that leads to tensors; NULL if there are none or several. */
static const py_value *only_candidate(const py_value *v) {
  const py_value *found = NULL;
  for (size_t i = 0; i + 1 < v->items.n; i += 2) {
    if (!is_candidate(v->items.at[i], v->items.at[i + 1])) continue;
    if (found) return NULL;
    found = v->items.at[i];
  }
  return found;
}

static vtb_status refuse_part(vtb_checkpoint *c, const py_value *v, vtb_strbuf *names) {
  size_t n = list_keys(v, is_candidate, names);
  if (c->part)
    return vtb_fail(c->err, VTB_E_INPUT, "%s holds no tensors under \"%.60s\"%s%s", c->path,
                    c->part, n ? "; under these it does: " : "", vtb_strbuf_text(names));
  if (n)
    return vtb_fail(
        c->err, VTB_E_INPUT,
        "%s holds several sets of weights: %s; `vertebra convert --part NAME` takes one out",
        c->path, vtb_strbuf_text(names));
  names->n = 0;
  list_keys(v, any, names);
  return vtb_fail(c->err, VTB_E_INPUT, "%s holds no weights; its entries are: %s", c->path,
                  v->items.n ? vtb_strbuf_text(names) : "none");
}

/* The entry of `v` that leads on to the weights; NULL: they are v itself, or there is none. */
static const char *next_entry(vtb_checkpoint *c, const py_value *v, bool outermost) {
  if (outermost && c->part) {
    if (leads_to_tensors(vtb_py_member(v, c->part), 1)) return c->part;
    return vtb_streq(c->part, "ema") ? first_of(v, averages, COUNT(averages)) : NULL;
  }
  const char *name = first_of(v, wrappers, COUNT(wrappers));
  if (name || has_tensors(v)) return name;
  name = first_of(v, averages, COUNT(averages));
  const py_value *only = name ? NULL : only_candidate(v);
  return only ? vtb_py_string(&c->machine, only->text.at, only->text.n) : name;
}

/* ---- what stands beside them ----------------------------------------------------------------- */

/* A text that found no memory is an error of the store, which is looked at when all is added. */
static void note_memory(vtb_checkpoint *c, const vtb_strbuf *text) {
  if (text->failed) vtb_no_memory(&c->w->error, c->path);
}

/* Numbers and texts, and settings that are short enough, become metadata. */
static bool keep_text(vtb_checkpoint *c, const py_value *key, const py_value *value) {
  if ((key->kind != PY_TEXT && key->kind != PY_BYTES) || value->kind == PY_TENSOR ||
      !vtb__good_name(key->text.at, key->text.n))
    return false;
  vtb_strbuf name = VTB_CHECKED_STRBUF, text = VTB_CHECKED_STRBUF;
  vtb_py_print(value, &text);
  bool good = !text.failed && text.n < MOST_TEXT && vtb__good_text(text.at, text.n) &&
              !strstr(vtb_strbuf_text(&text), "tensor[");
  if (good) {
    vtb_strbuf_puts(&name, "torch.");
    vtb_strbuf_write(&name, key->text.at, key->text.n);
    if (!name.failed) vtb_weights_set_meta(c->w, name.at, vtb_strbuf_text(&text));
  }
  note_memory(c, &name);
  note_memory(c, &text);
  vtb_strbuf_free(&name);
  vtb_strbuf_free(&text);
  return good;
}

/* The entries beside the one that was followed. */
static void take_rest(vtb_checkpoint *c, const py_value *v, const char *followed) {
  vtb_strbuf names = VTB_CHECKED_STRBUF;
  size_t left_out = 0;
  for (size_t i = 0; i + 1 < v->items.n; i += 2) {
    const py_value *key = v->items.at[i], *value = v->items.at[i + 1];
    if (vtb_py_is_text(key, followed) || keep_text(c, key, value)) continue;
    if (left_out++ >= MOST_LISTED) continue;
    if (left_out > 1) vtb_strbuf_puts(&names, ", ");
    put_key(key, &names);
  }
  if (left_out)
    vtb__say(c->said, "took \"%s\"; left out %s%s", followed, vtb_strbuf_text(&names),
             left_out > MOST_LISTED ? " and more" : "");
  else
    vtb__say(c->said, "took \"%s\"", followed);
  const char *average = first_of(v, averages, COUNT(averages));
  if (average && !vtb_streq(average, followed))
    vtb__say(c->said, "averaged weights are there, too, in \"%s\": --ema-weights takes them",
             average);
  note_memory(c, &names);
  vtb_strbuf_free(&names);
}

static bool is_no_tensor(const py_value *key, const py_value *value) {
  return value->kind != PY_TENSOR || (key->kind != PY_TEXT && key->kind != PY_BYTES);
}

/* The tensors of a dict, whose other entries are named. */
static vtb_status take_dict(vtb_checkpoint *c, const py_value *v) {
  size_t n = 0;
  vtb_named *at = vtb_py_alloc(&c->machine, v->items.n / 2 + 1, sizeof *at);
  if (!at) return c->err->status;
  for (size_t i = 0; i + 1 < v->items.n; i += 2)
    if (!is_no_tensor(v->items.at[i], v->items.at[i + 1]))
      at[n++] = (vtb_named){v->items.at[i], v->items.at[i + 1]->tensor};
  vtb_strbuf names = VTB_CHECKED_STRBUF;
  size_t others = list_keys(v, is_no_tensor, &names);
  if (others)
    vtb__say(c->said, "left out %zu %s among the weights that %s no tensor%s: %s", others,
             others == 1 ? "entry" : "entries", others == 1 ? "is" : "are", others == 1 ? "" : "s",
             vtb_strbuf_text(&names));
  note_memory(c, &names);
  vtb_strbuf_free(&names);
  return vtb__checkpoint_add(c, at, n);
}

vtb_status vtb__checkpoint_take(vtb_checkpoint *c, const py_value *root) {
  const py_value *v = root;
  if (v->kind != PY_DICT)
    return vtb_fail(c->err, VTB_E_INPUT, "%s holds %s, not a dict of named tensors", c->path,
                    v->kind == PY_OPAQUE ? v->object.name : vtb_py_kind_name(v));
  for (int depth = 0; depth <= MOST_NESTED; depth++) {
    const char *name = next_entry(c, v, depth == 0);
    if (!name) break;
    take_rest(c, v, name);
    v = vtb_py_member(v, name);
  }
  if (c->err->text[0]) return c->err->status;
  if (has_tensors(v) && (v != root || !c->part)) return take_dict(c, v);
  vtb_strbuf names = VTB_CHECKED_STRBUF;
  vtb_status status = refuse_part(c, v, &names);
  vtb_strbuf_free(&names);
  return status;
}
