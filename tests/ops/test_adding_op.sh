# An elementwise op is one row: softsign and bounded, added to a copy of ir/scalar_ops.def, pass every test that runs over
# all rows and work in the language, in the interpreter, in gradients, on the CPU and in CUDA. Rows that lack something
# do not build.
#
# Only what depends on the rows is compiled again, against the copy: the new rows are the last ops, so that what merely
# names an op stays as it is. All else is linked from the build folder.
. tests/cli/lib.sh
. tests/ops/copy.sh
"$VTB_BUILD/tests/codegen_test_cuda_scalar_ops" >/dev/null
[ $? != 77 ] || { echo "skipped: no compiler for emulated kernels"; exit 77; }
mkdir -p "$scratch/ir" "$scratch/codegen/cuda" "$work"/obj/{ir,passes,codegen,frontend}

rows() { cat ir/scalar_ops.def - >"$scratch/ir/scalar_ops.def"; }
rows <<'END'
VTB_SCALAR(softsign, 1, "x / (1 + abs(x))", DERIVED,
           formula, formula, formula, floats, cheap, 3, "+", any, -1e30, 1e30, real,
           "from -1 to 1, slower than tanh")
VTB_SCALAR(bounded, 3, "min(max(x, y), z)", DERIVED,
           formula, formula, formula, floats, cheap, 2, "+++", any, -1e38, 1e38, same,
           "x, not below y and not above z")
END

# ---- compiling and linking against the copy ---------------------------------------------------------------------------
depends='include "ir/(scalar_)?ops.def"|VTB_OP_COUNT'
headers=$(grep -lE "$depends" $(find ir passes codegen frontend runtime -name '*.h') | sort | tr '\n' ' ')
[ "$headers" = "ir/ops.h passes/grad/autodiff.h passes/grad/tangent.h " ] || fail "headers that depend on the rows: $headers
passes/grad only declares; what includes another one has to be compiled here too"

cc=$(command_of ir/ops.c | cut -d' ' -f1)
generate() { # what the build makes of the rows
  "$cc" -O1 -D_GNU_SOURCE -I"$scratch" -I. ir/formula/*.c -o "$work/formulas" -lm &&
    "$work/formulas" c >"$scratch/ir/scalar_ops.gen.h" &&
    "$work/formulas" cuda codegen/cuda/text/{intrinsics,library}.cuh >"$scratch/codegen/cuda/library.cuh"
}
generate || fail "what the build makes of the rows"
texts=$(ls codegen/cuda/text/* | grep -v /library.cuh | sed "s#^#$tree/#" | tr '\n' ';')
texts+="$tree/codegen/emulator/abi.h;$tree/codegen/emulator/device.hpp;$scratch/codegen/cuda/library.cuh"
cmake "-DOUT=$scratch/texts.c" -DROOM=cuda "-DFILES=$texts" -P codegen/embed.cmake || fail "the texts"
"$cc" -I. -c "$scratch/texts.c" -o "$work/obj/codegen/texts.o" || fail "the texts"
# shellcheck disable=SC2046
objects $(grep -lE "$depends" $(find ir passes codegen frontend runtime -name '*.c' -not -path 'ir/formula/*'))

# ---- it works ---------------------------------------------------------------------------------------------------------
all_rows() { # TEST LIBRARIES
  link "tests/${1/\//_}" "$2" "tests/$1.c"
  expect 0 "$work/${1/\//_}"
  says " 0 failures"
}
all_rows ir/test_scalar_ops ir
all_rows passes/test_scalar_ops '{ir,passes}'
all_rows codegen/test_scalar_ops '{ir,passes,codegen}'
all_rows codegen/test_cuda_scalar_ops '{ir,passes,codegen}'
link vertebra '{ir,passes,codegen,frontend}'
vertebra=$work/vertebra
expect 0 "$vertebra" verify tests/ops/softsign.vtb; says "gradients"; says "chunkwise(7)"
expect 0 "$vertebra" verify tests/ops/softsign.vtb --target cuda-emulated; says "gradients"
expect 0 "$vertebra" dump tests/ops/softsign.vtb --stage cuda; says "vtb_softsign("; says "vtb_bounded("
expect 0 "$vertebra" dump tests/ops/softsign.vtb --stage ir; says "softsign %"; says "value = 3"

# ---- what a row lacks, the build says ---------------------------------------------------------------------------------
not_generated() { # MESSAGE, the row on stdin
  rows
  expect 1 generate
  says "$1"
}
not_compiled() { # FILE MESSAGE, the row on stdin
  rows
  expect 0 generate
  expect 1 compile "$1" -fsyntax-only
  says "$2"
}
traits='floats, cheap, 3, "+", any, -1e30, 1e30, real, "slower than tanh"'
not_generated "softsign: no row above has the op 'abz'" \
  <<<"VTB_SCALAR(softsign, 1, \"x / (1 + abz(x))\", DERIVED, formula, formula, formula, $traits)"
not_generated "softsign: a primitive op needs every form by hand" \
  <<<"VTB_SCALAR(softsign, 1, PRIMITIVE, \"d\", hand, formula, hand, $traits)"
not_generated "softsign: codegen/cuda/text has no vtb_softsign" \
  <<<"VTB_SCALAR(softsign, 1, \"x / (1 + abs(x))\", DERIVED, formula, formula, hand, $traits)"
not_generated "softsign: no operands between 1 and 1" \
  <<<"VTB_SCALAR(softsign, 1, \"x\", DERIVED, formula, formula, formula, floats, cheap, 3, \"+\", any, 1, 1, real, \"x\")"
not_compiled codegen/cpu/loop/math.c op_softsign \
  <<<"VTB_SCALAR(softsign, 1, \"x / (1 + abs(x))\", DERIVED, formula, hand, formula, $traits)"
not_compiled ir/scalar.c eval_softsign \
  <<<"VTB_SCALAR(softsign, 1, \"x / (1 + abs(x))\", DERIVED, hand, formula, formula, $traits)"
not_compiled ir/scalar.c "monotone has a sign for each operand" \
  <<<"VTB_SCALAR(softsign, 1, \"x / (1 + abs(x))\", DERIVED, formula, formula, formula, ${traits/+/++})"
not_compiled codegen/cpu/loop/expr.c int_softsign \
  <<<"VTB_SCALAR(softsign, 1, \"x / (1 + abs(x))\", DERIVED, formula, formula, formula, ${traits/floats/ints})"
rows <<<"VTB_SCALAR(softsign, 1, \"x / (1 + abs(x))\", DERIVED, formula, formula, formula, ${traits%, *})"
expect 1 compile ir/scalar.c -fsyntax-only
says "16 arguments"
