#include "runtime/artefact/safetensors.h"
#include "tests/runtime/support.h"

/* A file from header text and n data bytes; malloc'd. */
static unsigned char *make_file(const char *header, size_t n_data, size_t *n) {
  size_t h = strlen(header);
  unsigned char *file = calloc(8 + h + n_data, 1);
  for (int i = 0; i < 8; i++) file[i] = (unsigned char)((uint64_t)h >> (8 * i));
  memcpy(file + 8, header, h);
  for (size_t i = 0; i < n_data; i++) file[8 + h + i] = (unsigned char)(i * 7 + 1);
  *n = 8 + h + n_data;
  return file;
}

TEST(damaged_headers_are_refused_with_the_reason) {
  static const struct {
    const char *header;
    size_t n_data;
    const char *reason;
  } cases[] = {
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"F32\","
       "\"shape\":[1],"
       "\"data_offsets\":[4,8]}}",
       8, "overlap"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 4, "outside"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8, "outside"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 8, "needs 8 bytes"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "before tensor a"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 8, "last 4 bytes"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"a\":{\"dtype\":\"F32\","
       "\"shape\":[1],"
       "\"data_offsets\":[4,8]}}",
       8, "twice"},
      {"{\"a\":{\"dtype\":\"F33\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
       "\"F33\" is not supported"},
      {"{\"a\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype"},
      {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "natural number"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]}}", 4, "natural number"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":1,\"data_offsets\":[0,4]}}", 4, "shape"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,4]}}", 4,
       "overflows"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
       "more than 8 axes"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "pair"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,1e300]}}", 4, "pair"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "data_offsets"},
      {"{\"a\":[1]}", 4, "not an object"},
      {"{\"__metadata__\":{\"k\":1}}", 0, "not a string"},
      {"{\"__metadata__\":[]}", 0, "not an object"},
      {"{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0, "twice"},
      {"{\"a\":", 0, "not valid JSON"},
      {"{} x", 0, "goes on after"},
      {"[1]", 0, "no JSON header"},
      {"{\"\xff\":{}}", 0, "not UTF-8"},
      {"{\"\xc0\x80\":{}}", 0, "not UTF-8"},
      {"{\"\xed\xa0\x80\":{}}", 0, "not UTF-8"},
      {"{\"a\\u0000b\":{}}", 0, "NUL"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    size_t n;
    unsigned char *file = make_file(cases[i].header, cases[i].n_data, &n);
    vtb_weights *w = NULL;
    CHECK_REFUSED(vtb_safetensors_parse("weights.safetensors", file, n, &w, err), cases[i].reason);
    CHECK_REFUSED(vtb_safetensors_parse("weights.safetensors", file, n, &w, err),
                  "weights.safetensors: ");
    CHECK(!w);
    vtb_weights_free(w);
    free(file);
  }
}

/* The header is one tensor "a" whose entry is `entry`, which is JSON or is not. */
static vtb_status parse_entry(const char *entry, vtb_weights **w, vtb_error *err) {
  vtb_strbuf header = {0};
  size_t n;
  vtb_strbuf_printf(&header, "{\"a\":%s}", entry);
  unsigned char *file = make_file(header.at, 4, &n);
  vtb_status status = vtb_safetensors_parse("f", file, n, w, err);
  vtb_strbuf_free(&header);
  free(file);
  return status;
}

TEST(what_is_no_json_is_refused) {
  static const char *const entries[] = {
      "",
      "tru",
      "nul",
      "01",
      "-",
      "1.",
      ".5",
      "1e",
      "1e999",
      "+1",
      "0x1",
      "NaN",
      "[1,]",
      "[,1]",
      "[1 2]",
      "[1",
      "{\"b\"}",
      "{\"b\" 1}",
      "{\"b\":1,}",
      "{1:2}",
      "'b'",
      "\"\n\"",
      "\"\\x\"",
      "\"\\u12g4\"",
      "\"\\ud800\"",
      "\"\\udc00\"",
      "\"\\ud800\\u0041\"",
  };
  for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
    vtb_weights *w = NULL;
    vtb_error err = {0};
    CHECK_MSG(parse_entry(entries[i], &w, &err) == VTB_E_INPUT && !w, "%s", entries[i]);
    CHECK_MSG(strstr(err.text, "not valid JSON (near byte "), "%s: %s", entries[i], err.text);
  }
}

TEST(nesting_has_a_limit) {
  enum { DEEP = 100000 };
  static char entry[2 * DEEP + 1];
  vtb_weights *w = NULL;
  for (int depth = 99; depth <= DEEP; depth += depth == 99 ? 1 : DEEP - 100) {
    memset(entry, '[', (size_t)depth);
    memset(entry + depth, ']', (size_t)depth);
    entry[2 * depth] = 0;
    CHECK_REFUSED(parse_entry(entry, &w, err), depth == 99 ? "not an object" : "not valid JSON");
  }
}

