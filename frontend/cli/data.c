#include "frontend/cli/data.h"

#include <string.h>

vtb_dataset_options cli_data_for(const cli_data_options *o) {
  return (vtb_dataset_options){.split = o->split,
                               .limit = o->limit,
                               .val_fraction = o->val_fraction,
                               .val_seed = (uint64_t)o->val_seed,
                               .skip_damaged = o->skip_damaged};
}

/* Of many lines the first ones. */
static void say_notes(const vtb_dataset *d) {
  enum { MOST = 8 };
  const char *at = vtb_dataset_notes(d);
  int lines = 0;
  for (const char *end; (end = strchr(at, '\n')) != NULL; at = end + 1)
    if (lines++ < MOST) fprintf(stderr, "%.*s\n", (int)(end - at), at);
  if (lines > MOST) fprintf(stderr, "... and %d lines more\n", lines - MOST);
}

vtb_status cli_data_open_training(const cli_data_options *o, vtb_dataset **train,
                                  vtb_dataset **val) {
  vtb_error err = {0};
  vtb_dataset_options with = cli_data_for(o);
  *train = *val = NULL;
  vtb_status status = vtb_dataset_open_pair(o->path, &with, o->split, train, val, &err);
  if (status != VTB_OK) return cli_error(&err);
  say_notes(*train);
  if (*val)
    say_notes(*val);
  else
    fprintf(stderr, "%s has no val split and none is held out: nothing is evaluated\n",
            vtb_dataset_name(*train));
  return VTB_OK;
}

vtb_status cli_data_open_judge(const cli_data_options *o, const char *trained_on,
                               vtb_dataset **out) {
  vtb_error err = {0};
  vtb_dataset_options with = cli_data_for(o);
  vtb_status status = o->split ? vtb_dataset_open(o->path, &with, out, &err)
                               : vtb_dataset_open_judge(o->path, &with, trained_on, out, &err);
  if (status != VTB_OK) return cli_error(&err);
  say_notes(*out);
  return VTB_OK;
}

void cli_data_say_damaged(const vtb_dataset *d) {
  enum { MOST = 10 };
  int64_t n = d ? vtb_dataset_damaged(d) : 0;
  if (!n) return;
  fprintf(stderr, "%lld damaged sample%s of %s skipped:\n", (long long)n, n > 1 ? "s" : "",
          vtb_dataset_name(d));
  for (int64_t k = 0; k < n && k < MOST; k++) fprintf(stderr, "  %s\n", vtb_dataset_damage(d, k));
  if (n > MOST) fprintf(stderr, "  ... and %lld more\n", (long long)(n - MOST));
}
