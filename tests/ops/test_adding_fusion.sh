# A fusion is one row: squeeze-and-excite, of a program whose products take nothing in, gets its activations into the kernels of its
# products by a row of ir/kernels.def, with the reference's numbers. A row of a word, an anchor or a stage that does not exist does not
# compile, and says which line. Built as tests/ops/test_adding_op.sh does it.
. tests/cli/lib.sh
. tests/ops/copy.sh
mkdir -p "$scratch/ir"
cat > "$work/gated.vtb" <<'END'
use std.nn
model gated(dim: int = 32, kinds: int = 10) {
  input image: image[1, 16, 16]
  x = patch_embed("embed", image, dim, 4x4, 4x4)
  x += squeeze_excite("gate", linear("proj", x, dim), 8)
  output y = linear("head", mean(x, axis = "tokens"), kinds)
}
END
rows() { # ROW: the table with it in place of the row of products
  awk -v row="$1" '/^VTB_FUSION\("products"/ { print row; skip = 1 } !skip { print } /\)$/ { skip = 0 }' ir/kernels.def >"$scratch/ir/kernels.def"
}
excite='VTB_FUSION("excite", PRODUCTS, PRODUCT, product, NOTHING, WORDS(W(elementwise)), NOTHING, FACTORS)'

# what does not exist is an error at the row
for wrong in 's/W(elementwise)/W(gate)/' 's/PRODUCT, product/PRODUCT, gate/' 's/PRODUCTS/GATES/' 's/PRODUCT, product/GATE, product/'; do
  rows "$(sed "$wrong" <<<"$excite")"
  line=$(grep -n '"excite"' "$scratch/ir/kernels.def" | cut -d: -f1)
  ! compile passes/fuse/grow.c -o "$work/no.o" 2>"$work/err" || fail "compiles: $wrong"
  grep -q "kernels.def:$line:" "$work/err" || fail "no line for $wrong: $(cat "$work/err")"
done

build() { # ROW PROGRAM
  rows "$1"
  objects passes/fuse/grow.c passes/fuse/choice.c
  link vertebra passes
  mv "$work/vertebra" "$work/$2"
}
decisions() { expect 0 "$work/$1" dump "$work/gated.vtb" --target cuda --precision bf16-all --batch 4 --stage decisions; }
build "" without; decisions without; ! grep -qE '^(excite|products) ' "$work/out" || fail "a row that is not there: $out"
build "$excite" with; decisions with; says "excite           fc1"
VTB_FUSIONS=-excite decisions with; says "but excite"
VTB_FUSIONS=-none expect 2 "$work/with" dump "$work/gated.vtb" --stage launches; says "excite"
expect 0 "$work/with" verify "$work/gated.vtb" --target cpu
"$work/with" doctor | grep -q '^cuda emulator  *ok' || exit 0
expect 0 "$work/with" verify "$work/gated.vtb" --target cuda-emulated --precision bf16-all
