/* vertebra doctor: what this machine offers, what is missing and how to get it. */
#include "frontend/cli/cli.h"

#include "codegen/cpu/host/link.h"
#include "codegen/cuda/compile/nvrtc.h"
#include "codegen/emulator/emulator.h"
#include "frontend/cli/machine/doctor_ranks.h"
#include "runtime/cuda/group.h"
#include "runtime/ranks/ranks.h"

#include <string.h>

typedef struct finding {
  const char *name;
  bool ok, needed;
  char text[256];
} finding;

/* A probe writes what it found, or what is missing. */
static void probe(finding *f, bool (*find)(vtb_strbuf *)) {
  vtb_strbuf text = {0};
  f->ok = find(&text);
  snprintf(f->text, sizeof f->text, "%s", text.at ? text.at : "");
  vtb_strbuf_free(&text);
}

static bool probe_processor(vtb_strbuf *out) {
  vtb_error err = {0};
  bool ok = vtb_codegen_describe_host(out, &err) == VTB_OK;
  if (!ok) vtb_strbuf_puts(out, err.text);
  return ok;
}

static bool probe_driver(vtb_strbuf *out) { return vtb_cuda_probe_driver(cli_how(), out); }

static bool probe_emulator(vtb_strbuf *out) {
  vtb_error err = {0};
  bool ok = vtb_emulator_available(NULL, &err);
  vtb_strbuf_puts(out, ok ? "a C++ compiler for --target cuda-emulated" : err.text);
  return ok;
}

static bool probe_cache(vtb_strbuf *out) {
  char *folder = NULL;
  vtb_error err = {0};
  bool ok = vtb_cache_make("cuda", &folder, &err) == VTB_OK;
  vtb_strbuf_puts(out, ok ? folder : err.text);
  vtb_free(folder);
  return ok;
}

static void probe_dataset(finding *f) {
  vtb_error err = {0};
  vtb_dataset *d;
  if (vtb_dataset_open("fashion-mnist", NULL, &d, &err) == VTB_OK) {
    f->ok = true;
    snprintf(f->text, sizeof f->text, "%lld images", (long long)vtb_dataset_count(d));
    vtb_dataset_free(d);
  } else {
    snprintf(f->text, sizeof f->text, "not found: apt-get install dataset-fashion-mnist");
  }
}

static void probe_models(finding *f) {
  const vtb_search *s = vtb_search_default();
  f->ok = false;
  for (size_t i = 0; i < s->n_dirs && !f->ok; i++) {
    if (!vtb_path_is_dir(s->dirs[i])) continue;
    f->ok = true;
    snprintf(f->text, sizeof f->text, "%s", s->dirs[i]);
  }
  if (!f->ok) snprintf(f->text, sizeof f->text, "no models folder: set VTB_MODELS");
}

vtb_status cli_cmd_doctor(int argc, char **argv) {
  bool json = false, ranks = false;
  const cli_opt opts[] = {
      {"--ranks", CLI_FLAG, &ranks, NULL,
       "whether processes can talk, and how fast: mpirun -n 2 vertebra doctor --ranks"},
      {"--json", CLI_FLAG, &json, NULL, "machine-readable output"}};
  cli_list rest = {0};
  int parsed = cli_parse("doctor", opts, CLI_COUNT(opts), argc, argv, &rest);
  if (parsed) return parsed < 0 ? VTB_OK : (vtb_status)parsed;
  if (rest.n) return cli_usage_error("doctor", "takes no arguments");

  if (ranks) return cli_doctor_ranks();

  finding list[] = {{"processor", true, true, ""},       {"threads", true, true, ""},
                    {"models", false, true, ""},         {"fashion-mnist", false, false, ""},
                    {"cuda driver", false, false, ""},   {"nvrtc", false, false, ""},
                    {"cublasLt", false, false, ""},      {"nccl", false, false, ""},
                    {"cuda emulator", false, false, ""}, {"kernel cache", true, false, ""},
                    {"linker", false, false, ""},        {"mpi", false, false, ""}};
  probe(&list[0], probe_processor);
  snprintf(list[1].text, sizeof list[1].text, "%d", vtb_default_threads());
  probe_models(&list[2]);
  probe_dataset(&list[3]);
  probe(&list[4], probe_driver);
  probe(&list[5], vtb_cuda_describe_nvrtc);
  probe(&list[6], vtb_cuda_probe_cublaslt);
  probe(&list[7], vtb_cuda_probe_nccl);
  probe(&list[8], probe_emulator);
  probe(&list[9], probe_cache);

  probe(&list[10], vtb_link_probe);
  probe(&list[11], vtb_ranks_probe_mpi);

  bool healthy = true;
  doc *d = doc_new(doc_object(F("version", VTB_VERSION)));
  for (int i = 0; i < CLI_COUNT(list); i++) {
    const finding *f = &list[i];
    healthy &= f->ok || !f->needed;
    doc_say(d, 24, "%-14s %-8s %s", f->name,
            f->ok       ? "ok"
            : f->needed ? "MISSING"
                        : "absent",
            f->text);
    doc_put(d->json, F(f->name, doc_object(F("ok", f->ok), F("needed", f->needed),
                                           F("text", (const char *)f->text))));
  }
  cli_tell(d);
  return healthy ? VTB_OK : VTB_E_DEVICE;
}
