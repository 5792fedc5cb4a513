/* The batch shared out over ranks: where sums stand, and in double precision, n interpreters at
 * once against one. */
#include "ir/diag_codes.h"
#include "ir/ops.h"
#include "runtime/base/update.h"
#include "tests/passes/rank_check.h"

/* ---- what is shared out ---------------------------------------------------------------------- */

/* A quotient of two sums needs both, and then everybody has it. */
TEST(statistics) {
  check_ranks("entry func @f(%x: f32[B, 4], %w: f32[4]) -> (f32[B, 4], f32[4], f32[]) {\n"
              "  %one = constant {value = 1} : f32[B, 1]\n"
              "  %n = reduce_sum %one {axes = [0, 1]} : f32[]\n"
              "  %s = reduce_sum %x {axes = [0]} : f32[4]\n"
              "  %mean = div %s, %n : f32[4]\n"
              "  %y = sub %x, %mean : f32[B, 4]\n"
              "  %v = mul %mean, %w : f32[4]\n"
              "  %q = reduce_sum %v {axes = [0]} : f32[]\n"
              "  return %y, %v, %q\n}\n",
              2);
}

TEST(linear_chains_have_one_sum) {
  check_ranks("entry func @f(%x: f32[B, 4, 3], %w: f32[4, 3], %b: f32[4, 3]) -> (f32[3, 4]) {\n"
              "  %s = reduce_sum %x {axes = [0]} : f32[4, 3]\n"
              "  %p = mul %s, %w : f32[4, 3]\n"
              "  %z = constant {value = 0} : f32[4, 3]\n"
              "  %c = gt %b, %z : f32[4, 3]\n"
              "  %q = select %c, %p, %z : f32[4, 3]\n"
              "  %r = neg %q : f32[4, 3]\n"
              "  %d = sub %r, %s : f32[4, 3]\n"
              "  %t = transpose %d {perm = [1, 0]} : f32[3, 4]\n"
              "  return %t\n}\n",
              1);
  /* what one reader needs summed the others read so, too */
  check_ranks("entry func @f(%x: f32[B, 4], %w: f32[4]) -> (f32[4], f32[4]) {\n"
              "  %s = reduce_sum %x {axes = [0]} : f32[4]\n"
              "  %u = mul %s, %w : f32[4]\n"
              "  %t = tanh %s : f32[4]\n"
              "  return %u, %t\n}\n",
              1);
  /* a number that is the same on all is no part: it is added once */
  check_ranks("entry func @f(%x: f32[B, 4], %b: f32[4]) -> (f32[4]) {\n"
              "  %s = reduce_sum %x {axes = [0]} : f32[4]\n"
              "  %y = add %s, %b : f32[4]\n"
              "  return %y\n}\n",
              1);
}

/* One op on what a sum over the rows is, %s and %t, on what is the same everywhere, %w, and on
 * constants: what it makes is what one process makes of the whole sums, whatever the pass thinks is
 * linear. */
