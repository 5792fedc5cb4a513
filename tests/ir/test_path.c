/* Paths: every order is a permutation, closed forms agree with indices, text round trips. */
#include "ir/path.h"
#include "tests/test.h"

static vtb_path parse(const char *text) {
  vtb_path p;
  vtb_error err = {0};
  CHECK_MSG(vtb_path_parse(text, &p, &err) == VTB_OK, "%s: %s", text, err.text);
  return p;
}

static int64_t *indices(const vtb_path *p) {
  int64_t *perm = malloc((size_t)(p->n + 1) * sizeof *perm);
  vtb_path_indices(p, perm);
  return perm;
}

static void check_permutation(const char *text) {
  vtb_path p = parse(text);
  int64_t *perm = indices(&p);
  char *seen = calloc((size_t)p.n, 1);
  for (int64_t t = 0; t < p.n; t++) {
    CHECK_MSG(perm[t] >= 0 && perm[t] < p.n && !seen[perm[t]], "%s is no permutation at %d", text,
              (int)t);
    if (perm[t] >= 0 && perm[t] < p.n) seen[perm[t]] = 1;
  }
  vtb_path_affine a;
  if (vtb_path_get_affine(&p, &a))
    for (int64_t t = 0; t < p.n; t++)
      CHECK_MSG(a.base + t / a.inner * a.outer_step + t % a.inner * a.inner_step == perm[t],
                "%s is not affine so", text);
  vtb_strbuf out = {0};
  vtb_path_print(&p, &out);
  vtb_path back = parse(out.at);
  CHECK_MSG(vtb_path_equal(&p, &back), "%s printed as %s", text, out.at);
  vtb_strbuf_free(&out);
  free(seen);
  free(perm);
  vtb_path_free(&p);
  vtb_path_free(&back);
}

TEST(all_orders_are_permutations) {
  static const char *const orders[] = {"rows",    "cols",   "snake", "diagonal",
                                       "hilbert", "frames", "wth",   "htw.snake"};
  static const char *const flips[] = {
      "", "~", ".hflip", ".vflip", ".hflip~", ".tflip.vflip", "~.vflip.hflip~"};
  static const char *const grids[] = {"1x1",   "1x7", "5x1", "3x5",   "4x6",   "8x8",  "7x3",
                                      "14x14", "2x9", "7",   "2x3x4", "3x1x5", "5x4x3"};
  static const char *const extras[] = {"", "+head=1", "+mid=2,at=1", "+head=2,mid=1,tail=3,at=1",
                                       "+tail=1"};
  char text[128];
  for (int o = 0; o < 8; o++)
    for (int f = 0; f < 7; f++)
      for (int g = 0; g < 13; g++)
        for (int e = 0; e < 5; e++) {
          snprintf(text, sizeof text, "%s%s@%s%s", orders[o], flips[f], grids[g], extras[e]);
          check_permutation(text);
        }
  check_permutation("[2,0,1]@1x3");
  check_permutation("[2,0,1,3]~.hflip@1x3+head=1");
}

static void check_indices(const char *text, const int64_t *want) {
  vtb_path p = parse(text);
  int64_t *perm = indices(&p);
  for (int64_t t = 0; t < p.n; t++)
    CHECK_MSG(perm[t] == want[t], "%s at %d is %d", text, (int)t, (int)perm[t]);
  free(perm);
  vtb_path_free(&p);
}

TEST(small_orders_by_hand) {
  check_indices("rows@2x3", (int64_t[]){0, 1, 2, 3, 4, 5});
  check_indices("cols@2x3", (int64_t[]){0, 3, 1, 4, 2, 5});
  check_indices("snake@2x3", (int64_t[]){0, 1, 2, 5, 4, 3});
  check_indices("diagonal@2x3", (int64_t[]){0, 1, 3, 2, 4, 5});
  check_indices("hilbert@2x2", (int64_t[]){0, 2, 3, 1});
  check_indices("rows.hflip@2x3", (int64_t[]){2, 1, 0, 5, 4, 3});
  check_indices("cols.vflip@2x3", (int64_t[]){3, 0, 4, 1, 5, 2});
  check_indices("cols~@2x3", (int64_t[]){5, 2, 4, 1, 3, 0});
  check_indices("rows~@1x4+mid=1,at=2", (int64_t[]){4, 3, 2, 1, 0});
  check_indices("cols@2x2+head=1,mid=1,tail=1,at=1", (int64_t[]){0, 1, 2, 4, 3, 5, 6});
  check_indices("rows.hflip@1x3+mid=1,at=1", (int64_t[]){3, 1, 2, 0});
}

