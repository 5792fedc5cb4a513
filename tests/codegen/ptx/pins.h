/* What no number shows: words of instructions that the machine gives no meaning, each with its
 * reason; that the compiler is told what a statement does; that constants are handed on. */
#ifndef VTB_TEST_PTX_PINS_H
#define VTB_TEST_PTX_PINS_H

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "tests/codegen/ptx/ptx.h"

typedef struct ptx_pin {
  const char *function, *word, *why;
} ptx_pin;
static const ptx_pin ptx_pins[] = {
    {"vtb_cp_async16", "cg", "16 bytes pass by L1, which is left to what is read again"},
    {"vtb_cp_async8", "ca", ".cg is for 16 bytes only"},
    {"vtb_cp_async4", "ca", ".cg is for 16 bytes only"},
    {"vtb_exp2_fast", "ftz", "one instruction: without it two multiplications are around it"},
    {"vtb_rcp_fast", "ftz", "one instruction: without it a branch is around it"},
    {"vtb_mbar_ready", "release", "the only form of this fence"},
    {"vtb_mbar_ready", "cluster", "the copy engine and other blocks count on the initialisation"},
    {"vtb_mbar_wait", "try_wait", "a thread that waits sleeps; test_wait takes issue slots"},
    {"vtb_mbar_wait_cluster", "try_wait",
     "a thread that waits sleeps; test_wait takes issue slots"},
    {"vtb_mbar_wait_cluster", "acquire", "what others did before they arrived is known behind it"},
    {"vtb_mbar_wait_cluster", "cluster", "those others are threads of another block, too"},
    {"vtb_mbar_arrive_at", "release", "what was done before is known to who waits"},
    {"vtb_mbar_arrive_at", "cluster", "who waits is a thread of another block"},
    {"vtb_cluster_arrive", "release", "stores to the cluster are known behind the barrier"},
    {"vtb_cluster_wait", "acquire", "stores to the cluster are known behind the barrier"},
    {"vtb_cluster_send", "weak",
     "the only form: the mbarrier's phase says when the bytes are there"},
    {"vtb_cluster_send4", "weak",
     "the only form: the mbarrier's phase says when the bytes are there"},
};
enum { PTX_PINS = sizeof ptx_pins / sizeof *ptx_pins };

static inline bool ptx_check_words(const ptx_statement *s, bool *used, char *error) {
  for (int k = 0; k < s->n_instructions; k++)
    for (int n = 0;; n++) {
      const char *word = ptx_blind_word(&s->instruction[k], n);
      int found = -1;
      if (!word) break;
      for (int i = 0; i < PTX_PINS; i++)
        if (!strcmp(ptx_pins[i].function, s->function) && !strcmp(ptx_pins[i].word, word))
          found = i;
      if (found < 0)
        return snprintf(error, 512, "%s: no reason stands for .%s", s->function, word), false;
      used[found] = true;
    }
  return true;
}

/* A constant is a name, not a sum of it and another: (int)name. */
static inline bool ptx_is_plain(const char *expression) {
  if (strncmp(expression, "(int)", 5) == 0) expression += 5;
  while (isalnum((unsigned char)*expression) || *expression == '_') expression++;
  return !*expression;
}

static inline bool ptx_check_pins(const ptx_text *t, char *error) {
  bool used[PTX_PINS] = {false};
  for (int i = 0; i < t->n; i++) {
    const ptx_statement *s = &t->statement[i];
    ptx_effect effect = PTX_PURE;
    for (int k = 0; k < s->n_instructions; k++)
      if (s->instruction[k].row->effect > effect) effect = s->instruction[k].row->effect;
    if (effect >= PTX_HAPPENS && !s->is_volatile)
      return snprintf(error, 512, "%s: not volatile: it may be left out or moved", s->function),
             false;
    if (effect >= PTX_MEMORY && !s->clobbers_memory)
      return snprintf(error, 512, "%s: without \"memory\": accesses move over it", s->function),
             false;
    for (int k = 0; k < s->n_operands; k++)
      if (strcmp(s->constraint[k], "n") == 0 && !ptx_is_plain(s->expression[k]))
        return snprintf(error, 512, "%s: a constant of its own: %s", s->function, s->expression[k]),
               false;
    if (!ptx_check_words(s, used, error)) return false;
  }
  for (int i = 0; i < PTX_PINS; i++)
    if (!used[i])
      return snprintf(error, 512, "%s: .%s is gone: %s", ptx_pins[i].function, ptx_pins[i].word,
                      ptx_pins[i].why),
             false;
  return true;
}

#endif