TEST(whatever_reads_sums) {
  static const char *const rows[] = {"neg %s",
                                     "abs %s",
                                     "exp %s",
                                     "tanh %s",
                                     "sigmoid %s",
                                     "relu %s",
                                     "floor %s",
                                     "stop_gradient %s",
                                     "add %s, %t",
                                     "add %s, %w",
                                     "add %w, %s",
                                     "add %s, %zero",
                                     "add %s, %one",
                                     "sub %s, %t",
                                     "sub %s, %w",
                                     "sub %w, %s",
                                     "sub %zero, %s",
                                     "sub %one, %s",
                                     "mul %s, %w",
                                     "mul %w, %s",
                                     "mul %s, %t",
                                     "mul %s, %s",
                                     "div %s, %w",
                                     "div %w, %s",
                                     "div %s, %t",
                                     "max %s, %t",
                                     "max %s, %zero",
                                     "min %s, %w",
                                     "gt %s, %t",
                                     "gt %s, %w",
                                     "select %c, %s, %t",
                                     "select %c, %s, %zero",
                                     "select %c, %s, %w",
                                     "select %c, %one, %s",
                                     "select %d, %s, %t",
                                     "select %d, %w, %zero",
                                     "select %d, %s, %zero",
                                     "select %n, %t, %zero",
                                     "select %n, %s, %t",
                                     "shift %s {axis = 0, by = 1}",
                                     "shift %s {axis = 0, by = 1, fill = 1}",
                                     "shift %s {axis = 0, by = -2, fill = -0.5}",
                                     "shift %s, %e {axis = 0, by = 1}",
                                     "shift %s, %f {axis = 0, by = 1}",
                                     "prefix_sum %s {axis = 0}",
                                     "permute %s {axis = 0, path = \"rows~@2x3\"}"};
  char text[1600];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    snprintf(text, sizeof text,
             "entry func @f(%%x: f32[B, N=6], %%y: f32[B, N=6], %%w: f32[N=6], %%e: f32[]) -> "
             "(f32[N=6]) {\n"
             "  %%s = reduce_sum %%x {axes = [0]} : f32[N=6]\n"
             "  %%t = reduce_sum %%y {axes = [0]} : f32[N=6]\n"
             "  %%f = reduce_sum %%t {axes = [0]} : f32[]\n"
             "  %%zero = constant {value = 0} : f32[N=6]\n"
             "  %%one = constant {value = 1} : f32[N=6]\n"
             "  %%c = gt %%w, %%zero : f32[N=6]\n"
             "  %%half = constant {value = 0.5} : f32[B, N=6]\n"
             "  %%above = gt %%x, %%half : f32[B, N=6]\n"
             "  %%n = reduce_sum %%above {axes = [0]} : f32[N=6]\n"
             "  %%xy = mul %%x, %%y : f32[B, N=6]\n" /* of %s and %t nothing else needs the sum */
             "  %%u = reduce_sum %%xy {axes = [0]} : f32[N=6]\n"
             "  %%d = gt %%u, %%zero : f32[N=6]\n"
             "  %%q = sub %%u, %%one : f32[N=6]\n"
             "  %%r = %s : f32[N=6]\n"
             "  %%p = mul %%r, %%w : f32[N=6]\n"
             "  %%z = add %%p, %%q : f32[N=6]\n"
             "  return %%z\n}\n",
             rows[i]);
    check_ranks(text, -1);
  }
}

/* The same of ops whose results have another shape. */
TEST(whatever_moves_sums) {
  static const char *const rows[][2] = {
      {"slice %s {axis = 0, start = 1, limit = 4}", "f32[3]"},
      {"slice %s {axis = 0, start = 0, limit = 6, step = 2}", "f32[3]"},
      {"concat %s, %w {axis = 0}", "f32[12]"},
      {"concat %s, %t {axis = 0}", "f32[12]"},
      {"concat %s, %one {axis = 0}", "f32[12]"},
      {"concat %zero, %s {axis = 0}", "f32[12]"},
      {"pad %s {axis = 0, low = 1, high = 2}", "f32[9]"},
      {"reshape %s {shape = [2, 3]}", "f32[2, 3]"},
      {"broadcast %s {shape = [2, 6]}", "f32[2, 6]"},
      {"reduce_sum %s {axes = [0]}", "f32[]"},
      {"reduce_max %s {axes = [0]}", "f32[]"},
      {"einsum %s, %w {spec = \"n,n->n\"}", "f32[6]"},
      {"einsum %s, %t {spec = \"n,m->nm\"}", "f32[6, 6]"},
      {"einsum %w, %t {spec = \"n,n->\"}", "f32[]"},
      {"einsum %s, %w, %w {spec = \"n,n->n\"}", "f32[6]"},
      {"einsum %w, %w, %s {spec = \"n,n->n\"}", "f32[6]"}};
  char text[1200];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    snprintf(text, sizeof text,
             "entry func @f(%%x: f32[B, 6], %%y: f32[B, 6], %%w: f32[6]) -> (%s, f32[6]) {\n"
             "  %%s = reduce_sum %%x {axes = [0]} : f32[6]\n"
             "  %%t = reduce_sum %%y {axes = [0]} : f32[6]\n"
             "  %%zero = constant {value = 0} : f32[6]\n"
             "  %%one = constant {value = 1} : f32[6]\n"
             "  %%q = sub %%t, %%one : f32[6]\n"
             "  %%r = %s : %s\n"
             "  return %%r, %%q\n}\n",
             rows[i][1], rows[i][0], rows[i][1]);
    check_ranks(text, -1);
  }
}

