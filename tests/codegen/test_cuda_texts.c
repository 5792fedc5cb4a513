/* Texts of kernels (codegen/cuda/compile/text.h): all of them declare what they use and nothing
 * else, their arrays lie side by side; and what is wrong in a text is said. */
#include "codegen/cuda/compile/text.h"
#include "codegen/cuda/texts.h"
#include "tests/test.h"

static bool is_kernel(const char *file) { return vtb_ends_with(file, ".cu"); }

static void fill_all(vtb__text *t, int64_t number) {
  for (size_t i = 0; i < t->all.n; i++) {
    const vtb__declaration *d = &t->all.at[i];
    if (d->kind == VTB__TEXT_NUMBER)
      vtb__text_fill_number(t, d->name, vtb_streq(d->type, "bool") ? number % 2 : number);
    else if (d->kind == VTB__TEXT_TYPE)
      vtb__text_fill(t, d->name, number % 2 ? "float" : "vtb_bf16");
    else if (d->kind <= VTB__TEXT_CODE)
      vtb__text_fill(t, d->name, "0");
  }
}

static bool overlap(const vtb__text_array *a, const vtb__text_array *b) {
  return a->at < b->at + b->bytes && b->at < a->at + a->bytes;
}

/* Arrays that begin `over` others overlap on purpose. */
static void check_arrays(vtb__text *t) {
  vtb__text_arrays arrays = {0};
  vtb_error err = {0};
  int64_t bytes = -1;
  CHECK_MSG(vtb__text_layout(t, &arrays, &bytes, &err) == VTB_OK, "%s", err.text);
  for (size_t i = 0; i < arrays.n; i++) {
    const vtb__text_array *a = &arrays.at[i];
    CHECK_MSG(a->at % 16 == 0 && a->at + a->bytes <= bytes, "%s: %s", t->file, a->name);
    for (size_t j = 0; j < i; j++)
      CHECK_MSG(a->over || arrays.at[j].over || !overlap(a, &arrays.at[j]), "%s: %s and %s",
                t->file, a->name, arrays.at[j].name);
  }
  vtb_vec_free(&arrays);
}

static void check_text(const char *file, int64_t number) {
  vtb_arena arena;
  vtb_error err = {0};
  vtb__text t;
  vtb_arena_init(&arena);
  CHECK_MSG(vtb__text_parse(file, vtb__text_find(file), &arena, &t, &err) == VTB_OK, "%s",
            err.text);
  CHECK_MSG(vtb__text_check(&t, &err) == VTB_OK, "%s", err.text);
  fill_all(&t, number);
  check_arrays(&t);
  vtb__text_free(&t);
  vtb_arena_free(&arena);
}

TEST(every_text_declares_what_it_uses) {
  for (int i = 0; i < vtb__cuda_n_texts; i++) {
    if (!is_kernel(vtb__cuda_texts[i].name)) continue;
    check_text(vtb__cuda_texts[i].name, 64);
    check_text(vtb__cuda_texts[i].name, 1);
  }
}

TEST(parts_stand_in_the_body) {
  const char *part = vtb__text_find("update.cuh");
  vtb_arena arena;
  vtb_error err = {0};
  vtb__text t;
  vtb_strbuf want = {0};
  vtb_arena_init(&arena);
  CHECK(vtb__text_parse("good.cu",
                        "#include \"scans.cuh\"\nf(1);\n#include \"update.cuh\"\n"
                        "#include \"update.cuh\"\ng(2);\n",
                        &arena, &t, &err) == VTB_OK);
  vtb_strbuf_printf(&want, "f(1);\n%s%sg(2);\n", part, part);
  CHECK_STR(t.body, want.at);
  CHECK(t.all.n == 1 && vtb_streq(t.all.at[0].name, "scans.cuh"));
  vtb_strbuf_free(&want);
  vtb__text_free(&t);
  vtb_arena_free(&arena);
}

/* What is wrong with a text whose holes are filled with `number`; NULL: nothing. */
static const char *fault(const char *source, int64_t number) {
  static vtb_error err;
  vtb_arena arena;
  vtb__text t;
  vtb_strbuf out = {0};
  int64_t bytes;
  err = (vtb_error){0};
  vtb_arena_init(&arena);
  vtb_status status = vtb__text_parse("bad.cu", source, &arena, &t, &err);
  if (status == VTB_OK) status = vtb__text_check(&t, &err);
  if (status == VTB_OK && number >= 0) fill_all(&t, number);
  if (status == VTB_OK) status = vtb__text_write(&t, &out, &bytes, &err);
  vtb__text_free(&t);
  vtb_strbuf_free(&out);
  vtb_arena_free(&arena);
  return status == VTB_OK ? NULL : err.text;
}