TEST(small_orders_of_series_and_video_by_hand) {
  check_indices("rows~@4", (int64_t[]){3, 2, 1, 0});
  check_indices("cols@4", (int64_t[]){0, 1, 2, 3});
  check_indices("cols@2x2x2", (int64_t[]){0, 2, 1, 3, 4, 6, 5, 7});
  check_indices("frames@2x2x2", (int64_t[]){0, 4, 1, 5, 2, 6, 3, 7});
  check_indices("wht@2x2x2", (int64_t[]){0, 4, 2, 6, 1, 5, 3, 7});
  check_indices("wth@2x2x2", (int64_t[]){0, 2, 4, 6, 1, 3, 5, 7});
  check_indices("htw@2x2x2", (int64_t[]){0, 1, 4, 5, 2, 3, 6, 7});
  check_indices("rows.tflip@2x1x2", (int64_t[]){2, 3, 0, 1});
  check_indices("snake@2x2x2", (int64_t[]){0, 1, 3, 2, 6, 7, 5, 4});
  check_indices("frames.snake@2x1x2", (int64_t[]){0, 2, 3, 1});
  check_indices("diagonal@2x2x2", (int64_t[]){0, 1, 2, 4, 3, 5, 6, 7});
  check_indices("hilbert@2x2x2", (int64_t[]){0, 2, 6, 4, 5, 7, 3, 1});
}

/* Neighbours after each other: one step along one axis. */
static void check_steps(const char *text) {
  vtb_path p = parse(text);
  const vtb_grid *g = &p.grid;
  int64_t *perm = indices(&p);
  for (int64_t k = 1; k < p.n; k++) {
    int64_t a = perm[k], b = perm[k - 1];
    int64_t step = llabs(a % g->w - b % g->w) + llabs(a / g->w % g->h - b / g->w % g->h) +
                   llabs(a / g->w / g->h - b / g->w / g->h);
    CHECK_MSG(step == 1, "%s jumps at step %d", text, (int)k);
  }
  free(perm);
  vtb_path_free(&p);
}

TEST(snakes_and_curves_of_space_step_to_neighbours) {
  static const char *const paths[] = {"snake@3x4x5",     "frames.snake@3x4x5", "cols.snake@2x3x3",
                                      "wth.snake@5x2x3", "hilbert@2x2x2",      "hilbert@4x4x4",
                                      "hilbert@8x8x8",   "hilbert@4x8x8",      "hilbert@8x14x14",
                                      "hilbert@6x4x10",  "hilbert@16x8x8"};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) check_steps(paths[i]);
}

TEST(loops_are_affine_where_two_are_enough) {
  static const char *const yes[] = {"rows@3x4x5", "frames@3x4x5",     "frames.tflip~@3x4x5",
                                    "cols@1x4x5", "rows.hflip@2x3x4", "hwt@3x4x5",
                                    "wth@3x4x5",  "rows.tflip@3x4x5", "rows~@9"};
  static const char *const no[] = {"cols@3x4x5", "wht@3x4x5", "rows.vflip@3x4x5", "snake@3x4"};
  vtb_path_affine a;
  for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) {
    vtb_path p = parse(yes[i]);
    CHECK_MSG(vtb_path_get_affine(&p, &a), "%s is not affine", yes[i]);
  }
  for (size_t i = 0; i < sizeof no / sizeof *no; i++) {
    vtb_path p = parse(no[i]);
    CHECK_MSG(!vtb_path_get_affine(&p, &a), "%s is affine", no[i]);
  }
}

TEST(names_are_canonical) {
  static const char *const same[][2] = {
      {"thw@2x2x2", "rows@2x2x2"},   {"hwt@2x2x2", "frames@2x2x2"},
      {"twh~@2x2x2", "cols~@2x2x2"}, {"wh@2x2", "cols@2x2"},
      {"rows.snake@3", "snake@3"},   {"cols.snake@3x3", "cols.snake@3x3"},
      {"th@2x3x4", "wth@2x3x4"}};
  for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
    vtb_path p = parse(same[i][0]);
    vtb_strbuf s = {0};
    vtb_path_print(&p, &s);
    CHECK_STR(s.at, same[i][1]);
    vtb_strbuf_free(&s);
  }
}

