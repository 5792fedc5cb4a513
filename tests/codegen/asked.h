/* Kernels of each kind as text, with letters for sizes: B, N, h, K, V, and what is made of them,
 * C = h V, D = h K, F = C / 4, G = D / 4, P = K / 2 (of a convolution N is a side of its grid,
 * T = N N). */
#ifndef VTB_TEST_ASKED_H
#define VTB_TEST_ASKED_H

#include "ir/ir.h"
#include "ir/ops.h"
#include "tests/test.h"

/* $N is the number, all else itself; a kernel's body as a plain function. */
static inline char *ask_text(const char *kernel, bool plain, const int64_t *of) {
  char *out = malloc(strlen(kernel) * 4 + 64), *to = out;
  to += sprintf(to, "module \"asked\"\n");
  if (plain) to += sprintf(to, "func"), kernel += strlen("kernel");
  for (; *kernel; kernel++)
    if (*kernel == '$')
      to += sprintf(to, "%lld", (long long)of[(int)*++kernel]);
    else
      *to++ = *kernel;
  *to = 0;
  return out;
}

/* A module whose entry calls the kernel and returns all its results, or is the function, or,
 * without a kind, its body; NULL, with a failed check, if it does not parse. */
static inline vtb_module *ask_module(const char *kernel, const char *kind, int64_t B, int64_t N,
                                     int64_t h, int64_t K, int64_t V) {
  const int64_t of[128] = {['B'] = B,         ['N'] = N,     ['h'] = h,     ['K'] = K,
                           ['V'] = V,         ['C'] = h * V, ['D'] = h * K, ['F'] = h * V / 4,
                           ['G'] = h * K / 4, ['P'] = K / 2, ['T'] = N * N};
  char *text = ask_text(kernel, !kind, of);
  vtb_source source = {.path = "asked.ir", .text = text, .n = strlen(text)};
  vtb_diags diags = {0};
  vtb_module *m = vtb_module_parse(&source, &diags);
  if (!m) vtb_diags_print(&diags, stderr);
  CHECK(m != NULL);
  vtb_diags_free(&diags);
  free(text);
  if (!m) return NULL;
  vtb_func *body = m->first;
  if (body->kind == VTB_FUNC_PLAIN) { /* a bare op */
    m->entry = body;
    return m;
  }
  vtb_func *f = vtb_func_new(m, "asked", VTB_FUNC_PLAIN, VTB_NO_SPAN);
  vtb_builder b = {.module = m, .func = f};
  vtb_value *args[32];
  for (int a = 0; a < body->n_args; a++)
    args[a] = vtb_func_add_arg(f, body->args[a]->name, body->args[a]->type);
  vtb_attr attr = VTB_A_STR("kind", kind);
  vtb_inst *fused = vtb_build_call(&b, VTB_OP_fused, body, args, body->n_args, &attr, 1);
  vtb_func_set_returns(f, fused->results, NULL, fused->n_results);
  m->entry = f;
  return m;
}

static const char ask_mixer[] =
    "kernel @body(%q: f32[$B, $N, $h, $K], %k: f32[$B, $N, $h, $K], %v: f32[$B, $N, $h, "
    "$V], %d: f32[$B, $N, $h], %u: f32[$B, $N, $h, $V]) -> (f32[$B, $N, $h, $V]) {\n"
    "  %y, %s, %z, %n = linscan %q, %k, %v, %d {class = \"scalar\", mode = \"parallel\", "
    "normalizer = 1, last = 0, precision = \"bf16\"} : f32[$B, $N, $h, $V], f32[$B, $h, "
    "$K, $V], f32[$B, $N, $h], f32[$B, $h, $K]\n"
    "  %a = abs %z : f32[$B, $N, $h]\n"
    "  %b = reshape %a {shape = [$B, $N, $h, 1]} : f32[$B, $N, $h, 1]\n"
    "  %o = div %y, %b : f32[$B, $N, $h, $V]\n"
    "  %g = silu %u : f32[$B, $N, $h, $V]\n"
    "  %r = mul %o, %g : f32[$B, $N, $h, $V]\n"
    "  return %r\n"
    "}\n";

