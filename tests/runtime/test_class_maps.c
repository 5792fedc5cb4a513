/* What classes are called, and in which order, where files beside the folders say. */
#include "runtime/data/dataset.h"
#include "tests/runtime/support.h"

static void save_classes(const char *folder) {
  static const char *const classes[] = {"n01", "n02", "n03"};
  for (int c = 0; c < 3; c++) {
    char name[128];
    snprintf(name, sizeof name, "%s/%s", folder, classes[c]);
    CHECK_OK(vtb_make_dirs(temp_path(name), err));
    snprintf(name, sizeof name, "%s/%s/1.png", folder, classes[c]);
    vtb_image im = vtb_image_new(2, 2, 1);
    memset(im.pixels, c, 4);
    CHECK_OK(vtb_image_save_png(temp_path(name), &im, err));
    vtb_image_free(&im);
  }
}

static void save_text(const char *name, const char *text) {
  write_file(temp_path(name), text, strlen(text));
}

static vtb_dataset *open_all(const char *folder) {
  vtb_dataset *d = NULL;
  CHECK_OK(vtb_dataset_open(temp_path(folder), &(vtb_dataset_options){.split = "all"}, &d, err));
  if (!d) exit(1);
  return d;
}

TEST(lines_that_are_the_folders_give_their_order) {
  save_classes("order");
  save_text("order/classes.txt", "n03\nn99\nn01\nn02\n");
  vtb_dataset *d = open_all("order");
  CHECK(vtb_dataset_classes(d) == 4);
  CHECK(vtb_dataset_label(d, 0) == 2 && vtb_dataset_label(d, 1) == 3 &&
        vtb_dataset_label(d, 2) == 0);
  CHECK_STR(vtb_dataset_class_name(d, 1), "n99");
  vtb_dataset_free(d);
}

TEST(words_behind_the_folders_are_their_names) {
  save_classes("words");
  save_text("words/LOC_synset_mapping.txt", "n02 crane\nn01 tench, Tinca tinca\nn03 crane, bird\n");
  vtb_dataset *d = open_all("words");
  CHECK_STR(vtb_dataset_class_name(d, 0), "tench");
  CHECK_STR(vtb_dataset_class_name(d, 1), "crane");
  CHECK_STR(vtb_dataset_class_name(d, 2), "crane (n03)");
  CHECK(vtb_dataset_label(d, 2) == 2);
  vtb_dataset_free(d);
  save_text("words/classes.txt", "some\nother\nthree\n");
  d = open_all("words");
  CHECK(strstr(vtb_dataset_notes(d), "classes.txt is not used"));
  CHECK_STR(vtb_dataset_class_name(d, 0), "tench");
  vtb_dataset_free(d);
}

TEST(numbers_in_json_are_the_labels) {
  vtb_dataset *d = NULL;
  save_classes("json");
  save_text("json/class_to_idx.json", "{\"n03\": 0, \"n01\": 4, \"n02\": 2, \"more\": 1}");
  d = open_all("json");
  CHECK(vtb_dataset_classes(d) == 5 && vtb_dataset_label(d, 0) == 4 &&
        vtb_dataset_label(d, 2) == 0);
  CHECK_STR(vtb_dataset_class_name(d, 1), "more");
  CHECK_STR(vtb_dataset_class_name(d, 3), "3");
  vtb_dataset_free(d);
  static const struct {
    const char *text, *says;
  } cases[] = {{"{\"n03\": 0, \"n01\": 1}", "no number for the class n02"},
               {"{\"n03\": 0, \"n01\": 1, \"n02\": -1}", "no number for the class n02"},
               {"{\"n03\": 0, \"n01\": 1, \"n02\": 1e300}", "no number for the class n02"},
               {"{\"n03\": 0, \"n01\": 1, \"n02\": 1}", "the number 1 twice"},
               {"[1, 2]", "no JSON object"},
               {"{\"n03\": ", "no JSON object"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    save_text("json/class_to_idx.json", cases[i].text);
    CHECK_REFUSED(vtb_dataset_open(temp_path("json"), NULL, &d, err), cases[i].says);
  }
}

TEST(a_json_list_names_the_folders_in_their_order) {
  vtb_dataset *d = NULL;
  save_classes("list");
  save_text("list/imagenet-simple-labels.json", "[\"crane\", \"tench, t.\", \"crane\"]\n");
  d = open_all("list");
  CHECK_STR(vtb_dataset_class_name(d, 0), "crane");
  CHECK_STR(vtb_dataset_class_name(d, 1), "tench, t.");
  CHECK_STR(vtb_dataset_class_name(d, 2), "crane (n03)");
  CHECK(vtb_dataset_label(d, 0) == 0 && vtb_dataset_label(d, 2) == 2);
  vtb_dataset_free(d);
  save_text("list/classes.json", "[\"n03\", \"n01\", \"more\", \"n02\"]");
  d = open_all("list"); /* the folders themselves: their numbers */
  CHECK(vtb_dataset_classes(d) == 4 && vtb_dataset_label(d, 0) == 1 &&
        vtb_dataset_label(d, 1) == 3);
  vtb_dataset_free(d);
  save_text("list/classes.json", "[\"a\", \"b\"]");
  d = open_all("list");
  CHECK(strstr(vtb_dataset_notes(d), "classes.json is not used: it has 2 names, and there are 3"));
  CHECK_STR(vtb_dataset_class_name(d, 2), "crane (n03)");
  vtb_dataset_free(d);
  static const char *const wrong[] = {"[\"a\", 1, \"b\"]", "{\"a\": 0}", "[\"a\", \"\"]", "[\"a\"",
                                      ""};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    save_text("list/classes.json", wrong[i]);
    CHECK_REFUSED(vtb_dataset_open(temp_path("list"), NULL, &d, err), "no JSON list of names");
  }
}

