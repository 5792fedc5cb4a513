/* See train_layers.h. */
#include "frontend/cli/train/train_layers.h"

#include <fnmatch.h>
#include <math.h>
#include <string.h>

static vtb_status read_scale(train_layers *l, const char *text, vtb_error *err) {
  const char *eq = strrchr(text, '=');
  char *end = NULL;
  double factor = eq ? strtod(eq + 1, &end) : 0;
  if (!eq || eq == text || end == eq + 1 || *end || !(factor >= 0) || isinf(factor))
    return vtb_fail(err, VTB_E_USAGE,
                    "--lr-scale is PATTERN=FACTOR, as in 'blocks.0.*=0.1', not '%s'", text);
  vtb_rate rate = {vtb_arena_strndup(&l->arena, text, (size_t)(eq - text)), factor};
  vtb_vec_push(&l->rates, rate);
  return VTB_OK;
}

vtb_status train_layers_plan(train_layers *l, cli_model_options *m, vtb_train_config *config,
                             vtb_error *err) {
  vtb_status status = VTB_OK;
  vtb_arena_init(&l->arena);
  l->open = true;
  for (size_t i = 0; i < l->scales.n && status == VTB_OK; i++)
    status = read_scale(l, l->scales.at[i], err);
  m->compile.freeze = l->freeze.at;
  m->compile.n_freeze = l->freeze.n;
  config->rates = (vtb_rates){l->rates.at, (int)l->rates.n, l->decay};
  return status;
}

static bool matches(const train_layers *l, const char *name) {
  for (size_t i = 0; i < l->freeze.n; i++)
    if (fnmatch(l->freeze.at[i], name, 0) == 0) return true;
  return false;
}

static vtb_status check_pattern(const vtb_func *f, const char *pattern, vtb_error *err) {
  const char *nearest = NULL;
  for (int a = 0; a < f->n_args; a++) {
    const vtb_arg_info *info = &f->arg_info[a];
    if (info->frozen && fnmatch(pattern, info->official, 0) == 0) return VTB_OK;
    if (!nearest && info->role == VTB_ROLE_PARAM) nearest = info->official;
  }
  return vtb_fail(err, VTB_E_USAGE,
                  "--freeze: no parameter is called '%s'; they have names such as %s (vertebra "
                  "check --params)",
                  pattern, nearest ? nearest : "(none is left)");
}

vtb_status train_layers_check(const train_layers *l, const vtb_func *f, bool quiet,
                              vtb_error *err) {
  int64_t numbers = 0, all = 0;
  int n = 0;
  for (size_t i = 0; i < l->freeze.n; i++) VTB_TRY(check_pattern(f, l->freeze.at[i], err));
  for (int a = 0; a < f->n_args; a++) {
    const vtb_arg_info *info = &f->arg_info[a];
    if (info->role != VTB_ROLE_PARAM && !info->frozen) continue;
    int64_t count = vtb_type_count(&f->args[a]->type);
    bool frozen = info->frozen && matches(l, info->official);
    all += count;
    numbers += frozen ? count : 0;
    n += frozen;
  }
  char some[32], total[32];
  if (n && !quiet)
    fprintf(stderr, "frozen: %d tensors, %s of %s parameters\n", n,
            cli_grouped(numbers, some, sizeof some), cli_grouped(all, total, sizeof total));
  return VTB_OK;
}

void train_layers_free(train_layers *l) {
  vtb_vec_free(&l->freeze);
  vtb_vec_free(&l->scales);
  vtb_vec_free(&l->rates);
  if (l->open) vtb_arena_free(&l->arena);
  l->open = false;
}