static const char ask_gates[] =
    "kernel @body(%q: f32[$B, $N, $h, $K], %k: f32[$B, $N, $h, $K], %v: f32[$B, $N, $h, "
    "$V], %f: f32[$B, $N, $h], %i: f32[$B, $N, $h], %u: f32[$B, $N, $h, $V]) -> (f32[$B, "
    "$N, $h, $V]) {\n"
    "  %m = maxplus %f, %i : f32[$B, $N, $h]\n"
    "  %p = shift %m {axis = 1, by = 1, fill = -1e30} : f32[$B, $N, $h]\n"
    "  %w = add %f, %p : f32[$B, $N, $h]\n"
    "  %x = sub %w, %m : f32[$B, $N, $h]\n"
    "  %d = exp %x : f32[$B, $N, $h]\n"
    "  %t = sub %i, %m : f32[$B, $N, $h]\n"
    "  %e = exp %t : f32[$B, $N, $h]\n"
    "  %e4 = reshape %e {shape = [$B, $N, $h, 1]} : f32[$B, $N, $h, 1]\n"
    "  %kg = mul %k, %e4 : f32[$B, $N, $h, $K]\n"
    "  %y, %s, %z, %n = linscan %q, %kg, %v, %d {class = \"scalar\", mode = \"parallel\", "
    "normalizer = 1, last = 0, precision = \"bf16\"} : f32[$B, $N, $h, $V], f32[$B, $h, "
    "$K, $V], f32[$B, $N, $h], f32[$B, $h, $K]\n"
    "  %a = abs %z : f32[$B, $N, $h]\n"
    "  %b = reshape %a {shape = [$B, $N, $h, 1]} : f32[$B, $N, $h, 1]\n"
    "  %o = div %y, %b : f32[$B, $N, $h, $V]\n"
    "  %g = silu %u : f32[$B, $N, $h, $V]\n"
    "  %r = mul %o, %g : f32[$B, $N, $h, $V]\n"
    "  return %r\n"
    "}\n";

static const char ask_mixer_grad[] =
    "kernel @body(%q: f32[$B, $N, $h, $K], %k: f32[$B, $N, $h, $K], %g: f32[$B, $N, $h, "
    "1], %v: f32[$B, $N, $h, $V], %d: f32[$B, $N, $h], %dy: f32[$B, $N, $h, $V], %dz: "
    "f32[$B, $N, $h]) -> (f32[$B, $N, $h, $K], f32[$B, $N, $h, $V], f32[$B, $N, $h], "
    "f32[$B, $N, $h, $K], f32[$B, $N, $h, 1]) {\n"
    "  %kg = mul %k, %g : f32[$B, $N, $h, $K]\n"
    "  %dq, %dk, %dv, %dd = linscan_grad %q, %kg, %v, %d, %dy, %dz {class = \"scalar\", "
    "mode = \"parallel\", normalizer = 1, precision = \"bf16\"} : f32[$B, $N, $h, $K], "
    "f32[$B, $N, $h, $K], f32[$B, $N, $h, $V], f32[$B, $N, $h]\n"
    "  %a = mul %dk, %g : f32[$B, $N, $h, $K]\n"
    "  %b = mul %dk, %k : f32[$B, $N, $h, $K]\n"
    "  %c = reduce_sum %b {axes = [3], keep = 1} : f32[$B, $N, $h, 1]\n"
    "  return %dq, %dv, %dd, %a, %c\n"
    "}\n";

static const char ask_scan[] =
    "kernel @body(%q0: f32[$B, $N, $h, $K], %k0: f32[$B, $N, $h, $K], %d0: f32[$B, $N, $h, "
    "$V], %u0: f32[$B, $N, $h, $V], %a0: f32[$h, $K, $V], %z: f32[$B, $N, $h, $V]) -> "
    "(f32[$B, $N, $h, $V]) {\n"
    "  %v0 = mul %d0, %u0 : f32[$B, $N, $h, $V]\n"
    "  %y0, %s0 = linscan %q0, %k0, %v0, %d0, %a0 {class = \"rates\", mode = "
    "\"recurrent\", last = 0} : f32[$B, $N, $h, $V], f32[$B, $h, $K, $V]\n"
    "  %g = silu %z : f32[$B, $N, $h, $V]\n"
    "  %r = mul %y0, %g : f32[$B, $N, $h, $V]\n"
    "  return %r\n"
    "}\n";