TEST(escapes_of_names_are_utf8) {
  static const char header[] = "{\"\\u00e9\\ud83d\\uDE00\\/\\\"\\t\" "
                               ":\n{\"shape\":[1e0],\"dtype\":\"F32\",\"other\":[true,null],"
                               "\"data_offsets\":[0,4.0]}} ";
  vtb_weights *w = NULL;
  size_t n;
  unsigned char *file = make_file(header, 4, &n);
  CHECK_OK(vtb_safetensors_parse("f", file, n, &w, err));
  CHECK(w && vtb_weights_find(w, "\xc3\xa9\xf0\x9f\x98\x80/\"\t"));
  vtb_weights_free(w);
  free(file);
}

TEST(absurd_header_lengths_are_refused) {
  unsigned char file[16] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, '{', '}'};
  vtb_weights *w = NULL;
  CHECK_REFUSED(vtb_safetensors_parse("f", file, 16, &w, err), "asks for a header of");
  memset(file, 0, 8);
  file[0] = 9;
  CHECK_REFUSED(vtb_safetensors_parse("f", file, 16, &w, err), "truncated");
  file[0] = 0;
  CHECK_REFUSED(vtb_safetensors_parse("f", file, 16, &w, err), "no JSON header");
  CHECK_REFUSED(vtb_safetensors_load("/nonexistent/f.safetensors", &w, err), "cannot open");
}

static vtb_weights *sample_store(void) {
  vtb_weights *w = vtb_weights_new();
  float f[6] = {1, -2, 3.5f, 0, 1e-30f, 7};
  int64_t i64[2] = {-5, INT64_C(1) << 40};
  unsigned char u8[3] = {0, 128, 255};
  vtb_weights_put(w, "z.bytes", VTB_ELEM_U8, 1, (int64_t[]){3}, u8);
  vtb_weights_put(w, "matrix \"quoted\" \\ \xc3\xa9", VTB_ELEM_F32, 2, (int64_t[]){2, 3}, f);
  vtb_weights_put(w, "scalar", VTB_ELEM_F32, 0, NULL, f);
  vtb_weights_put(w, "empty", VTB_ELEM_F32, 2, (int64_t[]){0, 4}, f);
  vtb_weights_put(w, "i64", VTB_ELEM_I64, 1, (int64_t[]){2}, i64);
  vtb_weights_set_meta(w, "format", "test\n\"x\"");
  vtb_weights_set_meta(w, "a", "b");
  return w;
}

TEST(round_trip_keeps_everything_and_is_stable) {
  vtb_weights *w = sample_store(), *back = NULL;
  const char *path = temp_path("a.safetensors"), *again = temp_path("b.safetensors");
  CHECK_OK(vtb_safetensors_save(path, w, err));
  CHECK_OK(vtb_safetensors_load(path, &back, err));
  CHECK(back && back->n == w->n);
  for (size_t i = 0; i < w->n; i++) {
    const vtb_weight *a = w->at[i], *b = vtb_weights_find(back, a->name);
    CHECK_MSG(b && b->elem == a->elem && b->rank == a->rank && b->count == a->count, "%s", a->name);
    if (b) CHECK(memcmp(a->data, b->data, (size_t)a->count * vtb_elem_bytes(a->elem)) == 0);
    if (b) CHECK(memcmp(a->dim, b->dim, sizeof a->dim) == 0);
  }
  CHECK_STR(vtb_weights_meta(back, "format"), "test\n\"x\"");
  CHECK_STR(vtb_weights_meta(back, "a"), "b");
  CHECK_OK(vtb_safetensors_save(again, back, err));
  size_t n1, n2;
  char *x = read_file(path, &n1), *y = read_file(again, &n2);
  CHECK(n1 == n2 && memcmp(x, y, n1) == 0);
  CHECK(((unsigned char)x[0] + 256 * (unsigned char)x[1]) % 8 == 0); /* data starts aligned */
  free(x);
  free(y);
  vtb_weights_free(back);
  vtb_weights_free(w);
}

TEST(every_truncation_is_refused_and_no_flipped_byte_crashes) {
  vtb_weights *w = sample_store(), *back = NULL;
  const char *path = temp_path("t.safetensors");
  CHECK_OK(vtb_safetensors_save(path, w, err));
  vtb_weights_free(w);
  size_t n;
  char *file = read_file(path, &n);
  for (size_t cut = 0; cut < n; cut++) {
    char *copy = malloc(cut ? cut : 1); /* exact size, so that a sanitizer sees reads beyond it */
    memcpy(copy, file, cut);
    CHECK_REFUSED(vtb_safetensors_parse("t", copy, cut, &back, err), "t: ");
    free(copy);
  }
  for (size_t at = 0; at < n; at++)
    for (int bit = 0; bit < 8; bit++) {
      file[at] ^= (char)(1 << bit);
      vtb_error err = {0};
      back = NULL;
      if (vtb_safetensors_parse("t", file, n, &back, &err) == VTB_OK)
        vtb_weights_free(back);
      else
        CHECK(err.text[0]);
      file[at] ^= (char)(1 << bit);
    }
  free(file);
}

