/* See measure.h. */
#include "runtime/train/measure.h"
#include "runtime/base/objective.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  const char *prefix;
  bool is_loss, lower;
} kinds[] = {{VTB_MEASURE_LOSS, true, true},
             {VTB_MEASURE_METRIC, false, false},
             {VTB_MEASURE_LOWER, false, true}};

static bool read_name(const vtb_tensor_info *t, vtb_measured *out) {
  for (size_t i = 0; t->io == VTB_IO_OUTPUT && i < sizeof kinds / sizeof *kinds; i++) {
    if (!vtb_starts_with(t->name, kinds[i].prefix)) continue;
    *out = (vtb_measured){.name = t->name + strlen(kinds[i].prefix),
                          .is_loss = kinds[i].is_loss,
                          .lower = kinds[i].lower,
                          .value = NAN};
    return true;
  }
  return false;
}

bool vtb_program_measures(const vtb_program *p) {
  vtb_measured m;
  for (int i = 0; i < p->n_tensors; i++)
    if (read_name(&p->tensors[i], &m)) return true;
  return false;
}

vtb_status vtb_measures_open(vtb_measures *m, const vtb_program *p, vtb_error *err) {
  *m = (vtb_measures){0};
  for (int i = 0; i < p->n_tensors; i++) {
    const vtb_tensor_info *t = &p->tensors[i];
    vtb_measured one;
    if (!read_name(t, &one)) continue;
    if (m->n == VTB_MOST_MEASURES)
      return vtb_fail(err, VTB_E_INPUT, "the model declares more than %d losses and metrics",
                      VTB_MOST_MEASURES);
    if (t->rank != 2 || t->dim[0] != 2 || t->is_int)
      return vtb_fail(err, VTB_E_INPUT, "%s is not a row of sums and one of divisors", t->name);
    m->of[m->n].tensor = i;
    m->of[m->n].k = t->dim[1];
    m->of[m->n].at = m->n_sums;
    m->named.at[m->n++] = one;
    m->n_sums += 2 * t->dim[1];
  }
  m->named.n = m->n;
  m->sums = calloc((size_t)m->n_sums + 1, sizeof *m->sums);
  return m->sums ? VTB_OK : vtb_no_memory(err, "losses and metrics");
}

void vtb_measures_free(vtb_measures *m) {
  free(m->sums);
  *m = (vtb_measures){0};
}

void vtb_measures_clear(vtb_measures *m) {
  if (m->sums) memset(m->sums, 0, (size_t)m->n_sums * sizeof *m->sums);
}

void vtb_measures_add(vtb_measures *m, void *const *args) {
  for (int i = 0; i < m->n; i++) {
    const float *rows = args[m->of[i].tensor];
    for (int64_t j = 0; j < 2 * m->of[i].k; j++) m->sums[m->of[i].at + j] += (double)rows[j];
  }
}

vtb_measured_list vtb_measures_values(const vtb_measures *m) {
  vtb_measured_list l = m->named;
  for (int i = 0; i < m->n; i++) {
    const double *above = m->sums + m->of[i].at, *below = above + m->of[i].k;
    double sum = 0;
    int64_t n = 0;
    for (int64_t k = 0; k < m->of[i].k; k++) {
      if (!(below[k] > 0)) continue;
      sum += above[k] / below[k];
      n++;
    }
    l.at[i].value = n ? sum / (double)n : NAN;
  }
  return l;
}

int vtb_measured_losses(const vtb_measured_list *l) {
  int n = 0;
  for (int i = 0; i < l->n; i++) n += l->at[i].is_loss;
  return n;
}

double vtb_measured_loss(const vtb_measured_list *l) {
  double sum = 0;
  for (int i = 0; i < l->n; i++)
    if (l->at[i].is_loss) sum += l->at[i].value;
  return sum;
}

int vtb_measured_main(const vtb_measured_list *l) {
  for (int i = 0; i < l->n; i++)
    if (!l->at[i].is_loss) return i;
  return -1;
}

double vtb_measured_score(const vtb_measured_list *l) {
  int i = vtb_measured_main(l);
  return i < 0 ? vtb_measured_loss(l) : l->at[i].value;
}

const char *vtb_measured_score_name(const vtb_measured_list *l) {
  int i = vtb_measured_main(l);
  return i < 0 ? "loss" : l->at[i].name;
}

bool vtb_measured_is_better(const vtb_measured_list *l, double value, double than) {
  int i = vtb_measured_main(l);
  if (isnan(value) || isnan(than)) return !isnan(value);
  return i < 0 || l->at[i].lower ? value < than : value > than;
}

void vtb_measures_save(const vtb_measures *m, vtb_weights *w) {
  for (int i = 0; i < m->n; i++) {
    char name[256];
    int64_t dim[2] = {2, m->of[i].k};
    snprintf(name, sizeof name, "sums/%s", m->named.at[i].name);
    vtb_weights_put(w, name, VTB_ELEM_F64, 2, dim, m->sums + m->of[i].at);
  }
}

vtb_status vtb_measures_load(vtb_measures *m, const vtb_weights *w, vtb_error *err) {
  for (int i = 0; i < m->n; i++) {
    char name[256];
    snprintf(name, sizeof name, "sums/%s", m->named.at[i].name);
    const vtb_weight *t = vtb_weights_find(w, name);
    if (!t || t->count != 2 * m->of[i].k)
      return vtb_fail(err, VTB_E_INPUT, "checkpoint: it has no sums of %s", m->named.at[i].name);
    vtb_weight_read_f64(t, m->sums + m->of[i].at);
  }
  return VTB_OK;
}
