/* Models that are linked into the program: the image of an object, in memory, runs as a file does,
 * and what is wrong with it is said. */
#include "runtime/vertebra.h"
#include "tests/runtime/linked_file.h"

static const linked_code of_another_build = {sizeof(vtb_artefact_table), 1, 43, {linked_entry}};

static vtb_status open_program(program *p, bool verify, vtb_model **m, vtb_error *err) {
  vtb_open_options o = {.size = sizeof o, .verify = verify};
  p->linked.bytes = &p->bytes;
  return vtb_model_open_static((const vtb_static_model *)&p->linked, &o, m, err);
}

TEST(what_is_linked_in_runs) {
  program p = link_sample(make_object());
  vtb_model *m = NULL;
  vtb_session *s = NULL;
  vtb_array x = {.size = sizeof x}, y = {.size = sizeof y}, w = {.size = sizeof w};
  CHECK_OK(open_program(&p, true, &m, err));
  CHECK_OK(vtb_model_verify(m, err));
  CHECK_STR(vtb_model_meta(m, "classes"), "[\"cat\"]");
  CHECK_OK(vtb_model_array(m, 0, 1, &w, err)); /* where it lies: nothing is copied */
  CHECK((unsigned char *)w.data > p.image && (unsigned char *)w.data < p.image + p.bytes);
  CHECK(((uintptr_t)w.data - (uintptr_t)p.image) % 4 == 0);
  CHECK_OK(vtb_session_open(m, NULL, &s, err));
  vtb_model_release(m);
  CHECK_OK(vtb_session_array(s, VTB_ARRAY_INPUT, NULL, &x, err));
  for (int i = 0; i < 64; i++) ((float *)x.data)[i] = (float)(i % 5);
  CHECK_OK(vtb_session_run(s, 0, err));
  CHECK_OK(vtb_session_array(s, VTB_ARRAY_OUTPUT, NULL, &y, err));
  for (int i = 0; i < 64; i++) CHECK(((float *)y.data)[i] == 5 * (float)(i % 5) + (float)i);
  vtb_session_close(s);
  free(p.image);
}

/* As a file an object says what it has, and where its code runs. */
TEST(an_object_is_read_as_a_file) {
  static const char head[64] = {0x7f, 'E', 'L', 'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  size_t n;
  vtb_model *m = NULL;
  vtb_session *s = NULL;
  const char *path = make_object();
  char *file = read_file(path, &n);
  CHECK_REFUSED(vtb_model_open(path, NULL, &m, err),
                "bytes, but was built with"); /* a .so before */
  memcpy(file, head, sizeof head);
  write_file(path, file, n);
  CHECK_OK(vtb_model_open(path, NULL, &m, err));
  CHECK_OK(vtb_model_verify(m, err));
  CHECK_REFUSED(vtb_session_open(m, NULL, &s, err), "is an object, whose code runs in programs");
  vtb_model_release(m);
  uint64_t too_many = n;
  memcpy(file + n - VTB__TRAILER_BYTES + 24, &too_many, 8);
  write_file(path, file, n);
  CHECK_REFUSED(vtb_model_open(path, NULL, &m, err), "damaged");
  write_file(path, file, 100);
  CHECK_REFUSED(vtb_model_open(path, NULL, &m, err), "no manifest of vertebra's");
  free(file);
}

TEST(what_does_not_belong_together_is_refused) {
  program p = link_sample(make_object());
  vtb_model *m = NULL;
  vtb_open_options wrong = {0};
  CHECK_REFUSED(vtb_model_open_static(NULL, NULL, &m, err), "opened by its name");
  CHECK_REFUSED(vtb_model_open_static((const vtb_static_model *)&p.linked, &wrong, &m, err),
                "sizeof(vtb_open_options)");
  p.linked.format++;
  CHECK_REFUSED(open_program(&p, false, &m, err), "build it again");
  p.linked.format--, p.linked.size = 8;
  CHECK_REFUSED(open_program(&p, false, &m, err), "build it again");
  p.linked.size = sizeof p.linked;
  p.linked.table = (const vtb_artefact_table *)(const void *)&of_another_build;
  CHECK_REFUSED(open_program(&p, false, &m, err), "sample: code and manifest are of different");
  p.linked.table = (const vtb_artefact_table *)(const void *)&linked_table;
  p.bytes--;
  CHECK_REFUSED(open_program(&p, false, &m, err), "sample is not a file that");
  p.bytes++;
  p.image[p.bytes - VTB__TRAILER_BYTES - 3] ^= 1; /* of the manifest */
  CHECK_REFUSED(open_program(&p, false, &m, err), "is damaged");
  p.image[p.bytes - VTB__TRAILER_BYTES - 3] ^= 1;
  p.image[70] ^= 1; /* of a blob: found by who asks */
  CHECK_OK(open_program(&p, false, &m, err));
  CHECK_REFUSED(vtb_model_verify(m, err), "is damaged");
  vtb_model_release(m);
  m = NULL;
  CHECK_REFUSED(open_program(&p, true, &m, err), "is damaged");
  CHECK(!m);
  free(p.image);
}

int main(void) {
  RUN(what_is_linked_in_runs);
  RUN(an_object_is_read_as_a_file);
  RUN(what_does_not_belong_together_is_refused);
  return test_done();
}
