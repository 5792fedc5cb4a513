/* Initialisers: a table of names and argument counts, one function an entry. */
#include "runtime/artefact/init.h"

#include "runtime/base/random.h"
#include "runtime/launch/team.h"
#include "runtime/launch/threads.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Inverse of the normal distribution function by bisection-free rational start and two Newton steps
 * on erfc: monotone in u, so one uniform number gives one normal number and truncation is an
 * interval of u. */
static double normal_cdf(double x) { return 0.5 * erfc(-x * 0.70710678118654752440); }

static double normal_quantile(double u) {
  if (u <= 0) return -HUGE_VAL;
  if (u >= 1) return HUGE_VAL;
  double tail = u < 0.5 ? u : 1 - u, t = sqrt(-2 * log(tail));
  /* Asymptotic series of the tail gives about three digits; Newton on log p converges fast from
   * there. */
  double x = t - (2.30753 + 0.27061 * t) / (1 + t * (0.99229 + t * 0.04481));
  for (int i = 0; i < 3; i++) {
    double p = normal_cdf(-x), density = exp(-0.5 * x * x) * 0.39894228040143267794;
    if (density == 0) break;
    double d = (p - tail) / density;
    x += d / (1 - 0.5 * x * d); /* Halley: x is its own second derivative ratio */
  }
  return u < 0.5 ? -x : x;
}

/* ---- the table ------------------------------------------------------------------------------- */

enum { MAX_ARGS = 3 };
typedef struct init_job {
  double arg[MAX_ARGS];
  int n_args;
  uint64_t key;
  int rank;
  const int64_t *dim;
  int64_t count;
  float *out;
} init_job;

static void fill_constant(const init_job *j, double c) {
  for (int64_t i = 0; i < j->count; i++) j->out[i] = (float)c;
}

static void fill_uniform(const init_job *j, double a, double b) {
  for (int64_t i = 0; i < j->count; i++)
    j->out[i] = (float)(a + (b - a) * vtb_random_unit(j->key, (uint64_t)i));
}

typedef struct normal_fill {
  const init_job *j;
  double mean, std, a, b, lo, hi;
} normal_fill;

static void fill_normals(void *closure, int64_t begin, int64_t end) {
  const normal_fill *f = closure;
  for (int64_t i = begin; i < end; i++) {
    /* Half a step off the grid, so that neither end is hit. */
    double unit = vtb_random_unit(f->j->key, (uint64_t)i) + 0x1p-54;
    double v =
        f->mean + (f->std > 0 ? f->std * normal_quantile(f->lo + (f->hi - f->lo) * unit) : 0);
    f->j->out[i] = (float)(v < f->a ? f->a : v > f->b ? f->b : v);
  }
}

static void begin_helper(void *user, int number) { (void)user, (void)number; }

/* An element is a function of its number alone: threads share large tensors. */
static void fill_normal(const init_job *j, double mean, double std, double a, double b) {
  enum { GRAIN = 1 << 15 };
  normal_fill f = {j, mean, std, a, b, 0, 1};
  if (std > 0) f.lo = normal_cdf((a - mean) / std), f.hi = normal_cdf((b - mean) / std);
  int64_t pieces = j->count / GRAIN, most = vtb_default_threads();
  vtb_team *team = pieces > 1 && most > 1
                       ? vtb_team_new((int)(pieces < most ? pieces : most), begin_helper, NULL)
                       : NULL;
  if (team)
    vtb_team_parallel(team, fill_normals, &f, j->count, GRAIN);
  else
    fill_normals(&f, 0, j->count);
  vtb_team_free(team);
}

static double fan_in(const init_job *j) {
  double n = 1;
  for (int i = 1; i < j->rank; i++) n *= (double)j->dim[i];
  return j->rank > 1 ? n : j->rank == 1 ? (double)j->dim[0] : 1;
}

static double fan_out(const init_job *j) {
  double n = j->rank ? (double)j->dim[0] : 1;
  for (int i = 2; i < j->rank; i++) n *= (double)j->dim[i];
  return n;
}

static double gain(const init_job *j) { return j->n_args ? j->arg[0] : 1; }
static double xavier_fans(const init_job *j) {
  return fan_in(j) + (j->rank > 1 ? (double)j->dim[0] : 1);
}

static void init_zeros(const init_job *j) { fill_constant(j, 0); }
static void init_ones(const init_job *j) { fill_constant(j, 1); }
static void init_constant(const init_job *j) { fill_constant(j, j->arg[0]); }

static void init_linspace(const init_job *j) {
  for (int64_t i = 0; i < j->count; i++) {
    double t = j->count > 1 ? (double)i / (double)(j->count - 1) : 0;
    j->out[i] = (float)(j->arg[0] + t * (j->arg[1] - j->arg[0]));
  }
}

