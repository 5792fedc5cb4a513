/* Numbers as people read them. */
#include "frontend/draw/number.h"

#include <math.h>
#include <string.h>

enum { ROOM = 32 };

static const char *none(char text[32]) { return strcpy(text, "\xE2\x80\x93"); }

const char *nr_fixed(double x, int decimals, char text[32]) {
  if (isnan(x)) return none(text);
  /* what has more digits than fit is no number that anybody measured */
  snprintf(text, ROOM, fabs(x) < 1e15 ? "%.*f" : "%.*e", decimals, x);
  return text;
}

const char *nr_digits(double x, int digits, char text[32]) {
  if (isnan(x)) return none(text);
  if (x == 0) return strcpy(text, "0");
  int before = (int)floor(log10(fabs(x))) + 1, decimals = digits - before;
  if (before < -3) return snprintf(text, ROOM, "%.*g", digits, x), text;
  return nr_fixed(x, decimals > 0 ? decimals : 0, text);
}

static const char *scaled(double x, double step, const char *const *units, int n, char text[32]) {
  if (isnan(x)) return none(text);
  int i = 0;
  while (i + 1 < n && fabs(x) >= step) x /= step, i++;
  char number[ROOM];
  if (i == 0)
    snprintf(text, ROOM, "%.0f%s", fabs(x) < 1e6 ? x : 0, units[0]);
  else
    snprintf(text, ROOM, "%.16s%s", nr_digits(x, 3, number), units[i]);
  return text;
}

const char *nr_count(double x, char text[32]) {
  static const char *const units[] = {"", " k", " M", " G", " T"};
  return scaled(x, 1000, units, 5, text);
}

const char *nr_bytes(double x, char text[32]) {
  static const char *const units[] = {" B", " KiB", " MiB", " GiB", " TiB"};
  return scaled(x, 1024, units, 5, text);
}

const char *nr_tick(double x, char text[32]) {
  static const char *const units[] = {"", "k", "M", "G", "T"};
  int i = 0;
  while (i < 4 && fabs(x) >= 10000) x /= 1000, i++;
  snprintf(text, ROOM, "%.6g%s", x + 0.0, units[i]); /* + 0.0: no -0 */
  return text;
}
