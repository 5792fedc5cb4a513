/* Canonical layout, second half: items to lines.
 *
 * A statement goes on one line if it fits in VTB_FORMAT_WIDTH and may (`flat`). Otherwise blocks
 * open over several lines, lists with a trailing comma or comments get one element a line, other
 * lists are filled and aligned with their bracket, and long expressions break after operators.
 * Comments behind code on adjacent lines are aligned.
 */
#include "frontend/lang/format.h"

#include <string.h>

typedef struct line {
  char *code;    /* with indentation; "" for an empty line */
  char *comment; /* behind the code, or NULL */
} line;

typedef struct layout {
  const vtb_item *at;
  VTB_VEC(line) lines;
  vtb_strbuf cur; /* the line being written */
  bool open;      /* cur has something */
} layout;

static void statements(layout *l, size_t i, size_t j, int indent);

/* ---- lines ----------------------------------------------------------------------------------- */

static void flush_with(layout *l, const vtb_item *comment) {
  if (!l->open) return;
  line done = {vtb_xstrdup(l->cur.at ? l->cur.at : ""), NULL};
  if (comment) {
    done.comment = vtb_xmalloc(comment->n + 1);
    memcpy(done.comment, comment->text, comment->n);
    done.comment[comment->n] = '\0';
  }
  vtb_vec_push(&l->lines, done);
  l->cur.n = 0;
  l->open = false;
}

static void flush(layout *l) { flush_with(l, NULL); }

static void empty_line(layout *l) {
  flush(l);
  line e = {vtb_xstrdup(""), NULL};
  vtb_vec_push(&l->lines, e);
}

/* Appends an item; one that begins a line is indented by `column`. */
static void put_item(layout *l, const vtb_item *it, int column) {
  if (!l->open) {
    l->cur.n = 0;
    for (int i = 0; i < column; i++) vtb_strbuf_putc(&l->cur, ' ');
    l->open = true;
  } else if (it->space) {
    vtb_strbuf_putc(&l->cur, ' ');
  }
  vtb_strbuf_write(&l->cur, it->text, it->n);
}

/* ---- measuring ------------------------------------------------------------------------------- */

static bool is_magic_comma(const layout *l, size_t i) {
  return l->at[i].kind == VTB_ITEM_COMMA && l->at[i + 1].kind == VTB_ITEM_CLOSE;
}

/* True if items [i, j) may stand on one line. */
static bool may_be_flat(const layout *l, size_t i, size_t j) {
  for (size_t k = i; k < j; k++) {
    const vtb_item *it = &l->at[k];
    if (it->kind == VTB_ITEM_END ||
        (it->kind == VTB_ITEM_COMMENT && (it->ends_line || it->own_line)))
      return false;
    if (k + 1 < j && is_magic_comma(l, k)) return false;
    if (it->kind == VTB_ITEM_ELSE && it->lines_before) return false;
    if (it->kind == VTB_ITEM_BRACE)
      for (size_t m = k + 1; m <= it->match; m++)
        if (l->at[m].lines_before) return false;
  }
  return true;
}

static int width(const layout *l, size_t i, size_t j) {
  int n = 0;
  for (size_t k = i; k < j; k++) n += (int)l->at[k].n + (l->at[k].space && k > i);
  return n;
}

static size_t past(const layout *l, size_t i) {
  vtb_item_kind kind = l->at[i].kind;
  return (kind == VTB_ITEM_OPEN || kind == VTB_ITEM_BRACE ? l->at[i].match : i) + 1;
}

/* The items that stick to those ending before i: up to the next place where a line may end,
 * exclusive of a block's inside. */
static int tail_width(const layout *l, size_t i, size_t j) {
  int n = 0;
  for (; i < j; i++) {
    const vtb_item *it = &l->at[i];
    if (it->kind == VTB_ITEM_COMMENT) break;
    n += (int)it->n + it->space;
    if (it->may_break || it->kind == VTB_ITEM_BRACE || it->kind == VTB_ITEM_OPEN) break;
  }
  return n;
}

static int column(const layout *l) { return l->open ? (int)l->cur.n : 0; }

/* ---- ranges of items ------------------------------------------------------------------------- */

/* Where items go: the statement's indentation, where wrapped lines begin, and whether the list has
 * commas. */
typedef struct margin {
  int indent, wrap;
  bool commas;
  size_t end; /* of the whole statement */
} margin;

static void range(layout *l, size_t i, size_t j, margin m);

static bool has_commas(const layout *l, size_t i, size_t j) {
  for (; i < j; i = past(l, i))
    if (l->at[i].kind == VTB_ITEM_COMMA) return true;
  return false;
}

