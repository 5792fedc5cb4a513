/* Data sets of commands: options, and what is said about them. */
#include "frontend/cli/data/data.h"

#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

/* Large blocks are otherwise mapped and given back for every image, and a third of the time is the
 * system's: docs/results/data.md. */
void cli_data_keep_memory(void) {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
}

vtb_dataset_options cli_data_for(const cli_data_options *o) {
  return (vtb_dataset_options){.split = o->split,
                               .limit = o->limit,
                               .val_fraction = o->val_fraction,
                               .val_seed = (uint64_t)o->val_seed,
                               .skip_damaged = o->skip_damaged};
}

/* Says notes, of many lines the first ones. */
static void say_notes(const vtb_dataset *d) {
  enum { MOST = 8 };
  const char *at = vtb_dataset_notes(d);
  int lines = 0;
  for (const char *end; (end = strchr(at, '\n')) != NULL; at = end + 1)
    if (lines++ < MOST) cli_say("%.*s\n", (int)(end - at), at);
  if (lines > MOST) cli_say("... and %d lines more: vertebra data shows all\n", lines - MOST);
}

/* Classes that training cannot learn: all samples are of one, or some have no sample. */
static void say_classes(const vtb_dataset *d) {
  enum { MOST = 5 };
  int n = vtb_dataset_has_labels(d) ? vtb_dataset_classes(d) : 0, empty = 0;
  int64_t *count = vtb_xcalloc((size_t)n + 1, sizeof *count);
  for (int64_t i = 0; n && i < vtb_dataset_count(d); i++) {
    int label = vtb_dataset_label(d, i);
    if (label >= 0 && label < n) count[label]++;
  }
  vtb_strbuf names = {0};
  for (int k = 0; k < n; k++) {
    if (count[k]) continue;
    if (empty++ < MOST)
      vtb_strbuf_printf(&names, "%s%s", empty > 1 ? ", " : "", vtb_dataset_class_name(d, k));
  }
  if (n == 1)
    cli_say("%s has one class, %s: every answer is right\n", vtb_dataset_name(d),
            vtb_dataset_class_name(d, 0));
  else if (empty)
    cli_say("%s: no training sample for %d of %d classes (%s%s)%s\n", vtb_dataset_name(d), empty, n,
            names.at, empty > MOST ? ", ..." : "",
            vtb_dataset_named(d) ? "" : "; numbers of classes begin with 0");
  vtb_strbuf_free(&names);
  vtb_free(count);
}

vtb_status cli_data_open_training(const cli_data_options *o, vtb_dataset **train,
                                  vtb_dataset **val) {
  vtb_error err = {0};
  vtb_dataset_options with = cli_data_for(o);
  *train = *val = NULL;
  cli_data_keep_memory();
  vtb_status status = vtb_dataset_open_pair(o->path, &with, o->split, train, val, &err);
  if (status != VTB_OK) return cli_error(&err);
  say_notes(*train);
  say_classes(*train);
  if (*val)
    say_notes(*val);
  else
    cli_say("%s has no val split and none is held out: nothing is evaluated\n",
            vtb_dataset_name(*train));
  return VTB_OK;
}

vtb_status cli_data_open_judge(const cli_data_options *o, const char *trained_on,
                               vtb_dataset **out) {
  vtb_error err = {0};
  vtb_dataset_options with = cli_data_for(o);
  cli_data_keep_memory();
  vtb_status status = o->split ? vtb_dataset_open(o->path, &with, out, &err)
                               : vtb_dataset_open_judge(o->path, &with, trained_on, out, &err);
  if (status != VTB_OK) return cli_error(&err);
  say_notes(*out);
  return VTB_OK;
}

/* "0", "1", "2": no names at all. */
static bool are_numbers(char *const *names, int n) {
  char number[16];
  for (int i = 0; i < n; i++) {
    snprintf(number, sizeof number, "%d", i);
    if (strcmp(names[i], number) != 0) return false;
  }
  return true;
}

vtb_status cli_data_match_classes(vtb_dataset *d, const cli_inference *inf, int model_classes,
                                  vtb_error *err) {
  if (!vtb_dataset_has_labels(d)) return VTB_OK;
  int n, have = vtb_dataset_classes(d);
  char **names = cli_weights_classes(inf, &n);
  bool moved = false, unnamed = !names || are_numbers(names, n);
  vtb_status status = VTB_OK;
  vtb_error unknown = {0};
  bool by_name = names && vtb_dataset_named(d) && (n <= model_classes || !model_classes);
  if (by_name) status = vtb_dataset_relabel(d, names, n, &moved, &unknown);
  bool foreign = inf->weights && vtb_weights_meta(inf->weights, "hf.config") && have == n;
  if (status == VTB_E_INPUT && (unnamed || foreign)) {
    if (foreign)
      cli_say("config.json beside the weights has other names for the %d classes than the data: "
              "they are taken in their order\n",
              n);
    status = VTB_OK;
    by_name = false;
  }
  if (status != VTB_OK)
    vtb_fail(err, status, "%s", unknown.text);
  else if (moved)
    cli_say("the data's %d classes are matched with the model's %d by name\n", have, n);
  else if (!by_name && model_classes && (have < model_classes || unnamed == vtb_dataset_named(d)))
    cli_say("%s no classes: the data's %d are taken for the model's first of %d, in their order\n",
            unnamed ? "the weights name" : "the data name", have, model_classes);
  for (int i = 0; i < n; i++) vtb_free(names[i]);
  vtb_free(names);
  return status;
}

void cli_data_say_damaged(const vtb_dataset *d) {
  enum { MOST = 10 };
  int64_t n = d ? vtb_dataset_damaged(d) : 0;
  if (!n) return;
  cli_say("%lld damaged sample%s of %s skipped:\n", (long long)n, n > 1 ? "s" : "",
          vtb_dataset_name(d));
  for (int64_t k = 0; k < n && k < MOST; k++) cli_say("  %s\n", vtb_dataset_damage(d, k));
  if (n > MOST) cli_say("  ... and %lld more\n", (long long)(n - MOST));
}