TEST(reversing_twice_changes_nothing) {
  static const char *const pairs[][2] = {{"cols~~@3x5", "cols@3x5"},
                                         {"hilbert~~@4x6", "hilbert@4x6"},
                                         {"rows~@4x4", "rows.hflip.vflip@4x4"},
                                         {"snake.hflip.hflip@3x4", "snake@3x4"},
                                         {"rows~@2x3+head=1", "rows~@1x7"},
                                         {"[1,0]~@1x2", "rows@1x2"}};
  for (int i = 0; i < 6; i++) {
    vtb_path a = parse(pairs[i][0]), b = parse(pairs[i][1]);
    CHECK_MSG(vtb_path_equal(&a, &b), "%s and %s", pairs[i][0], pairs[i][1]);
    vtb_path_free(&a);
    vtb_path_free(&b);
  }
  vtb_path one = parse("snake@1x9"), other = parse("cols@2x2");
  CHECK(vtb_path_is_identity(&one) && !vtb_path_is_identity(&other));
  CHECK(!vtb_path_equal(&one, &other));
}

TEST(hilbert_steps_to_neighbours_on_even_grids) {
  static const int grids[][2] = {{2, 2},   {4, 4},   {8, 8},  {4, 6},  {6, 10},
                                 {14, 14}, {16, 16}, {12, 8}, {32, 32}};
  for (int g = 0; g < 9; g++) {
    char text[64];
    snprintf(text, sizeof text, "hilbert@%dx%d", grids[g][0], grids[g][1]);
    vtb_path p = parse(text);
    int64_t *perm = indices(&p);
    for (int64_t t = 1; t < p.n; t++) {
      int64_t di = llabs(perm[t] / p.grid.w - perm[t - 1] / p.grid.w),
              dj = llabs(perm[t] % p.grid.w - perm[t - 1] % p.grid.w);
      CHECK_MSG(di + dj == 1, "%s jumps at step %d", text, (int)t);
    }
    free(perm);
    vtb_path_free(&p);
  }
}

TEST(wrong_text_is_refused) {
  static const char *const bad[] = {"",
                                    "rows",
                                    "rows@",
                                    "rows@3x3x3x3",
                                    "tt@2x2x2",
                                    "diagonal.snake@2x2",
                                    "rows@1048576x1048576x1048576",
                                    "rows@3x",
                                    "rows@0x3",
                                    "rosw@2x2",
                                    "rows@2x2+",
                                    "rows@2x2+a=1",
                                    "rows@2x2 ",
                                    "[0,1]@1x3",
                                    "[0,0,1]@1x3",
                                    "[0,1,9]@1x3",
                                    "[0,1,2@1x3",
                                    "[]@1x1",
                                    "rows@2x2+mid=1,at=5",
                                    "rows@99999999x2",
                                    "rows@1048576x1048576",
                                    "rows@2x-2",
                                    "[99999999999999999999]@1x1"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    vtb_path p;
    vtb_error err = {0};
    CHECK_MSG(vtb_path_parse(bad[i], &p, &err) == VTB_E_INPUT && err.text[0], "\"%s\" was taken",
              bad[i]);
  }
}

TEST(a_layout_is_what_follows_the_order) {
  static const char *const good[] = {"1x1", "3x5",     "14x14+mid=1,at=98", "2x7+head=1,tail=2",
                                     "784", "8x14x14", "9+tail=1"};
  static const char *const bad[] = {"",         "0",    "0x3",       "3x0x3", "2x2x2x2",
                                    "rows@3x3", "3x3+", "3x3+at=10", "3x3 "};
  vtb_path p;
  vtb_error err = {0};
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    vtb_strbuf s = {0};
    CHECK(vtb_layout_parse(good[i], &p, &err) == VTB_OK && vtb_path_is_identity(&p));
    CHECK(p.n == vtb_grid_cells(&p.grid) + p.head + p.mid + p.tail);
    vtb_layout_print(&p, &s);
    CHECK_STR(s.at, good[i]);
    vtb_strbuf_free(&s);
  }
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    CHECK_MSG(vtb_layout_parse(bad[i], &p, &err) == VTB_E_INPUT, "\"%s\" was taken", bad[i]);
}

int main(void) {
  RUN(all_orders_are_permutations);
  RUN(small_orders_by_hand);
  RUN(small_orders_of_series_and_video_by_hand);
  RUN(snakes_and_curves_of_space_step_to_neighbours);
  RUN(loops_are_affine_where_two_are_enough);
  RUN(names_are_canonical);
  RUN(reversing_twice_changes_nothing);
  RUN(hilbert_steps_to_neighbours_on_even_grids);
  RUN(wrong_text_is_refused);
  RUN(a_layout_is_what_follows_the_order);
  return test_done();
}