static bool one_per_line(const layout *l, size_t open) {
  size_t close = l->at[open].match;
  for (size_t i = open + 1; i < close; i = past(l, i)) {
    if (is_magic_comma(l, i)) return true;
    if (l->at[i].kind == VTB_ITEM_COMMENT && (l->at[i].ends_line || l->at[i].own_line)) return true;
  }
  return false;
}

static void comment(layout *l, const vtb_item *it, int indent) {
  if (it->own_line || !l->open) {
    flush(l);
    put_item(l, it, indent);
    flush(l);
  } else if (it->ends_line) {
    flush_with(l, it);
  } else {
    put_item(l, it, indent);
  }
}

static void list_one_per_line(layout *l, size_t open, margin m) {
  size_t close = l->at[open].match;
  flush(l);
  margin inner = {m.indent + 2, m.indent + 6, false, m.end};
  for (size_t i = open + 1; i < close;) {
    if (l->at[i].kind == VTB_ITEM_COMMENT) {
      comment(l, &l->at[i], inner.indent);
      i++;
      continue;
    }
    flush(l);
    size_t e = i;
    while (e < close && l->at[e].kind != VTB_ITEM_COMMA) e = past(l, e);
    if (e < close) e++;
    while (e > i + 1 && l->at[e - 1].kind == VTB_ITEM_COMMENT)
      e--; /* comments are placed by the loop */
    range(l, i, e, inner);
    i = e;
  }
  flush(l);
  put_item(l, &l->at[close], m.indent);
}

static void list(layout *l, size_t open, size_t j, margin m) {
  size_t close = l->at[open].match;
  bool flat = may_be_flat(l, open, close + 1);
  /* The bracket itself is written. */
  if (flat &&
      column(l) + width(l, open + 1, close + 1) + tail_width(l, close + 1, j) <= VTB_FORMAT_WIDTH) {
    for (size_t k = open + 1; k <= close; k++) put_item(l, &l->at[k], m.wrap);
  } else if (one_per_line(l, open)) {
    list_one_per_line(l, open, m);
  } else {
    int wrap = column(l) <= VTB_FORMAT_WIDTH / 2 ? column(l) : m.indent + 4;
    range(l, open + 1, close, (margin){m.indent, wrap, has_commas(l, open + 1, close), m.end});
    put_item(l, &l->at[close], wrap);
  }
}

/* Between the braces are ends of lines at most. */
static bool is_empty(const layout *l, size_t open, size_t close) {
  size_t i = open + 1;
  while (i < close && l->at[i].kind == VTB_ITEM_END) i++;
  return i == close;
}

/* A block whose brace is not yet written. */
static void block(layout *l, size_t open, size_t j, margin m) {
  size_t close = l->at[open].match;
  if (is_empty(l, open, close)) {
    put_item(l, &l->at[open], m.indent);
    vtb_item tight = l->at[close];
    tight.space = false;
    put_item(l, &tight, m.indent);
    return;
  }
  int wide = column(l) + 1 + width(l, open, close + 1) + tail_width(l, close + 1, j);
  put_item(l, &l->at[open], m.indent);
  if (may_be_flat(l, open, close + 1) && wide <= VTB_FORMAT_WIDTH) {
    for (size_t k = open + 1; k <= close; k++) put_item(l, &l->at[k], m.indent);
    return;
  }
  size_t i = open + 1;
  for (; i < close && l->at[i].kind == VTB_ITEM_COMMENT && !l->at[i].own_line; i++)
    comment(l, &l->at[i], m.indent + 2);
  flush(l);
  statements(l, i, close, m.indent + 2);
  put_item(l, &l->at[close], m.indent);
}

/* True if the line ends before item k, which follows an item that allows it. */
static bool wrap_before(const layout *l, size_t i, size_t k, size_t j, margin m) {
  bool after_comma = l->at[k - 1].kind == VTB_ITEM_COMMA;
  size_t e = k, head = k;
  bool met = false;
  for (; e < j; e = past(l, e)) {
    if (!met) head = e;
    met = met || l->at[e].kind == VTB_ITEM_OPEN || l->at[e].kind == VTB_ITEM_BRACE;
    if (l->at[e].kind == VTB_ITEM_COMMENT || l->at[e].kind == VTB_ITEM_BRACE) break;
    if (l->at[e].kind == VTB_ITEM_COMMA || (l->at[e].may_break && !(m.commas && after_comma))) {
      e++;
      break;
    }
  }
  if (m.commas &&
      !after_comma) { /* inside an element: only if the element has no line of its own */
    size_t first = k, last = k;
    while (first > i && l->at[first - 1].kind != VTB_ITEM_COMMA) first--;
    while (last < j && l->at[last].kind != VTB_ITEM_COMMA) last = past(l, last);
    if (m.wrap + width(l, first, last) <= VTB_FORMAT_WIDTH) return false;
  }
  int segment = 1 + width(l, k, e) + (e == j ? 1 : 0);
  if (column(l) + segment <= VTB_FORMAT_WIDTH) return false;
  if (m.wrap + segment <= VTB_FORMAT_WIDTH) return true;
  if (column(l) > m.wrap + (VTB_FORMAT_WIDTH - m.wrap) / 2)
    return true; /* too long for either, but shorter there */
  return column(l) + 1 + width(l, k, head + 1) > VTB_FORMAT_WIDTH && column(l) > m.wrap;
}

