# A target that only prints is two rows: its texts can be dumped at once, and where something should run a sentence says that
# nothing can. Built as tests/ops/test_adding_op.sh does it.
. tests/cli/lib.sh
. tests/ops/copy.sh
mkdir -p "$scratch"/{passes,codegen}
awk '{ print } /^static const vtb_target table/ {
  print "    {.name = \"c-source\", .summary = \"steps\", .pipeline = KERNELS, .places = CPU_PLACES, .costs = CPU_COSTS,"
  print "     .speeds = CPU_SPEEDS, .precisions = FP32},"
}' passes/target.c >"$scratch/passes/target.c"
awk '/^static const vtb_backend table/ {
  print "static vtb_status print_steps(vtb_module *m, vtb_func *f, const vtb_codegen_options *o, vtb_strbuf *out,"
  print "                              vtb_error *err) {"
  print "  vtb_steps s;"
  print "  (void)o;"
  print "  vtb_status status = vtb_steps_make(m, f, &vtb_target_find(\"c-source\")->places, &s, err);"
  print "  for (size_t i = 0; status == VTB_OK && i < s.n_funcs; i++)"
  print "    vtb_strbuf_printf(out, \"%s: %zu steps\\n\", s.funcs[i].func->name, s.funcs[i].list.n);"
  print "  if (status == VTB_OK) vtb_steps_free(&s);"
  print "  return status;"
  print "}"
  print "static const vtb_backend_text steps_text[] = {{\"steps\", print_steps}, {0}};"
}
{ print } /^static const vtb_backend table/ { print "    {.target = \"c-source\", .texts = steps_text}," }
/^#include "codegen\/targets.h"/ { print "#include \"codegen/steps.h\"" }' codegen/targets.c >"$scratch/codegen/targets.c"
objects passes/target.c codegen/targets.c
link vertebra '{passes,codegen}'
vertebra=$work/vertebra
tiny_model
printing="target c-source makes no programs, as cpu, cuda-emulated and cuda do: it has steps (vertebra dump --stage)"

expect 0 "$vertebra" dump "$work/tiny.vtb" --target c-source --stage steps; says "tiny: "
expect 2 "$vertebra" bench "$work/tiny.vtb" --target c-source; says "$printing"
expect 2 "$vertebra" verify "$work/tiny.vtb" --target c-source; says "$printing"
small_images 8 4
one=("$work/tiny.vtb" --data "$work/data" --batch 4 --max-steps 1)
expect 2 "$vertebra" train "${one[@]}" --target c-source --out "$work/no"; says "$printing"
expect 0 "$vertebra" train "${one[@]}" --out "$work/one"
expect 2 "$vertebra" run "$work/tiny.vtb" --target c-source --weights "$work/one/weights.safetensors" no.png; says "$printing"
expect 2 "$vertebra" tune "$work/tiny.vtb" --target c-source; says "$printing"
expect 0 "$vertebra" verify "$work/tiny.vtb" --target all
expect 2 "$vertebra" bench "$work/tiny.vtb" --target c-sauce; says "unknown target 'c-sauce'"
