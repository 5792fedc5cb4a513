/* Between format.c, which turns a text into items with their spacing, and format_layout.c, which
 * lays them out. */
#ifndef VTB_LANG_FORMAT_H
#define VTB_LANG_FORMAT_H

#include "runtime/base/base.h"

enum { VTB_FORMAT_WIDTH = 120 };

typedef enum vtb_item_kind {
  VTB_ITEM_TOKEN,
  VTB_ITEM_COMMA,
  VTB_ITEM_OPEN,  /* ( or [ */
  VTB_ITEM_BRACE, /* { */
  VTB_ITEM_CLOSE, /* ) ] } */
  VTB_ITEM_ELSE,
  VTB_ITEM_END, /* the line end that ends a statement; no text */
  VTB_ITEM_COMMENT
} vtb_item_kind;

typedef struct vtb_item {
  vtb_item_kind kind;
  const char *text;
  size_t n;
  size_t match;     /* of OPEN, BRACE: the index of its CLOSE */
  int lines_before; /* line ends in the source between this item and the one before */
  bool space;       /* before it, unless it begins a line */
  bool may_break;   /* a line may end after it */
  bool own_line;    /* of comments: nothing but blanks stands before it on its line */
  bool ends_line;   /* of comments: // or one that holds line ends */
} vtb_item;

typedef VTB_VEC(vtb_item) vtb_items;

void vtb__layout_items(const vtb_items *items, vtb_strbuf *out);

#endif
