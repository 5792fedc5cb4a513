# Checkpoints of PyTorch are shown, unwrapped and converted; the hostile one is refused, and a failed conversion leaves nothing.
. tests/cli/lib.sh
given=tests/runtime/weights

expect 0 "$VERTEBRA" weights $given/training.pth
says "9 tensors, 30 numbers, 124 bytes: 8 F32, 1 I64"
says 'took "model"; left out "model_ema", "optimizer"'
says "1.num_batches_tracked  I64             1  []"
says "torch.args    lr=0.001, model='a_model'"
expect 0 "$VERTEBRA" weights $given/parallel.pth; says 'took "module." off the names of all 9 tensors'
expect 0 "$VERTEBRA" weights --json $given/folder
says '"name":	"0.weight"'; says '"hf.preprocessor"'; says '9 tensors of 2 files'
expect 1 "$VERTEBRA" weights $given/call0_2.pth; says "calls posix.system, which no weights need: refused"
expect 1 "$VERTEBRA" weights $given/teachers.pth; says '"student", "teacher"'; says "convert --part NAME"
expect 1 "$VERTEBRA" weights "$work/none.pth"; says "cannot open"
mkfifo "$work/pipe"
expect 1 timeout 10 "$VERTEBRA" weights "$work/pipe"; says "is not a regular file"
expect 2 "$VERTEBRA" weights; says "one FILE or folder is needed"

# no line is wider than the window but a name that alone is
COLUMNS=60 expect 0 "$VERTEBRA" weights $given/training.pth
wide=$(awk 'NR > 1 && length > 60' "$work/out"); [ -z "$wide" ] || fail "wider than 60 columns: $wide"

# converting and showing again is the same list
expect 0 "$VERTEBRA" convert $given/training.pth "$work/a.safetensors"; says 'took "model"'
rows() { "$VERTEBRA" weights "$1" | awk '$2 ~ /^[FIB][0-9F]/' | sort; }
[ "$(rows $given/training.pth)" = "$(rows "$work/a.safetensors")" ] || fail "converted tensors differ"
[ "$(rows $given/training.pth | wc -l)" = 9 ] || fail "not 9 rows"
expect 0 "$VERTEBRA" weights "$work/a.safetensors"; says "torch.epoch"; says "format"
expect 0 "$VERTEBRA" convert $given/teachers.pth "$work/b.safetensors" --part student; says 'took "student"'
expect 0 "$VERTEBRA" convert $given/training.pth "$work/c.safetensors" --ema-weights --dtype bf16
says "8 of 9 tensors converted to BF16"
expect 0 "$VERTEBRA" weights "$work/c.safetensors"; says "8 BF16"

# under the names of a model, by the rules beside it
cat > "$work/net.vtb" << 'END'
use std.nn
use std.conv

model net(classes: int = 2) {
  input image: image[2, 1, 1]
  x = linear("0", pixels(image), 3)
  output y = linear("head", mean(x, axis = "tokens"), classes)
}
END
printf 'names "torch"\n  2.* -> head.*\n' > "$work/net.names"
expect 1 "$VERTEBRA" convert $given/training.pth "$work/e.safetensors" --model "$work/net.vtb"; says "1.weight"
[ ! -e "$work/e.safetensors" ] || fail "what does not fit left a file"
expect 0 "$VERTEBRA" convert $given/training.pth "$work/e.safetensors" --model "$work/net.vtb" --allow-unused
says "loaded 4 of 4"
expect 0 "$VERTEBRA" weights "$work/e.safetensors"; says "head.weight  F32             6  [2, 3]"; silent_about "2.weight"
expect 0 "$VERTEBRA" build "$work/net.vtb" --weights "$work/e.safetensors" -o "$work/net.so"

# refused: a type, an ending, a part, a hostile file; what is there stays
expect 2 "$VERTEBRA" convert $given/good.pth "$work/d.safetensors" --dtype int8; says "--dtype is f32, f16 or bf16"
expect 2 "$VERTEBRA" convert $given/good.pth "$work/d.pth"; says "OUT writes .safetensors"
expect 1 "$VERTEBRA" convert $given/good.pth "$work/d.safetensors" --part head; says 'no tensors under "head"'
cp "$work/a.safetensors" "$work/kept.safetensors"
expect 1 "$VERTEBRA" convert $given/call0_4.pth "$work/a.safetensors"
cmp -s "$work/a.safetensors" "$work/kept.safetensors" || fail "a refused file replaced the output"
expect 5 "$VERTEBRA" convert $given/large.pth "$work/d.safetensors" --dtype f16
says "tensor a has 2 numbers beyond 65504"; says "--dtype bf16"
[ ! -e "$work/d.safetensors" ] || fail "a failed conversion left a file"
ls -A "$work" | grep -q tmp- && fail "a temporary file is left"
true