static void init_normal(const init_job *j) {
  bool both = j->n_args == 2;
  fill_normal(j, both ? j->arg[0] : 0, both ? j->arg[1] : j->arg[0], -HUGE_VAL, HUGE_VAL);
}

static void init_trunc_normal(const init_job *j) {
  bool cut = j->n_args == 3;
  fill_normal(j, 0, j->arg[0], cut ? j->arg[1] : -2, cut ? j->arg[2] : 2);
}

static void init_uniform(const init_job *j) {
  if (j->n_args == 1)
    fill_uniform(j, -j->arg[0], j->arg[0]);
  else
    fill_uniform(j, j->arg[0], j->arg[1]);
}

static void init_uniform_fan_in(const init_job *j) {
  double b = 1 / sqrt(j->n_args ? j->arg[0] : fan_in(j));
  fill_uniform(j, -b, b);
}

static void init_normal_fan_in(const init_job *j) {
  fill_normal(j, 0, gain(j) / sqrt(fan_in(j)), -HUGE_VAL, HUGE_VAL);
}

static void init_normal_fan_out(const init_job *j) {
  fill_normal(j, 0, gain(j) / sqrt(fan_out(j)), -HUGE_VAL, HUGE_VAL);
}

static void init_xavier_uniform(const init_job *j) {
  double b = gain(j) * sqrt(6 / xavier_fans(j));
  fill_uniform(j, -b, b);
}

static void init_xavier_normal(const init_job *j) {
  fill_normal(j, 0, gain(j) * sqrt(2 / xavier_fans(j)), -HUGE_VAL, HUGE_VAL);
}

static void init_s4d_real(const init_job *j) {
  int64_t n = j->rank ? j->dim[j->rank - 1] : 1;
  for (int64_t i = 0; i < j->count; i++) j->out[i] = (float)log((double)(i % n + 1));
}

static void init_dt_bias(const init_job *j) {
  double lo = log(j->arg[0]), hi = log(j->arg[1]);
  for (int64_t i = 0; i < j->count; i++) {
    double dt = exp(lo + (hi - lo) * vtb_random_unit(j->key, (uint64_t)i));
    if (dt < j->arg[2]) dt = j->arg[2];
    j->out[i] = (float)(dt + log(-expm1(-dt)));
  }
}

/* Tables [side * side, D] of a rotary embedding of the grid, arg[0] the side it was made for: half
 * the channels turn with the row, half with the column; two neighbours share a frequency 10000^(-2k
 * / (D/2)).
 * source  Heo et al. 2024, arXiv:2403.13298 */
static void fill_rotary(const init_job *j, double (*wave)(double)) {
  int64_t d = j->rank ? j->dim[j->rank - 1] : 1, n = d ? j->count / d : 0,
          side = (int64_t)lround(sqrt((double)n));
  int64_t half = d / 2 > 0 ? d / 2 : 1;
  for (int64_t i = 0; i < j->count; i++) {
    int64_t t = i / d, c = i % d, at = c < half ? t / side : t % side;
    double f = pow(10000, -2.0 * (double)(c % half / 2) / (double)half);
    j->out[i] = (float)wave((double)at / (double)side * j->arg[0] * f);
  }
}
static void init_rotary_cos(const init_job *j) { fill_rotary(j, cos); }
static void init_rotary_sin(const init_job *j) { fill_rotary(j, sin); }

/* Fixed positions [.., extra + side * side, D], extra rows of zeros first: a quarter of the
 * channels each sin and cos of the column (or the row), then of the other; frequencies 10000^(-k /
 * (D/4)). */
static void fill_sincos(const init_job *j, bool rows_first) {
  int64_t d = j->rank ? j->dim[j->rank - 1] : 1, rows = j->rank > 1 ? j->dim[j->rank - 2] : 1;
  int64_t extra = j->n_args ? (int64_t)j->arg[0] : 0, quarter = d / 4 > 0 ? d / 4 : 1;
  int64_t side = (int64_t)lround(sqrt((double)(rows > extra ? rows - extra : 1)));
  for (int64_t i = 0; i < j->count; i++) {
    int64_t t = i / d % rows - extra, c = i % d;
    double at = (double)((c < 2 * quarter) == rows_first ? t / side : t % side);
    double angle = at * pow(10000, -(double)(c % quarter) / (double)quarter);
    j->out[i] = t < 0 ? 0 : (float)(c / quarter % 2 ? cos(angle) : sin(angle));
  }
}
static void init_sincos_columns(const init_job *j) { fill_sincos(j, false); }
static void init_sincos_rows(const init_job *j) { fill_sincos(j, true); }

