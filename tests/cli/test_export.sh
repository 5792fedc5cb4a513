# `vertebra export`: files of ONNX by the command's own account; wrong use, weights that do not fit, files that cannot be
# written. What the files compute: tests/onnx/check.py.
. tests/cli/lib.sh
tiny_model

# what it says, and the defaults
cd "$work" || exit 1
expect 0 "$VERTEBRA" export tiny.vtb; says "no --weights: the file has random weights"; says "tiny.onnx:"; says "nodes"
[ -s tiny.onnx ] || fail "no tiny.onnx"
expect 0 "$VERTEBRA" export tiny.vtb --json -o small.onnx --half
json file small.onnx bytes "$(stat -c %s small.onnx)" data_bytes 0 batch null
[ "$(stat -c %s small.onnx)" -lt "$(stat -c %s tiny.onnx)" ] || fail "--half saves nothing"
expect 0 "$VERTEBRA" export tiny.vtb --json --batch 4 --external -o out.onnx
json batch 4 data_bytes "$(stat -c %s out.onnx.data)"
expect 0 "$VERTEBRA" export tiny.vtb --external -o out.onnx; says "keep it beside the file"
# the same again, bit for bit, wherever it is written
expect 0 "$VERTEBRA" export tiny.vtb -o again.onnx
cmp -s tiny.onnx again.onnx || fail "two exports of one model differ"
grep -q "head.weight" tiny.onnx || fail "no official name"
grep -q "std/nn.vtb:" tiny.onnx || fail "no places"

# weights: those of the file, under its names
expect 0 "$VERTEBRA" export tiny.vtb --mode scan -o scan.onnx
cmp -s tiny.onnx scan.onnx || fail "--mode changes a model without recurrences"
printf 'damaged' > bad.safetensors
cp tiny.onnx before.onnx
expect 1 "$VERTEBRA" export tiny.vtb --weights bad.safetensors -o tiny.onnx; says "bad.safetensors"
cmp -s tiny.onnx before.onnx || fail "a failure touched the file that was there"
expect 1 "$VERTEBRA" export tiny.vtb --weights missing.safetensors; says "missing.safetensors"

# wrong use
expect 2 "$VERTEBRA" export; says "one MODEL is needed"
expect 2 "$VERTEBRA" export tiny.vtb -o tiny.so; says "call it tiny.onnx"
expect 2 "$VERTEBRA" export tiny.vtb --mode wild; says "unknown mode 'wild'"
expect 2 "$VERTEBRA" export tiny.vtb --batch 0; says "--batch"
expect 1 "$VERTEBRA" export nothing_of_that_name; says "VTB1112"
expect 0 "$VERTEBRA" build tiny.vtb -o tiny.so
expect 2 "$VERTEBRA" export tiny.so; says "compiled already"

# what is drawn has no form there, and the message says what to write
printf 'model m() {\n  input x: tensor[3]\n  output y = x + random(x)\n}\n' >"$work/drawn.vtb"
expect 1 "$VERTEBRA" export "$work/drawn.vtb" -o "$work/drawn.onnx"; says "'random' has no form in ONNX"
says "if training { ... }"

# what cannot be written leaves nothing
expect 1 "$VERTEBRA" export tiny.vtb -o no_such_folder/m.onnx; says "no_such_folder/m.onnx"
mkdir full.onnx
expect 2 "$VERTEBRA" export tiny.vtb -o full.onnx; says "full.onnx"
mkdir other.onnx.data
expect 1 "$VERTEBRA" export tiny.vtb --external -o other.onnx; says "other.onnx.data"; [ ! -e other.onnx ] || fail "half a model"
ls -A | grep -q '\.tmp\|~$' && fail "temporary files are left: $(ls -A)"
exit 0
