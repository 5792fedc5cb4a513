/* The instructions that the machine knows, as the PTX manual writes them. */
#include <stdio.h>
#include <string.h>

#include "tests/codegen/ptx/ptx.h"

#define DIMENSIONS "2d|3d|4d|5d ~tile? "
#define SCOPE "~release|relaxed? ~cta|cluster? "
#define SHARED "shared::cta|shared|shared::cluster"
#define BYTES "mbarrier::complete_tx::bytes "

static const ptx_row rows[] = {
    /* ---- registers ---- */
    {"cvt rn bf16x2|f16x2 f32", "dss", PTX_PURE, ptx_cvt_x2, NULL},
    {"cvt f32 f16", "ds", PTX_PURE, ptx_cvt_f32_f16, NULL},
    {"cvt rn|rna tf32 f32", "ds", PTX_PURE, ptx_cvt_tf32, NULL},
    {"cvt rni|rzi|rmi|rpi s32 f32", "ds", PTX_PURE, ptx_cvt_s32, NULL},
    {"fma rn bf16x2|f16x2", "dsss", PTX_PURE, ptx_fma_bf16x2, NULL},
    {"mul rn bf16x2|f16x2", "dss", PTX_PURE, ptx_mul_f16x2, NULL},
    {"max|min NaN? f32", "dss", PTX_PURE, ptx_extreme, NULL},
    {"ex2 approx ~ftz? f32", "ds", PTX_PURE, ptx_ex2, NULL},
    {"rcp approx ~ftz? f32", "ds", PTX_PURE, ptx_rcp, NULL},
    {"setp eq|ne|lt|le|gt|ge b32|s32|u32", "dss", PTX_PURE, ptx_setp, NULL},
    {"selp b32", "dsss", PTX_PURE, ptx_selp, NULL},
    {"mov u32", "ds", PTX_PURE, ptx_mov, NULL},
    {"mapa shared::cluster u32", "dss", PTX_PURE, ptx_mapa, NULL},
    {"mma sync aligned m16n8k8|m16n8k16 row col f32 tf32|bf16|f16 tf32|bf16|f16 f32", "dsss",
     PTX_PURE, NULL, ptx_mma},
    {"setmaxnreg inc|dec sync aligned u32", "s", PTX_HAPPENS, NULL, ptx_setmaxnreg},
    /* ---- memory ---- */
    {"ld shared::cluster|shared::cta|shared v2|v4? f32|b32|u32", "da", PTX_MEMORY, ptx_ld, NULL},
    {"st shared::cluster|shared::cta|shared v2|v4? f32|b32|u32", "as", PTX_MEMORY, ptx_st, NULL},
    {"st async ~weak? shared::cluster " BYTES "v2|v4? b32|u32", "asa", PTX_MEMORY, ptx_st_async,
     NULL},
    {"ldmatrix sync aligned m8n8 x1|x2|x4 trans? shared|shared::cta b16", "da", PTX_MEMORY, NULL,
     ptx_ldmatrix},
    {"cp async ~ca|cg shared|shared::cta global", "aass", PTX_MEMORY, ptx_cp_async, NULL},
    {"cp async commit_group", "", PTX_MEMORY, ptx_cp_commit, NULL},
    {"cp async wait_group", "s", PTX_MEMORY, ptx_cp_wait, NULL},
    /* ---- barriers, the async proxy ---- */
    {"bar sync", "ss", PTX_MEMORY, ptx_bar_sync, NULL},
    {"barrier cluster arrive ~release|relaxed? ~aligned?", "", PTX_MEMORY, ptx_cluster_arrive,
     NULL},
    {"barrier cluster wait ~acquire? ~aligned?", "", PTX_MEMORY, ptx_cluster_wait, NULL},
    {"mbarrier init shared::cta|shared b64", "as", PTX_MEMORY, ptx_mbar_init, NULL},
    {"mbarrier arrive " SCOPE SHARED " b64", "da", PTX_MEMORY, ptx_mbar_arrive, NULL},
    {"mbarrier arrive expect_tx " SCOPE SHARED " b64", "das", PTX_MEMORY, ptx_mbar_expect, NULL},
    {"mbarrier ~try_wait|test_wait parity ~acquire|relaxed? ~cta|cluster? shared::cta|shared b64",
     "das", PTX_MEMORY, ptx_mbar_wait, NULL},
    {"fence mbarrier_init ~release ~cluster", "", PTX_MEMORY, ptx_fence_init, NULL},
    {"fence proxy async global|shared::cta|shared::cluster?", "", PTX_MEMORY, ptx_fence_async,
     NULL},
    {"cp async bulk tensor " DIMENSIONS "shared::cluster|shared::cta global " BYTES
     "multicast::cluster",
     "aaas", PTX_MEMORY, ptx_tma_load, NULL},
    {"cp async bulk tensor " DIMENSIONS "shared::cluster|shared::cta global " BYTES, "aaa",
     PTX_MEMORY, ptx_tma_load, NULL},
    {"cp async bulk tensor " DIMENSIONS "global shared::cta bulk_group", "aa", PTX_MEMORY,
     ptx_tma_store, NULL},
    {"cp async bulk commit_group", "", PTX_MEMORY, ptx_bulk_commit, NULL},
    {"cp async bulk wait_group ~read?", "s", PTX_MEMORY, ptx_bulk_wait, NULL},
    {"wgmma mma_async sync aligned m64* f32 bf16|f16 bf16|f16", "dsssssss", PTX_HAPPENS, NULL,
     ptx_wgmma},
    {"wgmma mma_async sync aligned m64* f32 bf16|f16 bf16|f16", "dssssss", PTX_HAPPENS, NULL,
     ptx_wgmma},
    {"wgmma fence sync aligned", "", PTX_MEMORY, NULL, ptx_wgmma_fence},
    {"wgmma commit_group sync aligned", "", PTX_MEMORY, NULL, ptx_wgmma_commit},
    {"wgmma wait_group sync aligned", "s", PTX_MEMORY, NULL, ptx_wgmma_wait},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

/* Whether `word` is one of "a|b|c", n characters; "m64*" is all that begin so. */
static bool is_one_of(const char *word, const char *list, size_t n) {
  const char *end = list + n;
  for (const char *at = list; at < end;) {
    size_t len = strcspn(at, "|? ");
    if (at + len > end) len = (size_t)(end - at);
    if (at[len - 1] == '*' && strncmp(word, at, len - 1) == 0) return true;
    if (strlen(word) == len && strncmp(word, at, len) == 0) return true;
    at += len + 1;
  }
  return false;
}

/* Walks along the words; the `blind`th of those without a meaning here goes to *found. */
static bool match(const ptx_instruction *i, const char *syntax, int blind, const char **found) {
  int at = 0;
  for (const char *p = syntax; *p;) {
    size_t n = strcspn(p, " ");
    bool is_blind = *p == '~', optional = n && p[n - 1] == '?';
    if (n && at < i->n_words &&
        is_one_of(i->word[at], p + is_blind, n - (size_t)is_blind - (size_t)optional)) {
      if (is_blind && blind-- == 0 && found) *found = i->word[at];
      at++;
    } else if (n && !optional) {
      return false;
    }
    p += n + (p[n] == ' ');
  }
  return at == i->n_words;
}

static bool check_item(const ptx_statement *s, const ptx_item *i, char letter, char *error) {
  bool operand = i->kind == PTX_OPERAND;
  const char *c = operand ? s->constraint[i->number] : "";
  bool written = strpbrk(c, "=+") != NULL, fixed = i->kind == PTX_NUMBER || i->kind == PTX_SPECIAL;
  if (letter == 'd' && ((operand && !written) || fixed))
    return snprintf(error, 400, "writes what is no output"), false;
  if (letter != 'd' && (strchr(c, '=') || i->kind == PTX_SINK))
    return snprintf(error, 400, "reads what is only an output"), false;
  return true;
}

static bool check_args(const ptx_statement *s, const ptx_instruction *i, const ptx_row *row,
                       char *error) {
  for (int a = 0; a < i->n_args; a++) {
    if ((row->args[a] == 'a') != i->arg[a].is_address || !i->arg[a].n)
      return snprintf(error, 400, "argument %d of %s", a, i->name), false;
    for (int k = 0; k < i->arg[a].n; k++)
      if (!check_item(s, &i->arg[a].item[k], row->args[a], error)) return false;
  }
  return true;
}

const ptx_row *ptx_find(const ptx_statement *s, const ptx_instruction *i, char *error) {
  snprintf(error, 400, "no instruction of this machine: %s, %d arguments", i->name, i->n_args);
  for (int r = 0; r < N_ROWS; r++)
    if (match(i, rows[r].syntax, 0, NULL) && strlen(rows[r].args) == (size_t)i->n_args)
      return check_args(s, i, &rows[r], error) ? &rows[r] : NULL;
  return NULL;
}

const char *ptx_blind_word(const ptx_instruction *i, int n) {
  const char *found = NULL;
  match(i, i->row->syntax, n, &found);
  return found;
}

bool ptx_has(const ptx_instruction *i, const char *word) {
  for (int k = 0; k < i->n_words; k++)
    if (strcmp(i->word[k], word) == 0) return true;
  return false;
}