TEST(faults_are_named) {
  CHECK_STR(fault("hole int N;\nf(n);", 1), "bad.cu: N is declared but not used");
  CHECK_STR(fault("hole expr q;\nf(q);", 1), "bad.cu: q is declared but not used");
  CHECK_STR(fault("hole int N;\nf(N, ${k});", 1), "bad.cu: ${k} is not declared as expr or code");
  CHECK_STR(fault("hole int N, N;\nf(N);", 1), "bad.cu: N is declared twice");
  CHECK_STR(fault("hole int N;\nf(N);", -1), "bad.cu: nothing for hole N");
  CHECK_STR(fault("hole int N;\nrequire N % 8 == 0;\nf(N);", 12), "bad.cu requires N % 8 == 0");
  CHECK_STR(fault("hole int N;\nshared float s[N * M];\ns[0] = 1;", 1), "bad.cu: no number 'M'");
  CHECK_STR(fault("hole int N;\nshared float s[4 / (N - 1)];\ns[0] = 1;", 1),
            "bad.cu: division by zero before ''");
  CHECK_STR(fault("constexpr int A = B, B = A;\nshared float s[A];\ns[0] = B;", 1),
            "bad.cu: defined by itself: 'A'");
  CHECK_STR(fault("shared vtb_x s[4];\ns[0] = 1;", 1), "bad.cu: vtb_x s[4] at 0");
  CHECK_STR(fault("shared float s[4], t[4] over s + 4;\ns[0] = t[0];", 1),
            "bad.cu: float t[4] at 4");
  CHECK_STR(fault("hole big N;\nf(N);", 1), "bad.cu: no kind of holes at ' N;\nf(N);'");
}

TEST(texts_say_what_a_block_does) {
  const char *source = "hole int N;\n"
                       "constexpr int P = N * 4;\n"
                       "cost issue = P + 3; /* instructions */\n"
                       "cost tensor = N > 2 ? 2 * P * 100000 * 100000 : 0;\n"
                       "f(P);\n";
  vtb_arena arena;
  vtb_error err = {0};
  vtb__text t;
  vtb__text_costs costs;
  vtb_strbuf out = {0};
  int64_t bytes;
  vtb_arena_init(&arena);
  CHECK(vtb__text_parse("good.cu", source, &arena, &t, &err) == VTB_OK);
  CHECK(vtb__text_check(&t, &err) == VTB_OK);
  vtb__text_fill_number(&t, "N", 5);
  CHECK(vtb__text_costs_of(&t, &costs, &err) == VTB_OK);
  CHECK(costs.any && costs.issue == 23 && costs.tensor == 400000000000 && costs.chain == 0);
  CHECK(vtb__text_write(&t, &out, &bytes, &err) == VTB_OK);
  CHECK_STR(out.at, "  constexpr int N = 5;\n  constexpr int P = N * 4;\nf(P);\n");
  vtb__text_free(&t);
  vtb_strbuf_free(&out);
  CHECK_STR(fault("hole int N;\ncost issues = N;\nf(N);", 1), "bad.cu: no cost is named issues");
  CHECK_STR(fault("cost issue N;\nf();", 1), "bad.cu: no '=' at 'N;\nf();'");
  CHECK(vtb__text_parse("bad.cu", "cost issue = 1 - 2;\nf();", &arena, &t, &err) == VTB_OK);
  CHECK(vtb__text_costs_of(&t, &costs, &err) == VTB_E_INTERNAL);
  CHECK_STR(err.text, "bad.cu: cost issue is -1");
  vtb__text_free(&t);
  vtb_arena_free(&arena);
}

TEST(a_text_becomes_a_kernel) {
  const char *source = "/* What it does. */\n"
                       "hole int N; /* tokens */\n"
                       "hole bool LAST;\n"
                       "hole type T;\n"
                       "hole expr q; /* a query */\n"
                       "constexpr int P = LAST ? (N + 7) / 8 * 8 + 4 : 1,\n"
                       "              PAIR = 2 * P;\n"
                       "require N >= 1 && N != 3;\n"
                       "shared T tile[64 * P];\n"
                       "shared float sums[PAIR];\n"
                       "shared float all[3 * P * sizeof(T)] over LAST ? sums : tile;\n"
                       "/* The body. */\n"
                       "tile[N] = ${q} + sums[0] + all[0];\n";
  vtb_arena arena;
  vtb_error err = {0};
  vtb__text t;
  vtb_strbuf out = {0};
  int64_t bytes = 0;
  vtb_arena_init(&arena);
  CHECK(vtb__text_parse("good.cu", source, &arena, &t, &err) == VTB_OK);
  CHECK(vtb__text_check(&t, &err) == VTB_OK);
  vtb__text_fill_number(&t, "N", 9);
  vtb__text_fill_number(&t, "LAST", 1);
  vtb__text_fill(&t, "T", "vtb_bf16");
  vtb__text_fill(&t, "q", "q[N]");
  CHECK(vtb__text_value(&t, "P", &err) == 20);
  CHECK_MSG(vtb__text_write(&t, &out, &bytes, &err) == VTB_OK, "%s", err.text);
  CHECK_STR(out.at, "  constexpr int N = 9;\n"
                    "  constexpr bool LAST = true;\n"
                    "  typedef vtb_bf16 T;\n"
                    "  constexpr int P = LAST ? (N + 7) / 8 * 8 + 4 : 1, PAIR = 2 * P;\n"
                    "  VTB_SHARED(T, tile, 0, 1280);\n"
                    "  VTB_SHARED(float, sums, 2560, 40);\n"
                    "  VTB_SHARED(float, all, 2560, 120);\n"
                    "/* The body. */\n"
                    "tile[N] = q[N] + sums[0] + all[0];\n");
  CHECK(bytes == 2560 + 480);
  vtb__text_free(&t);
  vtb_strbuf_free(&out);
  vtb_arena_free(&arena);
}

int main(int argc, char **argv) {
  (void)argc, (void)argv;
  RUN(every_text_declares_what_it_uses);
  RUN(parts_stand_in_the_body);
  RUN(faults_are_named);
  RUN(texts_say_what_a_block_does);
  RUN(a_text_becomes_a_kernel);
  return test_done();
}