static const char ask_scans[] =
    "kernel @body(%q0: f32[$B, $N, $h, $K], %k0: f32[$B, $N, $h, $K], %d0: f32[$B, $N, $h, "
    "$V], %u0: f32[$B, $N, $h, $V], %a0: f32[$h, $K, $V], %q1: f32[$B, $N, $h, $K], %k1: "
    "f32[$B, $N, $h, $K], %d1: f32[$B, $N, $h, $V], %u1: f32[$B, $N, $h, $V], %a1: f32[$h, "
    "$K, $V]) -> (f32[$B, $N, $h, $V]) {\n"
    "  %v0 = mul %d0, %u0 : f32[$B, $N, $h, $V]\n"
    "  %y0, %s0 = linscan %q0, %k0, %v0, %d0, %a0 {class = \"rates\", mode = "
    "\"recurrent\", last = 0} : f32[$B, $N, $h, $V], f32[$B, $h, $K, $V]\n"
    "  %v1 = mul %d1, %u1 : f32[$B, $N, $h, $V]\n"
    "  %y1, %s1 = linscan %q1, %k1, %v1, %d1, %a1 {class = \"rates\", mode = "
    "\"recurrent\", last = 0} : f32[$B, $N, $h, $V], f32[$B, $h, $K, $V]\n"
    "  %r = add %y0, %y1 : f32[$B, $N, $h, $V]\n"
    "  return %r\n"
    "}\n";

static const char ask_scan_grad[] =
    "kernel @body(%q: f32[$B, $N, $h, $K], %k: f32[$B, $N, $h, $K], %d: f32[$B, $N, $h, "
    "$V], %u: f32[$B, $N, $h, $V], %a: f32[$h, $K, $V], %dy: f32[$B, $N, $h, $V]) -> "
    "(f32[$B, $N, $h, $K], f32[$B, $N, $h, $K], f32[$h, $K, $V], f32[$B, $N, $h, $V], "
    "f32[$B, $N, $h, $V]) {\n"
    "  %v = mul %d, %u : f32[$B, $N, $h, $V]\n"
    "  %dq, %dk, %dv, %dd, %da = linscan_grad %q, %k, %v, %d, %a, %dy {class = \"rates\", "
    "mode = \"recurrent\"} : f32[$B, $N, $h, $K], f32[$B, $N, $h, $K], f32[$B, $N, $h, "
    "$V], f32[$B, $N, $h, $V], f32[$h, $K, $V]\n"
    "  %e = mul %dv, %u : f32[$B, $N, $h, $V]\n"
    "  %f = add %dd, %e : f32[$B, $N, $h, $V]\n"
    "  %g = mul %dv, %d : f32[$B, $N, $h, $V]\n"
    "  return %dq, %dk, %da, %f, %g\n"
    "}\n";

static const char ask_convolution[] =
    "kernel @body(%x: f32[$B, $T, $C], %w: f32[$C, $K, $K], %c: f32[$C], %p: f32[8, 1, "
    "$C]) -> (f32[$B, $T, $C], f32[1, $B, $T, 8]) {\n"
    "  %y = dwconv %x, %w {grid = [$N, $N], pad = [$P, $P]} : f32[$B, $T, $C]\n"
    "  %z = add %y, %c : f32[$B, $T, $C]\n"
    "  %a = silu %z : f32[$B, $T, $C]\n"
    "  %a4 = reshape %a {shape = [$B, $T, 1, $C]} : f32[$B, $T, 1, $C]\n"
    "  %e = einsum %a4, %p {spec = \"bnsc,esc->sbne\", precision = \"bf16\"} : f32[1, $B, "
    "$T, 8]\n"
    "  return %a, %e\n"
    "}\n";

static const char ask_blocks[] =
    "kernel @body(%x: f32[$B, $T, $C], %w: f32[$C, $K, $K], %m: f32[$F, 4, 4]) -> (f32[$B, "
    "$T, $C], f32[$B, $T, $F, 4]) {\n"
    "  %y = dwconv %x, %w {grid = [$N, $N], pad = [$P, $P]} : f32[$B, $T, $C]\n"
    "  %a = silu %y : f32[$B, $T, $C]\n"
    "  %a4 = reshape %a {shape = [$B, $T, $F, 4]} : f32[$B, $T, $F, 4]\n"
    "  %e = einsum %a4, %m {spec = \"bngi,goi->bngo\"} : f32[$B, $T, $F, 4]\n"
    "  return %a, %e\n"
    "}\n";

static const char ask_adjoints[] =
    "kernel @body(%x: f32[$B, $T, $C], %dy: f32[$B, $T, $C], %w: f32[$C, $K, $K]) -> "
    "(f32[$C, $K, $K], f32[$C], f32[$B, $T, $C]) {\n"
    "  %dw = dwconv_dw %x, %dy {grid = [$N, $N], pad = [$P, $P], kernel = [$K, $K]} : "
    "f32[$C, $K, $K]\n"
    "  %db = reduce_sum %dy {axes = [0, 1]} : f32[$C]\n"
    "  %dx = dwconv_dx %dy, %w {grid = [$N, $N], pad = [$P, $P]} : f32[$B, $T, $C]\n"
    "  return %dw, %db, %dx\n"
    "}\n";

