/* Weights of a file for the tensors of a model: which is which, and what is left over on either
 * side.
 *
 * The file's names are tried as they are, under each set of renaming rules, and without each prefix
 * that many of them have; the reading that fits most tensors is taken. A report says what became of
 * every tensor; what is missing, left over or of another shape is an error unless the options say
 * otherwise, and so is a file that gives nothing at all.
 *
 * Ownership: a report owns its texts; it is freed after failures too.
 */
#ifndef VTB_FIT_H
#define VTB_FIT_H

#include "runtime/weights/rename.h"

typedef struct vtb_fit_options {
  const char *path;       /* of the file, for messages */
  const vtb_names *names; /* NULL: no rules */
  const char *hint;       /* what may help where it does not fit; NULL */
  bool allow_missing;     /* tensors that the file lacks keep the values of their buffers */
  bool allow_unused;      /* tensors that the model lacks are no error */
  /* Number of classes of the model, 0: not known. Tensors that differ from the file's in that axis
   * alone are those of a classifier for others. With new_head they, or such that the file lacks,
   * keep the values of their buffers. */
  int64_t classes;
  bool new_head;
  /* Size of the model's image, 0: none. With it tables of positions of another grid are resized:
   * bicubic (a = -0.75, half-pixel centres, clamped), the first rows of class tokens kept. */
  int height, width;
  int file_height, file_width; /* of the image that the file was made for; 0: a square */
} vtb_fit_options;

typedef VTB_VEC(const char *) vtb_fit_list;
typedef struct vtb_fit_report {
  vtb_arena arena;
  int n_wanted, n_loaded;     /* tensors of the model; loaded: resized ones too */
  int n_in_file;              /* tensors of the file */
  const char *names, *prefix; /* whose names they are (NULL: the model's own); "" without prefix */
  vtb_fit_list missing, unused, ignored; /* names */
  vtb_fit_list new_head;                 /* names of tensors of another number of classes */
  vtb_fit_list shapes;  /* "pos_embed is [1, 577, 192], the model's [1, 197, 192]" */
  vtb_fit_list resized; /* "pos_embed from 24x24 to 14x14" */
  int64_t file_classes; /* of a classifier for another number of classes; else 0 */
} vtb_fit_report;
void vtb_fit_report_free(vtb_fit_report *r);

/* Fills buffers[i] of every PARAM and BUFFER among the n tensors; NULL: not wanted; buffers itself
 * NULL: only the report is made. */
VTB_MUST_USE vtb_status vtb_fit(const vtb_tensor_info *tensors, int n, const vtb_weights *w,
                                const vtb_fit_options *o, void *const *buffers, vtb_fit_report *r,
                                vtb_error *err);
/* One line: "150 of 152 tensors, timm's names; new: head.weight, head.bias". */
void vtb_fit_summary(const vtb_fit_report *r, vtb_strbuf *out);

/* A grid of `from` cells into one of `to`, each of `channels` numbers. */
typedef struct vtb_table_grid {
  int64_t height, width;
} vtb_table_grid;
void vtb_resize_table(const float *in, vtb_table_grid from, float *out, vtb_table_grid to,
                      int64_t channels);

#endif
