/* See train_output.h. */
#include "frontend/cli/train_output.h"

#include "frontend/cli/progress.h"
#include "runtime/train/plot.h"

void train_on_event(void *history, const vtb_train_event *e) {
  train_history *c = history;
  if (e->kind == VTB_TRAIN_STEP) {
    int64_t window = e->total_steps > 50 ? e->total_steps / 50 : 1;
    c->window_sum += c->measured ? e->loss : 100 * e->accuracy;
    if (++c->window_steps >= window) {
      vtb_vec_push(&c->train_at, (double)e->step);
      vtb_vec_push(&c->train, c->window_sum / (double)c->window_steps);
      c->window_sum = 0;
      c->window_steps = 0;
    }
  }
  if (e->kind == VTB_TRAIN_EPOCH && e->evaluated) {
    vtb_vec_push(&c->eval_at, (double)e->step);
    vtb_vec_push(&c->eval, e->eval ? e->eval_loss : 100 * e->eval_top1);
  }
  if (e->kind == VTB_TRAIN_EPOCH && e->train && e->eval && vtb_measured_main(e->train) >= 0) {
    c->score_name = vtb_measured_score_name(e->train);
    vtb_vec_push(&c->score_at, (double)e->step);
    vtb_vec_push(&c->score, vtb_measured_score(e->train));
    vtb_vec_push(&c->eval_score, vtb_measured_score(e->eval));
  }
  if (!c->quiet) cli_progress_train(e);
}

void train_save_curve(const train_history *c, const char *path) {
  vtb_plot_series series[2] = {
      {.name = "training", .x = c->train_at.at, .y = c->train.at, .n = c->train_at.n},
      {.name = c->watched, .x = c->eval_at.at, .y = c->eval.at, .n = c->eval_at.n}};
  vtb_plot p = {.title = c->measured ? "loss" : "top-1 accuracy",
                .x_label = "update",
                .y_label = c->measured ? "" : "%",
                .series = series,
                .n_series = 2};
  vtb_error err = {0};
  if (c->score_at.n > 1) {
    p.title = c->score_name;
    series[0] = (vtb_plot_series){"training", c->score_at.at, c->score.at, c->score_at.n};
    series[1] = (vtb_plot_series){c->watched, c->score_at.at, c->eval_score.at, c->score_at.n};
  }
  if (c->train_at.n > 1 && vtb_plot_save(&p, path, &err) != VTB_OK) cli_error(&err);
}

void train_history_free(train_history *h) {
  vtb_vec_free(&h->train_at);
  vtb_vec_free(&h->train);
  vtb_vec_free(&h->eval_at);
  vtb_vec_free(&h->eval);
  vtb_vec_free(&h->score_at);
  vtb_vec_free(&h->score);
  vtb_vec_free(&h->eval_score);
}

static void add_measures(cJSON *j, const char *name, const vtb_measured_list *l) {
  cJSON *object = l->n ? cJSON_AddObjectToObject(j, name) : NULL;
  for (int i = 0; i < l->n; i++) cJSON_AddNumberToObject(object, l->at[i].name, l->at[i].value);
}

static void report_json(const vtb_train_result *r, const char *weights) {
  cJSON *j = cJSON_CreateObject();
  cJSON_AddNumberToObject(j, "steps", (double)r->steps);
  cJSON_AddNumberToObject(j, "epochs", (double)r->epochs);
  cJSON_AddBoolToObject(j, "finished", r->finished);
  cJSON_AddNumberToObject(j, "loss", r->loss);
  if (!r->train.n) {
    cJSON_AddNumberToObject(j, "eval_top1", r->eval_top1);
    cJSON_AddNumberToObject(j, "eval_top5", r->eval_top5);
  }
  add_measures(j, "train", &r->train);
  if (r->eval.n) cJSON_AddNumberToObject(j, "eval_loss", r->eval_loss);
  add_measures(j, "eval", &r->eval);
  cJSON_AddNumberToObject(j, "skipped", (double)r->skipped);
  cJSON_AddNumberToObject(j, "seconds", r->seconds);
  cJSON_AddNumberToObject(j, "images_per_second", r->images_per_second);
  cJSON_AddStringToObject(j, "weights", weights);
  cli_print_json(j);
}

void train_report(const train_options *o, const vtb_train_result *r, bool complete,
                  const char *weights) {
  if (o->model.json) {
    report_json(r, weights);
    return;
  }
  const vtb_dataset *watched = o->train.eval_set;
  printf("%lld updates in %.0f s (%.0f %s/s), loss %.4f, ", (long long)r->steps, r->seconds,
         r->images_per_second, vtb_dataset_has_images(o->train.train_set) ? "img" : "samples",
         r->loss);
  const char *split = watched ? vtb_dataset_split(watched) : NULL;
  if (!watched) {
    printf("not evaluated");
  } else if (r->train.n) {
    char prefix[16];
    snprintf(prefix, sizeof prefix, "%s ", split);
    printf("%s loss %.4f", split, r->eval_loss);
    cli_print_measures(&r->eval, prefix);
  } else {
    printf("%s top-1 %.2f %%, top-5 %.2f %%", split, 100 * r->eval_top1, 100 * r->eval_top5);
  }
  printf("%s\nweights: %s\n", r->finished || complete ? "" : " (stopped early; --resume continues)",
         weights);
  if (r->skipped)
    printf("%lld batches were skipped, whose gradients overflowed at the loss scale of the time\n",
           (long long)r->skipped);
}
