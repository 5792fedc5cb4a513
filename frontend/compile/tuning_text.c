/* The text of a table of tuning, one row a line; numbers are whole:
 *
 *   vertebra-tuning 1
 *   AMD EPYC 9654                               the processor, for readers
 *   cpu fp32 2 linscan scalar 1 196 4 1 96 96 1 chunkwise 64 181234
 *
 * target, precision, threads, op, class of the decay; batch, tokens, heads, rows a token, K, V,
 * whether it is normalized; mode, chunk (0: none), nanoseconds.
 */
#include "frontend/compile/tuning.h"
#include "frontend/compile/words.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ir/recurrence.h"

static const char head[] = "vertebra-tuning 1";
enum { N_WORDS = 15 };

void vtb_tuning_print(const vtb_tuning *t, vtb_strbuf *out) {
  vtb_strbuf_printf(out, "%s\n%s\n", head, t->processor);
  for (size_t i = 0; i < t->rows.n; i++) {
    const vtb_tuning_row *r = &t->rows.at[i];
    const vtb_tuning_key *k = &r->key;
    vtb_strbuf_printf(out, "%s %s %lld %s %s %lld %lld %lld %lld %lld %lld %lld %s %lld %lld\n",
                      k->target, vtb_precision_names[k->precision], (long long)k->threads, k->op,
                      k->klass, (long long)k->batch, (long long)k->tokens, (long long)k->heads,
                      (long long)k->rank, (long long)k->K, (long long)k->V,
                      (long long)k->normalizer, r->mode, (long long)r->chunk,
                      (long long)r->nanoseconds);
  }
}

/* A whole number from `least` on, as long as numbers of tokens and nanoseconds may be. */
static bool take_number(const char *word, int64_t least, int64_t *out) {
  char *end;
  errno = 0;
  long long n = strtoll(word, &end, 10);
  *out = n;
  return !errno && end != word && !*end && n >= least && n <= INT64_C(1) << 50;
}

static bool take_name(const char *word, char to[16]) { return snprintf(to, 16, "%s", word) < 16; }

static bool take_mode(const char *mode, const char *chunk, vtb_tuning_row *r) {
  bool chunks = vtb_streq(mode, "chunkwise");
  if (!chunks && !vtb_streq(mode, "parallel") && !vtb_streq(mode, "recurrent")) return false;
  snprintf(r->mode, sizeof r->mode, "%s", mode);
  if (!take_number(chunk, chunks ? 1 : 0, &r->chunk)) return false;
  return chunks ? r->chunk <= r->key.tokens : r->chunk == 0;
}

static bool take_key(char *const *word, vtb_tuning_key *k) {
  vtb_precision precision;
  vtb_error none = {0};
  vtb_decay_class klass;
  bool fine = take_name(word[0], k->target) && take_name(word[3], k->op) &&
              take_name(word[4], k->klass) && vtb_decay_class_find(word[4], &klass) &&
              vtb_precision_find(word[1], &precision, &none) == VTB_OK;
  if (!fine) return false;
  k->precision = precision;
  return take_number(word[2], 1, &k->threads) && take_number(word[5], 1, &k->batch) &&
         take_number(word[6], 1, &k->tokens) && take_number(word[7], 1, &k->heads) &&
         take_number(word[8], 1, &k->rank) && take_number(word[9], 1, &k->K) &&
         take_number(word[10], 1, &k->V) && take_number(word[11], 0, &k->normalizer);
}

static bool take_row(char *line, vtb_tuning_row *r) {
  char *word[N_WORDS + 1], *rest = NULL;
  int n = 0;
  *r = (vtb_tuning_row){0};
  for (char *w = strtok_r(line, " ", &rest); w && n <= N_WORDS; w = strtok_r(NULL, " ", &rest))
    word[n++] = w;
  return n == N_WORDS && take_key(word, &r->key) && take_mode(word[12], word[13], r) &&
         take_number(word[14], 1, &r->nanoseconds);
}

vtb_status vtb_tuning_parse(const char *text, size_t n, vtb_tuning *out, vtb_error *err) {
  char *copy = vtb_xcalloc(n + 1, 1), *rest = copy;
  int line = 0;
  vtb_status status = VTB_OK;
  *out = (vtb_tuning){0};
  memcpy(copy, text, n);
  for (char *at; status == VTB_OK && (at = strsep(&rest, "\n"));) {
    vtb_tuning_row row;
    line++;
    if (line == 2) snprintf(out->processor, sizeof out->processor, "%s", at);
    if (line == 2 || (!*at && !rest && line > 2)) continue;
    if (line == 1 ? !vtb_streq(at, head) : !take_row(at, &row))
      status = vtb_fail(err, VTB_E_INPUT, "line %d is none of a table of tuning", line);
    else if (line > 2)
      vtb_tuning_set(out, &row);
  }
  if (status == VTB_OK && line < 2)
    status = vtb_fail(err, VTB_E_INPUT, "the table of tuning ends in line %d", line);
  if (status != VTB_OK) vtb_tuning_free(out);
  vtb_free(copy);
  return status;
}