TEST(names_that_are_not_utf8_are_refused_as_weights_could_not_hold_them) {
  vtb_dataset *d = NULL;
  save_classes("bytes");
  CHECK(rename(temp_path("bytes/n02"), temp_path("bytes/c\xff"
                                                 "1")) == 0);
  CHECK_REFUSED(vtb_dataset_open(temp_path("bytes"), NULL, &d, err), "c\\xff1 is not UTF-8");
}

TEST(lists_of_files_have_labels_by_number_or_name) {
  vtb_dataset *d = NULL, *train = NULL;
  save_classes("listed");
  save_text("listed/train.csv", "\xef\xbb\xbfid,Label,file\r\n"
                                "1,\"a, \"\"b\"\"\",n01/1.png\r\n\r\n2,zebra,\"n02/1.png\"\r\n"
                                "3,zebra,n03/1.png");
  save_text("listed/val.csv", "file,label\nn03/1.png,zebra\n");
  CHECK_OK(
      vtb_dataset_open_pair(temp_path("listed"), &(vtb_dataset_options){0}, NULL, &train, &d, err));
  CHECK(vtb_dataset_count(train) == 3 && vtb_dataset_classes(train) == 2);
  CHECK_STR(vtb_dataset_class_name(train, 0), "a, \"b\"");
  CHECK(vtb_dataset_label(train, 2) == 1 && vtb_ends_with(vtb_dataset_file(train, 1), "n02/1.png"));
  CHECK(vtb_dataset_label(d, 0) == 1 && vtb_dataset_classes(d) == 2);
  vtb_image im = {0};
  CHECK_OK(vtb_dataset_image(train, 1, 0, &im, err));
  CHECK(im.pixels && im.pixels[0] == 1);
  vtb_image_free(&im);
  vtb_dataset_free(d), vtb_dataset_free(train);

  save_text("listed/numbers.csv", "path,target\nn01/1.png,3\nn02/1.png,0\n");
  d = open_all("listed/numbers.csv");
  CHECK(vtb_dataset_classes(d) == 4 && vtb_dataset_label(d, 0) == 3 && !vtb_dataset_named(d));
  vtb_dataset_free(d);
  static const struct {
    const char *text, *says;
  } cases[] = {{"n01/1.png,3\n", "names no columns"},
               {"file,label\n", "lists no images"},
               {"", "names no columns"},
               {"file,label\nn01/1.png,1\nn02/1.png\n", "row 3 has no file or no label"},
               {"file,label\n\"n01/1.png,1\n", "row 2 has no file or no label"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    save_text("listed/bad.csv", cases[i].text);
    CHECK_REFUSED(vtb_dataset_open(temp_path("listed/bad.csv"), NULL, &d, err), cases[i].says);
  }
}

int main(void) {
  RUN(lists_of_files_have_labels_by_number_or_name);
  RUN(lines_that_are_the_folders_give_their_order);
  RUN(words_behind_the_folders_are_their_names);
  RUN(numbers_in_json_are_the_labels);
  RUN(a_json_list_names_the_folders_in_their_order);
  RUN(names_that_are_not_utf8_are_refused_as_weights_could_not_hold_them);
  return test_done();
}
