/* The source tree in memory, for rules about it. Ownership: a tree owns its files; tree_free(). */
#ifndef VTB_HOUSE_TREE_H
#define VTB_HOUSE_TREE_H

#include "runtime/base/base.h"

typedef struct house_file {
  char *path; /* from the top of the tree */
  char *text;
  char
      *code; /* the text, comments and the insides of literals blanked; lines stay where they are */
} house_file;

typedef struct house_tree {
  VTB_VEC(house_file) files; /* .c and .h */
  VTB_VEC(house_file)
  texts; /* of the rooms: tables, grammars, kernels, Python, the page */
} house_tree;

/* The files of the rooms and of the tests; generated ones are not among them. */
void tree_read(house_tree *t, const char *top);
/* For planted examples; the text is copied. */
void tree_add(house_tree *t, const char *path, const char *text);
void tree_free(house_tree *t);
const house_file *tree_find(const house_tree *t, const char *path);

/* The next line of *at, without its end, as a copy in `line`; false at the end of the text. */
bool next_line(const char **at, char *line, size_t size);
/* What a line includes with quotes, in `path`; false if it does not. */
bool included(const char *line, char *path, size_t size);

/* Complaints: `file:line: what is wrong; what to do`. */
typedef struct complaints {
  vtb_strbuf text;
  int n;
} complaints;
void complain(complaints *c, const char *path, int line, const char *fmt, ...) VTB_PRINTF(4, 5);
/* Prints them to stderr and frees them; how many there were. */
int complaints_end(complaints *c);

#endif
