/* Behaviour that the environment asks for: the rows of environment.def, read. */
#include "runtime/behaviour.h"
#include "runtime/launch/threads.h"
#include "runtime/model.h"

#include <stddef.h>

typedef struct row {
  const char *name;
  enum { A_SWITCH, A_NUMBER, A_TEXT } kind;
  size_t field, has;    /* of vtb_behaviour; has 0: the value 0 says as much */
  const char *no, *yes; /* of switches */
  int32_t least, most;  /* of numbers */
} row;

#define AT(field) offsetof(vtb_behaviour, field)
static const row rows[] = {
#define GROUP(title)
#define FACT(name, values, text)
#define SWITCH(name, field, no, yes, text) {name, A_SWITCH, AT(field), 0, no, yes, 0, 0},
#define NUMBER(name, field, least, most, text)                                                     \
  {name, A_NUMBER, AT(field), 0, NULL, NULL, least, most},
#define DEVICE(name, field, least, most, text)                                                     \
  {name, A_NUMBER, AT(field), AT(has_##field), NULL, NULL, least, most},
#define TEXT(name, field, values, text) {name, A_TEXT, AT(field), 0, NULL, NULL, 0, 0},
#include "runtime/environment.def"
};

/* The row's field becomes what the text says; false: it does not take that. */
static bool take_variable(const row *r, const char *text, vtb_behaviour *out) {
  void *field = (char *)out + r->field;
  char *end;
  if (r->kind == A_TEXT) {
    *(const char **)field = text;
    return true;
  }
  if (r->kind == A_SWITCH) {
    bool yes = vtb_streq(text, r->yes);
    *(vtb_wish *)field = yes ? VTB_YES : VTB_NO;
    return yes || vtb_streq(text, r->no);
  }
  long n = strtol(text, &end, 10);
  *(int32_t *)field = (int32_t)n;
  if (r->has) *(bool *)((char *)out + r->has) = true;
  return !*end && n >= r->least && n <= r->most;
}

static vtb_status refused(const row *r, const char *text, vtb_error *err) {
  if (r->kind == A_SWITCH)
    return vtb_fail(err, VTB_E_USAGE, "%s=%s: %s or %s is needed", r->name, text, r->no, r->yes);
  return vtb_fail(err, VTB_E_USAGE, "%s=%s: a whole number from %d to %d is needed", r->name, text,
                  r->least, r->most);
}

/* OpenMP's variable, which may be a list; it is not ours to refuse. */
static int32_t openmp_threads(void) {
  const char *text = getenv("OMP_NUM_THREADS");
  long n = text ? strtol(text, NULL, 10) : 0;
  return n > 0 && n <= VTB_MOST_THREADS ? (int32_t)n : 0;
}

vtb_status vtb_options_from_environment(vtb_behaviour *out, vtb_error *err) {
  vtb_behaviour said = {.size = sizeof said, .threads = openmp_threads()};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const char *text = getenv(rows[i].name);
    if (text && *text && !take_variable(&rows[i], text, &said)) return refused(&rows[i], text, err);
  }
  return vtb__give_struct(&said, out, sizeof said) ? VTB_OK : vtb__wrong_size("vtb_behaviour", err);
}

vtb_status vtb_behaviour_of(const vtb_behaviour *given, vtb_behaviour *out, vtb_error *err) {
  *out = (vtb_behaviour){.size = sizeof *out};
  if (!given) return vtb_options_from_environment(out, err);
  return vtb__take_struct(given, out, sizeof *out) ? VTB_OK : vtb__wrong_size("vtb_behaviour", err);
}