static void init_identity(const init_job *j) {
  int64_t n = j->rank ? j->dim[j->rank - 1] : 1, m = j->rank > 1 ? j->dim[j->rank - 2] : 1;
  for (int64_t i = 0; i < j->count; i++) j->out[i] = (float)(i / n % m == i % n ? gain(j) : 0);
}

/* The middle of an even window is behind it, where a padding of half its size puts it. */
static void init_dirac(const init_job *j) {
  int64_t window = 1, middle = 0, in = j->rank > 1 ? j->dim[1] : 1;
  for (int i = 2; i < j->rank; i++) {
    window *= j->dim[i];
    middle = middle * j->dim[i] + j->dim[i] / 2;
  }
  for (int64_t i = 0; i < j->count; i++) {
    bool same = i / window % in == i / window / in;
    j->out[i] = (float)(same && i % window == middle ? gain(j) : 0);
  }
}

/* Gram and Schmidt, twice, on normal numbers: vector v is out[v * across + k * along]. */
static void init_orthogonal(const init_job *j) {
  int64_t rows = j->rank ? j->dim[0] : 1, cols = rows ? j->count / rows : 0;
  int64_t n = rows < cols ? rows : cols, size = rows < cols ? cols : rows;
  int64_t across = rows <= cols ? cols : 1, along = rows <= cols ? 1 : cols;
  fill_normal(j, 0, 1, -HUGE_VAL, HUGE_VAL);
  for (int64_t v = 0; v < n; v++) {
    float *x = j->out + v * across;
    for (int64_t u = 0; u < 2 * v; u++) {
      const float *y = j->out + u % v * across;
      double dot = 0;
      for (int64_t k = 0; k < size; k++) dot += (double)x[k * along] * (double)y[k * along];
      for (int64_t k = 0; k < size; k++) x[k * along] -= (float)(dot * (double)y[k * along]);
    }
    double square = 0;
    for (int64_t k = 0; k < size; k++) square += (double)x[k * along] * (double)x[k * along];
    double scale = square > 0 ? 1 / sqrt(square) : 0;
    for (int64_t k = 0; k < size; k++) x[k * along] = (float)((double)x[k * along] * scale);
  }
  for (int64_t i = 0; i < j->count; i++) j->out[i] = (float)(j->out[i] * gain(j));
}

static const struct initialiser {
  const char *name;
  int min_args, max_args;
  void (*fill)(const init_job *j);
} table[] = {
    {"zeros", 0, 0, init_zeros},
    {"ones", 0, 0, init_ones},
    {"constant", 1, 1, init_constant},
    {"linspace", 2, 2, init_linspace},
    {"normal", 1, 2, init_normal},
    {"trunc_normal", 1, 3, init_trunc_normal},
    {"uniform", 1, 2, init_uniform},
    {"uniform_fan_in", 0, 1, init_uniform_fan_in},
    {"normal_fan_in", 0, 1, init_normal_fan_in},
    {"normal_fan_out", 0, 1, init_normal_fan_out},
    {"xavier_uniform", 0, 1, init_xavier_uniform},
    {"xavier_normal", 0, 1, init_xavier_normal},
    {"s4d_real", 0, 0, init_s4d_real},
    {"dt_bias", 3, 3, init_dt_bias},
    {"identity", 0, 1, init_identity},
    {"dirac", 0, 1, init_dirac},
    {"orthogonal", 0, 1, init_orthogonal},
    {"rotary_cos", 1, 1, init_rotary_cos},
    {"rotary_sin", 1, 1, init_rotary_sin},
    {"sincos_columns", 0, 1, init_sincos_columns},
    {"sincos_rows", 0, 1, init_sincos_rows},
};
enum { N_INITIALISERS = sizeof table / sizeof *table };

/* ---- text ------------------------------------------------------------------------------------ */

static vtb_status unknown_name(const char *text, const char *word, vtb_error *err) {
  const char *names[N_INITIALISERS];
  for (int i = 0; i < N_INITIALISERS; i++) names[i] = table[i].name;
  const char *near = vtb_suggest(word, names, N_INITIALISERS);
  if (near)
    return vtb_fail(err, VTB_E_INPUT, "unknown initialiser \"%s\"; did you mean %s?", text, near);
  return vtb_fail(err, VTB_E_INPUT, "unknown initialiser \"%s\"", text);
}

static const char *skip_space(const char *p) {
  while (isspace((unsigned char)*p)) p++;
  return p;
}