TEST(products) {
  check_ranks(
      "entry func @f(%x: f32[B, N=5, 4], %y: f32[B, N=5, 3], %w: f32[3, 2], %m: f32[4, 3]) -> "
      "(f32[4, 2], f32[4, 3], f32[B, N=5, 4]) {\n"
      "  %g = einsum %x, %y {spec = \"bnc,bne->ce\"} : f32[4, 3]\n"
      "  %h = einsum %g, %w {spec = \"ce,ed->cd\"} : f32[4, 2]\n"
      "  %k = einsum %x, %y, %m {spec = \"bnc,bne->ce\"} : f32[4, 3]\n"
      "  %z = einsum %y, %k {spec = \"bne,ce->bnc\"} : f32[B, N=5, 4]\n"
      "  return %h, %k, %z\n}\n",
      2);
}

/* Of a table, of each row's own, and the sums that are gradients of both. */
TEST(rows_at_indices) {
  check_ranks("entry func @f(%x: f32[B, 5, 4], %t: f32[7, 4], %at: f32[B, 3]) -> "
              "(f32[B, 3, 4], f32[B, 3, 4], f32[7, 4], f32[B, 5, 4], f32[2, 4]) {\n"
              "  %six = constant {value = 6} : f32[]\n"
              "  %far = mul %at, %six : f32[B, 3]\n"
              "  %i = cast %far {to = \"i32\"} : i32[B, 3]\n"
              "  %k = constant {data = [6, 2]} : i32[2]\n"
              "  %a = gather %x, %i {axis = 1} : f32[B, 3, 4]\n"
              "  %b = gather %t, %i {axis = 0} : f32[B, 3, 4]\n"
              "  %c = scatter_sum %a, %i {axis = 0, size = 7} : f32[7, 4]\n"
              "  %d = scatter_sum %b, %i {axis = 1, size = 5} : f32[B, 5, 4]\n"
              "  %e = gather %c, %k {axis = 0} : f32[2, 4]\n"
              "  return %a, %b, %c, %d, %e\n}\n",
              2);
}

/* Pairs of samples, moved and picked samples: what every rank makes of the rows of all. */
TEST(pairs) {
  check_ranks("entry func @f(%x: f32[B, 4], %y: f32[B, 4]) -> (f32[B], f32[], f32[B, 4]) {\n"
              "  %p = einsum %x, %y {spec = \"ic,jc->ij\"} : f32[B, B]\n"
              "  %m = reduce_max %p {axes = [1], keep = 1} : f32[B, 1]\n"
              "  %s = sub %p, %m : f32[B, B]\n"
              "  %e = exp %s : f32[B, B]\n"
              "  %r = reduce_sum %e {axes = [1]} : f32[B]\n"
              "  %t = reduce_sum %e {axes = [0, 1]} : f32[]\n"
              "  %d = einsum %e, %y {spec = \"ij,jc->ic\"} : f32[B, 4]\n"
              "  %z = mul %d, %x : f32[B, 4]\n"
              "  return %r, %t, %z\n}\n",
              2);
}

/* A row a sample that pairs make is a rank's own again where it meets one: activations stay where
 * they are. */
TEST(towers_stay_shared_out) {
  check_ranks("entry func @f(%x: f32[B, 4], %w: f32[3, 4]) -> (f32[3, 4]) {\n"
              "  %u = einsum %x, %w {spec = \"ic,dc->id\"} : f32[B, 3]\n"
              "  %p = einsum %u, %u {spec = \"id,jd->ij\"} : f32[B, B]\n"
              "  %e = tanh %p : f32[B, B]\n"
              "  %d = einsum %e, %u {spec = \"ij,jd->id\"} : f32[B, 3]\n"
              "  %v = mul %d, %u : f32[B, 3]\n"
              "  %g = einsum %v, %x {spec = \"id,ic->dc\"} : f32[3, 4]\n"
              "  return %g\n}\n",
              2);
}

TEST(samples_meet_across) {
  check_ranks("entry func @f(%x: f32[B]) -> (f32[B], f32[1, B]) {\n"
              "  %i = iota {axis = 0} : f32[B]\n"
              "  %c = reshape %i {shape = [-1, 1]} : f32[B, 1]\n"
              "  %a = reshape %x {shape = [1, -1]} : f32[1, B]\n"
              "  %d = mul %c, %a : f32[B, B]\n"
              "  %one = constant {value = 2} : f32[B, B]\n"
              "  %k = iota {axis = 1} : f32[B, B]\n"
              "  %e = mul %d, %one : f32[B, B]\n"
              "  %g = add %e, %k : f32[B, B]\n"
              "  %r = reduce_sum %g {axes = [1]} : f32[B]\n"
              "  %q = reduce_sum %g {axes = [0], keep = 1} : f32[1, B]\n"
              "  return %r, %q\n}\n",
              -1);
}

