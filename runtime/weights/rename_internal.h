/* Rules as they are read: what names.c makes and rename.c applies. */
#ifndef VTB_RENAME_INTERNAL_H
#define VTB_RENAME_INTERNAL_H

#include "runtime/weights/pattern.h"
#include "runtime/weights/rename.h"

/* One of n_from and n_to is 1. */
typedef struct vtb_name_rule {
  const char *from[VTB_RENAME_PARTS], *to[VTB_RENAME_PARTS];
  int n_from, n_to;
  int axes[VTB_WEIGHT_MAX_RANK], n_axes; /* 0: as they are */
  bool reshape;
  struct vtb_name_rule *next;
} vtb_name_rule;

struct vtb_name_set {
  const char *label, *file;
  vtb_name_rule *first, *last;
  int n_rules;
};

struct vtb_name_pattern {
  const char *text;
};

#endif