/* "(a, b)" or nothing, up to the end of the text. */
static vtb_status parse_args(const char *text, const char *p, double *arg, int *n, vtb_error *err) {
  *n = 0;
  p = skip_space(p);
  if (!*p) return VTB_OK;
  if (*p++ != '(') return vtb_fail(err, VTB_E_INPUT, "initialiser \"%s\": expected \"(\"", text);
  p = skip_space(p);
  while (*p != ')') {
    char *end;
    double v = strtod(p, &end);
    if (end == p || !isfinite(v) || *n == MAX_ARGS)
      return vtb_fail(err, VTB_E_INPUT, "initialiser \"%s\": expected at most %d finite numbers",
                      text, MAX_ARGS);
    arg[(*n)++] = v;
    p = skip_space(end);
    if (*p == ',')
      p = skip_space(p + 1);
    else if (*p != ')')
      return vtb_fail(err, VTB_E_INPUT, "initialiser \"%s\": expected \",\" or \")\"", text);
  }
  if (*skip_space(p + 1))
    return vtb_fail(err, VTB_E_INPUT, "initialiser \"%s\": text after \")\"", text);
  return VTB_OK;
}

static vtb_status parse(const char *text, const struct initialiser **which, double *arg, int *n,
                        vtb_error *err) {
  const char *p = skip_space(text);
  size_t len = strspn(p, "abcdefghijklmnopqrstuvwxyz_0123456789");
  char word[32];
  if (len == 0 || len >= sizeof word) return unknown_name(text, "", err);
  memcpy(word, p, len);
  word[len] = 0;
  *which = NULL;
  for (int i = 0; i < N_INITIALISERS; i++)
    if (vtb_streq(table[i].name, word)) *which = &table[i];
  if (!*which) return unknown_name(text, word, err);
  VTB_TRY(parse_args(text, p + len, arg, n, err));
  if (*n < (*which)->min_args || *n > (*which)->max_args)
    return vtb_fail(err, VTB_E_INPUT, "initialiser \"%s\": %s takes %d to %d numbers, not %d", text,
                    word, (*which)->min_args, (*which)->max_args, *n);
  if (vtb_streq(word, "dt_bias") && !(arg[0] > 0 && arg[1] >= arg[0] && arg[2] > 0))
    return vtb_fail(err, VTB_E_INPUT, "initialiser \"%s\": needs 0 < min <= max and 0 < floor",
                    text);
  if (vtb_streq(word, "uniform_fan_in") && *n && arg[0] <= 0)
    return vtb_fail(err, VTB_E_INPUT, "initialiser \"%s\": the fan must be positive", text);
  if (vtb_streq(word, "trunc_normal") && *n == 2)
    return vtb_fail(err, VTB_E_INPUT, "initialiser \"%s\": trunc_normal takes 1 or 3 numbers",
                    text);
  if (vtb_streq(word, "trunc_normal") && *n == 3 && !(arg[1] < arg[2]))
    return vtb_fail(err, VTB_E_INPUT, "initialiser \"%s\": the cut needs a < b", text);
  return VTB_OK;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static const char table_head[] = "table(";

/* Numbers up to ")" and the end of the text; the first `room` of them to out. -1: something else
 * stands there. */
static int64_t read_table(const char *text, float *out, int64_t room) {
  const char *p = text + strlen(table_head);
  for (int64_t n = 0;;) {
    char *end;
    double v = strtod(p, &end);
    if (end == p || !isfinite(v)) return -1;
    if (n < room) out[n] = (float)v;
    n++;
    p = skip_space(end);
    if (*p == ')') return *skip_space(p + 1) ? -1 : n;
    if (*p++ != ',') return -1;
  }
}

static bool is_table(const char *text) { return vtb_starts_with(text, table_head); }

static vtb_status fill_table(const char *text, const char *name, const init_job *j,
                             vtb_error *err) {
  int64_t n = read_table(text, j->out, j->count);
  if (n < 0)
    return vtb_fail(err, VTB_E_INPUT,
                    "parameter %s: initialiser \"%.60s\": expected finite numbers", name, text);
  if (n != j->count)
    return vtb_fail(err, VTB_E_INPUT, "parameter %s: a table of %lld numbers for %lld elements",
                    name, (long long)n, (long long)j->count);
  return VTB_OK;
}

vtb_status vtb_init_tensor(const char *text, const char *name, uint64_t seed, int rank,
                           const int64_t *dim, float *out, vtb_error *err) {
  const struct initialiser *which = NULL;
  init_job job = {.rank = rank, .dim = dim, .out = out, .count = 1};
  for (int i = 0; i < rank; i++) job.count *= dim[i];
  if (!text || !text[0]) {
    init_zeros(&job);
    return VTB_OK;
  }
  if (is_table(text)) return fill_table(text, name, &job, err);
  vtb_error inner = {0};
  vtb_status status = parse(text, &which, job.arg, &job.n_args, &inner);
  if (status != VTB_OK) return vtb_fail(err, status, "parameter %s: %s", name, inner.text);
  job.key = vtb_hash_bytes(vtb_hash_str(VTB_HASH_INIT, name), &seed, sizeof seed);
  which->fill(&job);
  return VTB_OK;
}