TEST(samples_move) {
  check_ranks("entry func @f(%x: f32[B, 4]) -> (f32[B, 4], f32[B, 4], f32[2, 4], f32[4]) {\n"
              "  %i = iota {axis = 0} : f32[B]\n"
              "  %five = constant {value = 5} : f32[B]\n"
              "  %j = sub %five, %i : f32[B]\n"
              "  %n = cast %j {to = \"i32\"} : i32[B]\n"
              "  %r = gather %x, %n {axis = 0} : f32[B, 4]\n"
              "  %s = prefix_sum %x {axis = 0} : f32[B, 4]\n"
              "  %k = constant {data = [1, 4]} : i32[2]\n"
              "  %g = gather %x, %k {axis = 0} : f32[2, 4]\n"
              "  %back = scatter_sum %r, %n {axis = 0, size = -1} : f32[B, 4]\n"
              "  %m = reduce_max %back {axes = [0]} : f32[4]\n"
              "  return %r, %s, %g, %m\n}\n",
              -1);
}

/* Two batches end to end are each shared out. */
TEST(joined_batches) {
  check_ranks("entry func @f(%x: f32[B, 4], %y: f32[B, 4]) -> (f32[B, 4], f32[4], f32[B]) {\n"
              "  %a = reshape %x {shape = [1, -1, 4]} : f32[1, B, 4]\n"
              "  %b = reshape %y {shape = [1, -1, 4]} : f32[1, B, 4]\n"
              "  %j = concat %a, %b {axis = 0} : f32[2, B, 4]\n"
              "  %z = reshape %j {shape = [-2, 4]} : f32[2*B, 4]\n"
              "  %p = einsum %z, %z {spec = \"ic,jc->ij\"} : f32[2*B, 2*B]\n"
              "  %r = reduce_sum %p {axes = [1]} : f32[2*B]\n"
              "  %q = reshape %r {shape = [2, -1]} : f32[2, B]\n"
              "  %u = slice %q {axis = 0, start = 1, limit = 2} : f32[1, B]\n"
              "  %v = reshape %u {shape = [-1]} : f32[B]\n"
              "  %s = reduce_sum %z {axes = [0]} : f32[4]\n"
              "  %k = reshape %z {shape = [2, -1, 4]} : f32[2, B, 4]\n"
              "  %l = slice %k {axis = 0, start = 1, limit = 2} : f32[1, B, 4]\n"
              "  %m = reshape %l {shape = [-1, 4]} : f32[B, 4]\n"
              "  return %m, %s, %v\n}\n",
              -1);
}

TEST(rows_inside) {
  check_ranks(
      "entry func @f(%x: f32[B, N=6, 4], %k: f32[4, 3, 3]) -> (f32[6, B, 2, 2], f32[4, 3, 3]) {\n"
      "  %t = transpose %x {perm = [1, 0, 2]} : f32[6, B, 4]\n"
      "  %r = reshape %t {shape = [6, -1, 2, 2]} : f32[6, B, 2, 2]\n"
      "  %d = dwconv_dw %x, %x {grid = [2, 3], pad = [1, 1], kernel = [3, 3]} : f32[4, 3, 3]\n"
      "  return %r, %d\n}\n",
      1);
}

TEST(numbers_of_rows) {
  check_ranks(
      "entry func @f(%seed: i32[], %x: f32[B, 3]) -> (f32[B, 3], f32[B], f32[B, 1], f32[2]) {\n"
      "  %i = iota {axis = 0} : f32[B, 1]\n"
      "  %a, %u = call @g(%seed, %x) : f32[B, 3], f32[B]\n"
      "  %r = random %seed {stream = 9} : f32[2]\n"
      "  return %a, %u, %i, %r\n}\n"
      "func @g(%seed: i32[], %x: f32[B, 3]) -> (f32[B, 3], f32[B]) {\n"
      "  %u = random %seed {stream = 1} : f32[B, 3]\n"
      "  %v = random %seed {stream = 2} : f32[B]\n"
      "  %y = mul %u, %x : f32[B, 3]\n"
      "  return %y, %v\n}\n",
      0);
}