TEST(element_types_convert) {
  vtb_weights *w = vtb_weights_new();
  const uint16_t half[] = {0x3c00, 0xc000, 0x0001, 0x7bff, 0x7c00, 0x8000};
  const double half_want[] = {1, -2, 0x1p-24, 65504, INFINITY, 0};
  const uint16_t bf[] = {0x3f80, 0xc040, 0x7f80};
  const double f64[] = {0.1, -3e10};
  const int32_t i32[] = {-7, 2147483647};
  double d[6];
  float f[6];
  int32_t k[6];
  vtb_weight_read_f64(vtb_weights_put(w, "h", VTB_ELEM_F16, 1, (int64_t[]){6}, half), d);
  for (int i = 0; i < 6; i++) CHECK(d[i] == half_want[i]);
  vtb_weight_read_f32(vtb_weights_put(w, "b", VTB_ELEM_BF16, 1, (int64_t[]){3}, bf), f);
  CHECK((double)f[0] == 1 && (double)f[1] == -3 && isinf(f[2]));
  vtb_weight_read_f32(vtb_weights_put(w, "d", VTB_ELEM_F64, 1, (int64_t[]){2}, f64), f);
  CHECK(f[0] == 0.1f && f[1] == -3e10f);
  CHECK_REFUSED(vtb_weight_read_i32(vtb_weights_find(w, "d"), k, err),
                "tensor d: element 0 is 0.1");
  CHECK_OK(
      vtb_weight_read_i32(vtb_weights_put(w, "i", VTB_ELEM_I32, 1, (int64_t[]){2}, i32), k, err));
  CHECK(k[0] == -7 && k[1] == 2147483647);
  vtb_weights_free(w);
}

TEST(writing_fails_cleanly_and_keeps_the_old_file) {
  vtb_weights *w = sample_store();
  CHECK_REFUSED(vtb_safetensors_save("/nonexistent/x.safetensors", w, err),
                "cannot write /nonexistent/x.safetensors");
  vtb_weights_free(w);
}

TEST(binding_names_what_is_missing_or_misshapen) {
  vtb_tensor_info infos[] = {
      {.name = "image", .io = VTB_IO_INPUT, .rank = 1, .dim = {4}},
      {.name = "head.weight", .io = VTB_IO_PARAM, .rank = 2, .dim = {2, 3}},
      {.name = "head.bias", .io = VTB_IO_PARAM, .rank = 1, .dim = {2}},
  };
  vtb_program p = {.n_tensors = 3, .tensors = infos};
  float weight[6], bias[2];
  void *buffers[3] = {NULL, weight, bias};
  float data[6] = {1, 2, 3, 4, 5, 6};
  int missing, unused;
  vtb_weights *w = vtb_weights_new();
  vtb_weights_put(w, "head.weight", VTB_ELEM_F32, 2, (int64_t[]){2, 3}, data);
  vtb_weights_put(w, "head.bais", VTB_ELEM_F32, 1, (int64_t[]){2}, data);
  CHECK_REFUSED(vtb_weights_bind(&p, w, NULL, buffers, NULL, NULL, err),
                "tensor head.bias is missing; the file has head.bais");
  CHECK_OK(vtb_weights_bind(&p, w, "", buffers, &missing, &unused, err));
  CHECK(missing == 1 && unused == 1 && (double)weight[5] == 6);
  vtb_weights_put(w, "head.bias", VTB_ELEM_F32, 1, (int64_t[]){3}, data);
  CHECK_REFUSED(vtb_weights_bind(&p, w, NULL, buffers, NULL, NULL, err),
                "tensor head.bias has shape [3], the model wants [2]");
  vtb_weights_free(w);
}

int main(void) {
  RUN(damaged_headers_are_refused_with_the_reason);
  RUN(what_is_no_json_is_refused);
  RUN(nesting_has_a_limit);
  RUN(escapes_of_names_are_utf8);
  RUN(absurd_header_lengths_are_refused);
  RUN(round_trip_keeps_everything_and_is_stable);
  RUN(every_truncation_is_refused_and_no_flipped_byte_crashes);
  RUN(element_types_convert);
  RUN(writing_fails_cleanly_and_keeps_the_old_file);
  RUN(binding_names_what_is_missing_or_misshapen);
  return test_done();
}