static const char ask_block_adjoints[] =
    "kernel @body(%x: f32[$B, $T, $C], %dy: f32[$B, $T, $C], %w: f32[$C, $K, $K], %m: "
    "f32[$F, 4, 4]) -> (f32[$C, $K, $K], f32[$C], f32[$B, $T, $F, 4]) {\n"
    "  %dw = dwconv_dw %x, %dy {grid = [$N, $N], pad = [$P, $P], kernel = [$K, $K]} : "
    "f32[$C, $K, $K]\n"
    "  %db = reduce_sum %dy {axes = [0, 1]} : f32[$C]\n"
    "  %dx = dwconv_dx %dy, %w {grid = [$N, $N], pad = [$P, $P]} : f32[$B, $T, $C]\n"
    "  %d4 = reshape %dx {shape = [$B, $T, $F, 4]} : f32[$B, $T, $F, 4]\n"
    "  %e = einsum %d4, %m {spec = \"bngi,goi->bngo\"} : f32[$B, $T, $F, 4]\n"
    "  return %dw, %db, %e\n"
    "}\n";

static const char ask_take[] =
    "kernel @body(%x: f32[$B, $T, $C], %d: f32[$B, $T, $C], %s: f32[$B, $T, $C], %w: "
    "f32[$C, $K, $K]) -> (f32[$C, $K, $K], f32[$B, $T, $C]) {\n"
    "  %g = sigmoid %s : f32[$B, $T, $C]\n"
    "  %dy = mul %d, %g : f32[$B, $T, $C]\n"
    "  %dw = dwconv_dw %x, %dy {grid = [$N, $N], pad = [$P, $P], kernel = [$K, $K]} : "
    "f32[$C, $K, $K]\n"
    "  %dx = dwconv_dx %dy, %w {grid = [$N, $N], pad = [$P, $P]} : f32[$B, $T, $C]\n"
    "  return %dw, %dx\n"
    "}\n";

static const char ask_tap_sums[] =
    "kernel @body(%x: f32[$B, $T, $C], %dy: f32[$B, $T, $C]) -> (f32[$C, $K, $K], f32[$C]) "
    "{\n"
    "  %dw = dwconv_dw %x, %dy {grid = [$N, $N], pad = [$P, $P], kernel = [$K, $K]} : "
    "f32[$C, $K, $K]\n"
    "  %db = reduce_sum %dy {axes = [0, 1]} : f32[$C]\n"
    "  return %dw, %db\n"
    "}\n";

static const char ask_block_sums[] =
    "kernel @body(%d: f32[$B, $N, $h, $K], %x: f32[$B, $N, $h, $V]) -> (f32[$h, $K, $V], "
    "f32[$D]) {\n"
    "  %w = einsum %d, %x {spec = \"bngo,bngi->goi\"} : f32[$h, $K, $V]\n"
    "  %r = reshape %d {shape = [$B, $N, $D]} : f32[$B, $N, $D]\n"
    "  %b = reduce_sum %r {axes = [0, 1]} : f32[$D]\n"
    "  return %w, %b\n"
    "}\n";

static const char ask_product[] =
    "kernel @body(%x: f32[$B, $N, $K], %w: f32[$V, $K], %r: f32[$B, $N, $V]) -> (f32[$B, "
    "$N, $V], f32[$B, $N, 1], f32[$B, $N, 1]) {\n"
    "  %p = einsum %x, %w {spec = \"bnc,ec->bne\", precision = \"bf16\"} : f32[$B, $N, $V]\n"
    "  %y = add %p, %r : f32[$B, $N, $V]\n"
    "  %s = reduce_sum %y {axes = [2], keep = 1} : f32[$B, $N, 1]\n"
    "  %c = constant {value = 0.005} : f32[]\n"
    "  %m = mul %s, %c : f32[$B, $N, 1]\n"
    "  %o = sub %y, %m : f32[$B, $N, $V]\n"
    "  %q = square %o : f32[$B, $N, $V]\n"
    "  %t = reduce_sum %q {axes = [2], keep = 1} : f32[$B, $N, 1]\n"
    "  return %y, %m, %t\n"
    "}\n";

static const char ask_attention[] =
    "func @body(%q: f32[$B, $N, $h, $K], %k: f32[$B, $N, $h, $K], %v: f32[$B, $N, $h, $V]) -> "
    "(f32[$B, $N, $h, $V], f32[$B, $N, $h]) {\n"
    "  %y, %l = attention %q, %k, %v {scale = 0.125, precision = \"bf16\"} : f32[$B, $N, $h, $V], "
    "f32[$B, $N, $h]\n"
    "  return %y, %l\n"
    "}\n";

#endif