/* Sums of what calls return stand behind the calls; of what calls need themselves in the callee. */
TEST(calls) {
  static const char text[] = "entry func @f(%x: f32[B, 3], %w: f32[3]) -> (f32[B, 3], f32[3]) {\n"
                             "  %y, %g, %z = call @g(%x, %w) : f32[B, 3], f32[3], f32[3]\n"
                             "  %t, %h, %o = call @g(%y, %w) : f32[B, 3], f32[3], f32[3]\n"
                             "  %s = add %g, %h : f32[3]\n"
                             "  %u = add %s, %z : f32[3]\n"
                             "  return %t, %u\n}\n"
                             "func @g(%x: f32[B, 3], %w: f32[3]) -> (f32[B, 3], f32[3], f32[3]) {\n"
                             "  %m = reduce_sum %x {axes = [0]} : f32[3]\n"
                             "  %e = tanh %m : f32[3]\n"
                             "  %y = mul %x, %e : f32[B, 3]\n"
                             "  %p = mul %y, %w : f32[B, 3]\n"
                             "  %d = reduce_sum %p {axes = [0]} : f32[3]\n"
                             "  %none = constant {value = 0} : f32[3]\n"
                             "  return %y, %d, %none\n}\n";
  check_ranks(text, 2);
  vtb_module *m = parse_ir(text);
  vtb_diags d = {0};
  vtb_module *part = shared(m, rank_count, &d);
  CHECK(part && part->entry->returns[1]->def->op == VTB_OP_sum_ranks);
  vtb_module_free(part);
  vtb_module_free(m);
}

/* A state that begins with zeros collects parts of a sum over all steps. */
TEST(folds) {
  check_ranks(
      "entry func @f(%x: f32[B, N=4, 3], %s: f32[B, 3], %w: f32[3]) -> (f32[B, N=4, 3], f32[3]) "
      "{\n"
      "  %zero = constant {value = 0} : f32[3]\n"
      "  %y, %e, %d = fold @step(%s, %zero, %x, %w) {states = 2, seqs = 1} : f32[B, N=4, 3], "
      "f32[B, 3], f32[3]\n"
      "  return %y, %d\n}\n"
      "func @step(%s: f32[B, 3], %d: f32[3], %x: f32[B, 1, 3], %w: f32[3]) -> (f32[B, 3], f32[3], "
      "f32[B, 1, 3]) {\n"
      "  %r = reshape %x {shape = [-1, 3]} : f32[B, 3]\n"
      "  %a = mul %s, %w : f32[B, 3]\n"
      "  %b = add %a, %r : f32[B, 3]\n"
      "  %c = tanh %b : f32[B, 3]\n"
      "  %g = reduce_sum %c {axes = [0]} : f32[3]\n"
      "  %t = add %d, %g : f32[3]\n"
      "  %y = reshape %c {shape = [-1, 1, 3]} : f32[B, 1, 3]\n"
      "  return %c, %t, %y\n}\n",
      1);
}

/* Steps that count: a sum that a state collects, of rows that a loop hands on. */
TEST(loops) {
  check_ranks("entry func @f(%x: f32[B, 3], %w: f32[3]) -> (f32[B, 3], f32[3]) {\n"
              "  %zero = constant {value = 0} : f32[3]\n  %i = constant {value = 0} : i32[]\n"
              "  %n, %y, %d = fold @step(%i, %x, %zero, %w) {states = 3, seqs = 0, steps = 4} : "
              "i32[], f32[B, 3], f32[3]\n  return %y, %d\n}\n"
              "func @step(%i: i32[], %x: f32[B, 3], %d: f32[3], %w: f32[3]) -> (i32[], f32[B, 3], "
              "f32[3]) {\n  %one = constant {value = 1} : i32[]\n  %n = add %i, %one : i32[]\n"
              "  %k = cast %i {to = \"f32\"} : f32[]\n  %a = mul %x, %w : f32[B, 3]\n"
              "  %b = add %a, %k : f32[B, 3]\n  %c = tanh %b : f32[B, 3]\n"
              "  %g = reduce_sum %c {axes = [0]} : f32[3]\n  %t = add %d, %g : f32[3]\n"
              "  return %n, %c, %t\n}\n",
              1);
}

/* Rows end a loop when they are done: each process has a number of steps of its own, which goes
 * where its own rows go and nowhere else. */