static void range(layout *l, size_t i, size_t j, margin m) {
  for (size_t k = i; k < j; k++) {
    const vtb_item *it = &l->at[k];
    bool after_block = k > i && l->at[k - 1].kind == VTB_ITEM_CLOSE && *l->at[k - 1].text == '}';
    if (it->kind == VTB_ITEM_COMMENT) {
      comment(l, it, after_block ? m.indent : m.wrap);
      continue;
    }
    if (it->kind == VTB_ITEM_ELSE && it->lines_before && l->open && strchr(l->cur.at, '{'))
      flush(l);
    if (k > i && l->at[k - 1].may_break && l->open && wrap_before(l, i, k, j, m)) flush(l);
    int indent = k == i || it->kind == VTB_ITEM_ELSE ? m.indent : m.wrap;
    if (k == i && m.commas) indent = m.wrap;
    if (it->kind == VTB_ITEM_BRACE) {
      block(l, k, j, m);
      k = it->match;
      continue;
    }
    put_item(l, it, indent);
    if (it->kind == VTB_ITEM_OPEN) {
      list(l, k, j, m);
      k = it->match;
    }
  }
}

/* ---- statements ------------------------------------------------------------------------------ */

static size_t statement_end(const layout *l, size_t i, size_t j) {
  while (i < j && l->at[i].kind != VTB_ITEM_END) i = past(l, i);
  return i < j ? i : j;
}

static void statement(layout *l, size_t i, size_t e, int indent) {
  size_t last = e;
  while (last > i && l->at[last - 1].kind == VTB_ITEM_COMMENT && !l->at[last - 1].own_line) last--;
  if (may_be_flat(l, i, last) && indent + width(l, i, last) <= VTB_FORMAT_WIDTH)
    for (size_t k = i; k < last; k++) put_item(l, &l->at[k], indent);
  else
    range(l, i, last, (margin){indent, indent + 4, false, e});
  for (size_t k = last; k < e; k++) comment(l, &l->at[k], indent);
  flush(l);
}

static void statements(layout *l, size_t i, size_t j, int indent) {
  bool first = true, separate = false;
  while (i < j) {
    const vtb_item *it = &l->at[i];
    if (it->kind == VTB_ITEM_END) {
      i++;
      continue;
    }
    if (!first && (separate || it->lines_before > 1)) empty_line(l);
    first = separate = false;
    if (it->kind == VTB_ITEM_COMMENT) {
      comment(l, it, indent);
      flush(l);
      i++;
      continue;
    }
    size_t e = statement_end(l, i, j), cut = e;
    while (cut > i && l->at[cut - 1].kind == VTB_ITEM_COMMENT && l->at[cut - 1].own_line) cut--;
    size_t before = l->lines.n;
    statement(l, i, cut, indent);
    /* declarations of several lines stand apart */
    separate = indent == 0 && l->lines.n > before + 1;
    i = cut;
  }
}

/* ---- output ---------------------------------------------------------------------------------- */

static bool has_trailing(const line *l) {
  return l->comment && *l->code && !strchr(l->comment, '\n');
}

static void write_lines(const layout *l, vtb_strbuf *out) {
  for (size_t i = 0; i < l->lines.n;) {
    size_t e = i, widest = 0;
    for (; e < l->lines.n && has_trailing(&l->lines.at[e]); e++)
      if (strlen(l->lines.at[e].code) > widest) widest = strlen(l->lines.at[e].code);
    for (; i < e; i++)
      vtb_strbuf_printf(out, "%-*s  %s\n", (int)widest, l->lines.at[i].code,
                        l->lines.at[i].comment);
    if (i < l->lines.n) {
      const line *plain = &l->lines.at[i++];
      vtb_strbuf_printf(out, "%s%s%s\n", plain->code, plain->comment ? "  " : "",
                        plain->comment ? plain->comment : "");
    }
  }
}

void vtb__layout_items(const vtb_items *items, vtb_strbuf *out) {
  layout l = {.at = items->at};
  vtb_strbuf_write(out, "", 0);
  statements(&l, 0, items->n, 0);
  flush(&l);
  write_lines(&l, out);
  for (size_t i = 0; i < l.lines.n; i++) {
    vtb_free(l.lines.at[i].code);
    vtb_free(l.lines.at[i].comment);
  }
  vtb_vec_free(&l.lines);
  vtb_strbuf_free(&l.cur);
}
