/* See rates.h. */
#include "runtime/train/rates.h"

#include <ctype.h>
#include <fnmatch.h>
#include <math.h>
#include <string.h>

/* ---- layers ---------------------------------------------------------------------------------- */

static bool is_number(const char *part, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (!isdigit((unsigned char)part[i])) return false;
  return n > 0;
}

static const char *name_of(const vtb_program *p, const vtb_optim *o, int i) {
  return p->tensors[vtb_optim_trained(o, i)].name;
}

/* Some parameter stands two names or more below the first n bytes of `name`: what is there
 * has parts of its own, as a block has and a product within it has not. */
static bool has_parts(const vtb_program *p, const vtb_optim *o, const char *name, size_t n) {
  for (int i = 0; i < vtb_optim_n_trained(o); i++) {
    const char *other = name_of(p, o, i);
    if (strncmp(other, name, n) == 0 && other[n] == '.' && strchr(other + n + 1, '.')) return true;
  }
  return false;
}

/* Bytes of the name up to its first number, and further numbers that follow it at once or behind
 * one word where they are of blocks ("blocks.0.1", "stages.1.blocks.0", of "blocks.0.mlp.0" the
 * block); 0: it has none. */
static size_t numbered_part(const vtb_program *p, const vtb_optim *o, const char *name) {
  size_t end = 0;
  int words = 0; /* since the last number */
  for (const char *part = name; *part;) {
    size_t n = strcspn(part, "."), to = (size_t)(part + n - name);
    bool number = is_number(part, n);
    if (end && !number && ++words > 1) break;
    if (number && end && !has_parts(p, o, name, to)) break;
    if (number) {
      end = to;
      words = 0;
    }
    part += n;
    if (*part) part++;
  }
  return end;
}

/* The number of the layer that the parameter is of, a new one if need be; 0: none. -1 without
 * memory. */
static int find_layer(vtb_map *seen, const vtb_program *p, const vtb_optim *o, int i) {
  const char *name = name_of(p, o, i);
  size_t end = numbered_part(p, o, name);
  if (!end) return 0;
  char *key = strndup(name, end);
  if (!key) return -1;
  int layer = (int)(uintptr_t)vtb_map_get(seen, key);
  if (!layer) {
    layer = (int)seen->n + 1;
    if (!vtb_map_try_set(seen, key, (void *)(uintptr_t)layer)) layer = -1;
  }
  free(key);
  return layer;
}

int vtb_rates_layers(const vtb_program *p, const vtb_optim *o, int *layer) {
  vtb_map seen = {0};
  int n = vtb_optim_n_trained(o);
  bool enough = true, begun = false;
  for (int i = 0; i < n && enough; i++) {
    layer[i] = find_layer(&seen, p, o, i);
    enough = layer[i] >= 0;
  }
  int layers = (int)seen.n;
  vtb_map_free(&seen);
  if (!enough) return -1;
  for (int i = 0; i < n; i++) {
    begun |= layer[i] > 0;
    if (begun && !layer[i]) layer[i] = layers + 1;
  }
  return layers ? layers + 2 : 0;
}

/* ---- rates ----------------------------------------------------------------------------------- */

static vtb_status decay_layers(const vtb_rates *r, const vtb_program *p, const vtb_optim *o,
                               double *factor, vtb_error *err) {
  int n = vtb_optim_n_trained(o);
  if (r->layer_decay == 0 || r->layer_decay == 1) return VTB_OK;
  if (!(r->layer_decay > 0) || !(r->layer_decay < 1))
    return vtb_fail(err, VTB_E_USAGE, "a layer decay is above 0 and at most 1");
  int *layer = calloc((size_t)n + 1, sizeof *layer);
  int layers = layer ? vtb_rates_layers(p, o, layer) : -1;
  for (int i = 0; i < n && layers > 0; i++) factor[i] = pow(r->layer_decay, layers - 1 - layer[i]);
  free(layer);
  if (layers < 0) return vtb_no_memory(err, "rates");
  return layers ? VTB_OK
                : vtb_fail(err, VTB_E_USAGE,
                           "no parameter has a number in its name (blocks.0.norm1.weight), which "
                           "a layer decay goes by: set rates by patterns of names");
}

static vtb_status take_rate(const vtb_rate *rate, const vtb_program *p, const vtb_optim *o,
                            double *factor, vtb_error *err) {
  bool matched = false;
  if (!(rate->factor >= 0) || isinf(rate->factor))
    return vtb_fail(err, VTB_E_USAGE, "the factor of '%s' must not be negative", rate->pattern);
  for (int i = 0; i < vtb_optim_n_trained(o); i++) {
    if (fnmatch(rate->pattern, name_of(p, o, i), 0) != 0) continue;
    factor[i] = rate->factor;
    matched = true;
  }
  return matched ? VTB_OK
                 : vtb_fail(err, VTB_E_USAGE, "no parameter that is trained is called '%s'",
                            rate->pattern);
}

vtb_status vtb_rates_apply(const vtb_rates *r, const vtb_program *p, vtb_optim *o, vtb_error *err) {
  int n = vtb_optim_n_trained(o);
  double *of_layer = calloc(2 * (size_t)n + 1, sizeof *of_layer);
  if (!of_layer) return vtb_no_memory(err, "rates");
  double *of_name = of_layer + n;
  for (int i = 0; i < 2 * n; i++) of_layer[i] = 1;
  vtb_status status = decay_layers(r, p, o, of_layer, err);
  for (int k = 0; k < r->n && status == VTB_OK; k++)
    status = take_rate(&r->at[k], p, o, of_name, err);
  for (int i = 0; i < n && status == VTB_OK; i++)
    vtb_optim_set_rate(o, i, of_layer[i] * of_name[i]);
  free(of_layer);
  return status;
}