static void check_count(const char *read, const char *refusal) {
  vtb_strbuf s = {0}, said = {0};
  vtb_strbuf_printf(
      &s,
      "entry func @f(%%x: f32[B, 3]) -> (f32[B, 3], f32[]) {\n"
      "  %%g = reduce_sum %%x {axes = [1]} : f32[B]\n  %%i = constant {value = 0} : i32[]\n"
      "  %%h, %%n, %%y = fold @step(%%g, %%i, %%x) {states = 3, seqs = 0, steps = 5, while = 1} : "
      "f32[B], i32[], f32[B, 3]\n  %%z = constant {value = 0} : f32[]\n  %s\n"
      "  return %%y, %%c\n}\n"
      "func @step(%%g: f32[B], %%i: i32[], %%x: f32[B, 3]) -> (f32[B], i32[], f32[B, 3]) {\n"
      "  %%one = constant {value = 1} : i32[]\n  %%n = add %%i, %%one : i32[]\n"
      "  %%h = relu %%g : f32[B]\n  %%y = tanh %%x : f32[B, 3]\n  return %%h, %%n, %%y\n}\n"
      "func @back(%%a: f32[], %%n: i32[]) -> (f32[]) {\n  %%b = tanh %%a : f32[]\n"
      "  return %%b\n}\n",
      read);
  vtb_module *m = parse_ir(s.at);
  vtb_diags d = {0};
  vtb_module *made = m ? shared(m, rank_count, &d) : NULL;
  vtb_diags_render(&d, &said, false);
  CHECK_MSG(m && (refusal ? said.at && strstr(said.at, refusal) != NULL : made != NULL), "%s",
            vtb_strbuf_text(&said));
  if (made) vtb_module_free(made);
  if (m) vtb_module_free(m);
  vtb_diags_free(&d);
  vtb_strbuf_free(&s);
  vtb_strbuf_free(&said);
}

TEST(loops_that_rows_end) {
  check_count("%c = fold @back(%z, %n) {states = 1, seqs = 0, steps = 5, limit = 1} : f32[]", NULL);
  check_count("%c = cast %n {to = \"f32\"} : f32[]", "when its own rows are done");
}

/* ---- what is not ----------------------------------------------------------------------------- */

TEST(refusals) {
  static const char *const cases[][2] = {
      {"%y = reshape %x {shape = [4, -1, 3]} : f32[4, B, 3]", "reshape cannot"},
      {"%y = einsum %x, %x {spec = \"bnc,anc->ba\"} : f32[B, B]",
       "rows of a batch with one another"},
      {"%t = transpose %x {perm = [1, 2, 0]} : f32[4, 3, B]\n  %y = random %s {stream = 1} : "
       "f32[4, B]",
       "its rows are not the outermost axis"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    vtb_strbuf s = {0}, said = {0};
    const char *type = strrchr(cases[i][0], ':') + 2;
    vtb_strbuf_printf(&s,
                      "entry func @f(%%x: f32[B, N=4, 3], %%s: i32[]) -> (%s) {\n  %s\n  return "
                      "%%y\n}\n",
                      type, cases[i][0]);
    vtb_module *m = parse_ir(s.at);
    if (!m) continue;
    vtb_diags d = {0}, none = {0};
    CHECK_MSG(shared(m, rank_count, &d) == NULL, "%s", s.at);
    vtb_diags_render(&d, &said, false);
    CHECK_MSG(strstr(said.at, cases[i][1]) && strstr(said.at, "VTB3203"), "%s", said.at);
    vtb_module *alone = shared(m, 1, &none);
    char *before = print_ir(m), *after = print_ir(alone);
    CHECK_STR(after, before); /* one process may do anything */
    vtb_free(before), vtb_free(after);
    vtb_module_free(alone);
    vtb_diags_free(&d);
    vtb_strbuf_free(&s);
    vtb_strbuf_free(&said);
    vtb_module_free(m);
  }
}

int main(void) {
  RUN(statistics);
  RUN(linear_chains_have_one_sum);
  RUN(whatever_reads_sums);
  RUN(whatever_moves_sums);
  RUN(products);
  RUN(rows_at_indices);
  RUN(rows_inside);
  RUN(numbers_of_rows);
  RUN(calls);
  RUN(folds);
  RUN(loops);
  RUN(loops_that_rows_end);
  RUN(pairs);
  RUN(towers_stay_shared_out);
  RUN(samples_meet_across);
  RUN(samples_move);
  RUN(joined_batches);
  RUN(refusals);
  return test_done();
}
