/* Files of studies: any text is a study or an error, and what is written of it reads back. */
#include "frontend/study/study.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void write_again(const study *s) {
  vtb_strbuf text = {0};
  study again;
  study_text(s, &text);
  vtb_check(study_read_text("again", vtb_strbuf_text(&text), text.n, &again, NULL) == VTB_OK,
            "what was read is written so that it cannot be read:\n%s", vtb_strbuf_text(&text));
  study_free(&again);
  vtb_strbuf_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  study s;
  study_cells cells = {0};
  if (study_read_text("study", (const char *)data, n, &s, NULL) == VTB_OK) {
    study_complete(&s);
    write_again(&s);
    vtb_free(s.text);
    s.text = NULL;
    write_again(&s);
    study_texts_free(&s.where);
    if (study_design(&s, &cells, NULL) == VTB_OK && cells.n) {
      study_texts words = {0};
      study_words(&s, &cells.at[0], STUDY_TRAIN, 0, "f", &words);
      study_texts_free(&words);
    }
  }
  study_cells_free(&cells);
  study_free(&s);
  return 0;
}
