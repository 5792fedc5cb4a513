/* Fusions that a plan of launches may have or not: each saves bytes and launches, and makes another
 * kernel longer. Which of them a module gets on a GPU is decided by what all its launches take
 * together (gpu.h), not by shapes alone.
 *
 *   price(declined 0)              0.880 ms, formed: fuse_products, fuse_mixer_grad
 *   price(declined fuse_products)  0.902 ms: it stays
 *   price(declined fuse_mixer_grad)  0.841 ms: it is left out
 *
 * One after the other, in the order of the table; what was left out stays so. A fusion that saves
 * or costs less than VTB_CHOICE_MARGIN stays, since it moves fewer bytes. So the plan is never
 * slower, by the estimate, than the one with all fusions. One that formed nothing is not asked
 * about.
 */
#ifndef VTB_CHOICE_H
#define VTB_CHOICE_H

#include "runtime/base/base.h"

/* Passes by the order in which they are asked about; bit i of a set is number i. */
enum { VTB_N_CHOICES = 9 };
extern const char *const vtb_choice_names[VTB_N_CHOICES];
int vtb_choice_find(const char *pass); /* -1: it has no choice */

#define VTB_CHOICE_MARGIN 0.01

typedef struct vtb_choice {
  int pass;             /* number of its name */
  bool fused;           /* it stays */
  double with, without; /* seconds of a run, beside the decisions before */
} vtb_choice;

typedef struct vtb_choices {
  vtb_choice at[VTB_N_CHOICES];
  int n;
  unsigned declined; /* a set: what the module is made without */
  bool asked;        /* nothing was decided: vtb_choices_parse() */
} vtb_choices;

/* Seconds of a run of the plan that is made without the declined; *formed: the choices whose passes
 * changed something on the way. A failure ends the choosing. */
typedef vtb_status (*vtb_choice_price)(void *user, unsigned declined, unsigned *formed,
                                       double *seconds, vtb_error *err);
VTB_MUST_USE vtb_status vtb_choose(vtb_choice_price price, void *user, vtb_choices *out,
                                   vtb_error *err);

/* "all": every fusion that the rules allow; "-fuse_norms,-fuse_bias": those but these. VTB_E_USAGE
 * with the names there are. */
VTB_MUST_USE vtb_status vtb_choices_parse(const char *text, vtb_choices *out, vtb_error *err);

/* A line a decision, of at most 80 columns. machine: whose seconds they are. */
void vtb_choices_print(const vtb_choices *c, const char *machine, vtb_strbuf *out);

#endif
